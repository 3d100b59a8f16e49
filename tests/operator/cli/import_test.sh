#!/usr/bin/env bash
# `lockstep import` as a person uses it: what goes to which stream, and its exit statuses.   usage: import_test.sh BIN_DIR
set -euo pipefail
. "$(dirname "$0")/lib.sh"

cat >ds.json <<'J'
{
  "train_batch_size": 16,
  "train_micro_batch_size_per_gpu": 2,
  "zero_optimization": {"stage": 2, "overlap_comm": true},
  "wandb": {"enabled": true, "project": "mine"}
}
J
expect_status "what is mapped or changed is imported" "$(run whole import ds.json)" 0
expect_text "the manifest is on standard output" whole.out 'strategy: zero2'
expect_text "with what only the user knows" whole.out '# CHANGE: '
expect_text "the lists are on standard error" whole.log 'zero_optimization.stage (line 4) -> spec.train.parallelism.strategy'
expect_text "what has no twin is named" whole.log 'wandb (line 5) -> spec.train.logging.tensorboard'
expect_status "the manifest is valid" "$(run valid validate whole.out)" 0
expect_status "--set takes the place of CHANGE" "$(run set import ds.json --set train.steps=7 --set ranks=4)" 0
expect_text "in the manifest" set.out 'steps: 7'
[ "$(grep -c CHANGE set.out)" -lt "$(grep -c CHANGE whole.out)" ] || fail "CHANGE stays where --set spoke"

sed 's/"overlap_comm": true/"overlap_comm": true, "zero_quantized_gradients": true/' ds.json >lossy.json
expect_status "a refused key has a status of its own" "$(run refused import lossy.json)" 4
expect_text "it is named with its line" refused.log 'zero_optimization.zero_quantized_gradients (line 4)'
expect_text "and stands in the manifest" refused.out '#   zero_optimization.zero_quantized_gradients (line 4)'
expect_status "which is valid without it" "$(run without validate refused.out)" 0

sed 's/"stage": 2/"stage": 9/' ds.json >broken.json
expect_status "a broken file is refused" "$(run broken import broken.json)" 3
expect_text "where it is broken" broken.log 'broken.json:4: zero_optimization.stage: must be 0, 1, 2 or 3, found 9'
[ ! -s broken.out ] || fail "a manifest came of a broken file"
expect_status "so is one that is not there" "$(run absent import absent.json)" 3
expect_text "by name" absent.log 'absent.json: no such file'
echo 'a: 1' >other.yaml
expect_status "and one of no tool that it knows" "$(run other import other.yaml)" 3
expect_text "with what to do" other.log '--from'
expect_status "a wrong --from is a wrong command line" "$(run from import ds.json --from nothing)" 2
expect_status "a wrong --set is named" "$(run typo import ds.json --set train.stepz=3)" 3
expect_text "with the field" typo.log 'train.stepz'

expect_status "machines read one object" "$(run json import ds.json --output json)" 0
expect_text "with the lists" json.out '"refused": []'
expect_text "and the manifest" json.out '"strategy": "zero2"'

expect_status "a command line stands behind --" "$(run line import -- torchrun --nproc-per-node 2 train.py --lr 0.1)" 0
expect_text "its script becomes the job's command" line.out 'args: ["train.py", "--lr", "0.1"]'
expect_text "what it cannot say is marked" line.out 'image: "registry.example/train:1"  # CHANGE'
expect_status "--set may stand before it" "$(run set-line import --set image=mine:1 -- torchrun train.py)" 0
expect_text "and takes one value" set-line.out 'image: "mine:1"'
expect_status "an unknown flag is refused" "$(run flag import -- torchrun --nproc 2 train.py)" 3
expect_text "by name" flag.log '--nproc: unknown flag'
expect_status "--from with a command line is a wrong command line" "$(run both import --from deepspeed -- torchrun train.py)" 2
printf 'a slots=2\nb slots=2\n' >hosts
expect_status "a host file is read" "$(run hosts import -- deepspeed --hostfile hosts train.py)" 0
expect_text "for ranks" hosts.out 'ranks: 4'
expect_status "one that is not there is refused" "$(run no-hosts import -- deepspeed --hostfile no-hosts train.py)" 3
expect_text "with the reason" no-hosts.log '--hostfile: no-hosts: '
expect_status "so is a configuration that is a folder" "$(run folder import -- accelerate launch --config_file . train.py)" 3
expect_text "with its reason" folder.log '--config_file: .: is a folder'
# Stand-ins for the launchers: what a rank would start them with.
mkdir path
for launcher in torchrun accelerate; do printf '#!/bin/sh\necho "%s $*"\n' "$launcher" >path/$launcher; done
chmod +x path/*
export PATH=$work/path:$PATH
expect_status "an imported torchrun line runs" "$(run ran run line.out --output ran)" 0
grep -qx 'torchrun train.py --lr 0.1' ran/logs/attempt-0/rank-1.log || fail "torchrun was not started as imported"
expect_status "an accelerate line is imported" "$(run accelerate import -- accelerate launch --num_processes 2 --mixed_precision bf16 a.py -x)" 0
expect_status "and runs" "$(run launched run accelerate.out --output launched)" 0
grep -qE '^accelerate launch --num_processes 2 --num_machines [12] --machine_rank [01] --main_process_ip 127.0.0.1 --main_process_port [0-9]+ --mixed_precision bf16 a.py -x$' \
  launched/logs/attempt-0/rank-1.log || fail "accelerate was not started as imported: $(cat launched/logs/attempt-0/rank-1.log)"
