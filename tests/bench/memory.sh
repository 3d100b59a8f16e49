#!/usr/bin/env bash
# Prints the peak resident memory of a rank beside PyTorch's on the pinned wheel: DDP and FSDP2 in eager mode, Accelerate, and
# DeepSpeed's ZeRO stages, two ranks of one thread, the same weights, rows, batch and optimizer in fp32. Fails only where the losses
# do not agree, since then it compares nothing. Needs the packages of `tools/setup.sh bench`; `make bench-memory` does both.
# usage: memory.sh [BIN_DIR]
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=${1:-build/bin} work=$(mktemp -d) steps=4
trap 'rm -rf "$work"' EXIT
python=$(tools/setup.sh print-site)/../../../bin/python
peers=$(tools/setup.sh print-peers)
port=$((20000 + RANDOM % 10000))

# run_ours NAME SETTING...: trains into $work/NAME.
run_ours() {
  local name=$1
  shift
  "$bin/lockstep" run "$work/job.yaml" --output "$work/$name" "$@" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
}

# run_peer KIND MICRO_BATCH: two ranks; leaves what they print in $work/KIND-RANK. Each sees only the packages it needs.
run_peer() {
  local rank pids=() packages=
  case $1 in
    accelerate) packages=$peers/accelerate ;;
    zero?) packages=$peers/deepspeed ;;
  esac
  port=$((port + 1))
  for rank in 0 1; do
    RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 LOCAL_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port OMP_NUM_THREADS=1 \
      PYTHONPATH=$packages PATH=${packages:+$packages/bin:}$PATH TORCH_EXTENSIONS_DIR=$peers/extensions \
      "$python" tests/bench/memory_peer.py "$1" "$work/start/model" "$work/rows.jsonl" $steps "$2" 1e-3 >"$work/$1-$rank" 2>"$work/log-$rank" &
    pids+=($!)
  done
  for rank in 0 1; do wait "${pids[$rank]}" || { cat "$work/log-$rank"; exit 1; }; done
}

# compare NAME HIDDEN LAYERS HEADS FF LENGTH MICRO_BATCH
compare() {
  local name=$1 hidden=$2 layers=$3 heads=$4 ff=$5 length=$6 micro_batch=$7
  rm -rf "${work:?}"/*
  "$python" - "$work/rows.jsonl" "$length" $((2 * micro_batch * steps)) <<'PY'
import json, random, sys
random.seed(1)
with open(sys.argv[1], "w") as file:
    for _ in range(int(sys.argv[3])):
        file.write(json.dumps({"input_ids": [random.randrange(32, 96) for _ in range(int(sys.argv[2]))]}) + "\n")
PY
  cat >"$work/job.yaml" <<YAML
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: memory}
spec:
  ranks: 2
  train:
    model:
      config: {vocab_size: 256, hidden_size: $hidden, intermediate_size: $ff, num_hidden_layers: $layers,
               num_attention_heads: $heads, max_position_embeddings: $length}
    data: {train: $work/rows.jsonl, sequenceLength: $length, packing: false, shuffle: false}
    batch: {globalBatchSize: $((2 * micro_batch)), microBatchSize: $micro_batch}
    steps: $steps
    optimizer: {lr: 1e-3, weightDecayOn: all}
    schedule: {name: constant}
    logging: {everySteps: 1}
YAML
  run_ours start --set train.steps=1 --set train.optimizer.lr=0  # its model is the initial weights
  run_ours ours-ddp --set train.parallelism.strategy=ddp
  run_ours ours-zero3 --set train.parallelism.strategy=zero3
  # The peers save nothing, and the runs above only at their end; this saves behind training, from a copy in memory.
  run_ours ours-saving --set train.parallelism.strategy=zero3 --set train.checkpoint.everySteps=2
  [ -d "$peers/extensions" ] || run_peer zero1 "$micro_batch"  # compiles what DeepSpeed compiles at its first run
  for peer in ddp fsdp2 accelerate zero1 zero2 zero3; do run_peer $peer "$micro_batch"; done
  "$python" tests/bench/memory_peer.py import >"$work/import"
  "$python" tests/bench/memory_table.py "$work" "$name"
}

#       name      hidden layers heads ff length micro-batch
compare "0.5 M"       96      4     4  256  128     4
compare "5 M"        256      6     8  704  256     8
compare "24 M"       512      7     8 1408  256     4
