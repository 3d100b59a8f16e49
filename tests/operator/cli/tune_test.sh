#!/usr/bin/env bash
# `lockstep tune` with the real runtime: it finds the border that memory draws, measures, prints, and writes only if asked to.
# usage: tune_test.sh BIN_DIR
set -euo pipefail
. "$(dirname "$0")/lib.sh"
export TMPDIR=$work
tune() { local rc=0; "$bin/lockstep" tune "${@:2}" >"$1.out" 2>"$1.log" || rc=$?; echo $rc; } # name argument...

corpus 1200 >corpus.txt
cat >job.yaml <<'Y'
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: small}
spec:
  ranks: 2
  train:
    model: {config: {vocab_size: 256, hidden_size: 128, intermediate_size: 256, num_hidden_layers: 4, num_attention_heads: 4}}
    data: {train: corpus.txt, sequenceLength: 256}
    batch: {globalBatchSize: 64, microBatchSize: 1}  # kept
    epochs: 3
    schedule: {name: cosine, warmupSteps: 100}
Y
cp job.yaml before.yaml

# The estimate of micro-batch 8 fits, that of 16 does not: a limit in between.
estimate() { "$bin/lockstep" estimate job.yaml --set train.batch.microBatchSize="$1" --output json | python3 -c '
import json, sys; print(max(line["totalBytes"] for line in json.load(sys.stdin)["strategies"] if line["chosen"]))'; }
between=$(( ($(estimate 8) + $(estimate 16)) / 2 ))
expect_status "a search with a limit" "$(tune limit job.yaml --memory "$between" --trials 3 --set train.parallelism.strategy=ddp)" 0
expect_match "it finds the border" limit.out '^\* the largest that fits: --set train.batch.microBatchSize=8$'
expect_match "with its accumulation, memory and speed" limit.out '^ *8 \* +4 +ddp +[0-9.]+ +[0-9.]+ +[0-9]+  fits$'
expect_match "and says why not more" limit.out '^ *16 .* does not fit'
expect_match "trials show in the log" limit.log '^trying micro-batch 8$'
cmp job.yaml before.yaml || fail "tune changed the manifest"
[ "$(find . -mindepth 1 -maxdepth 1 -type d)" = "" ] || fail "trials left folders"

# What really runs out of memory: the limit says yes, the address space says no.
set +e
( ulimit -v 500000; "$bin/lockstep" tune job.yaml --memory 64Gi --steps 2 --trials 3 --set train.data.sequenceLength=1024 \
  --set train.batch='{globalBatchSize: 32, microBatchSize: 1}' --output json >memory.out 2>memory.log )
rc=$?
set -e
expect_status "a search with trials that run out of memory" "$rc" 0
python3 - <<'P' || fail "the border is wrong"
import json
found = json.load(open("memory.out"))
by_size = {one["microBatchSize"]: one["trial"] for one in found["candidates"] if "trial" in one}
assert any(trial["outOfMemory"] for trial in by_size.values()), by_size
assert by_size[found["best"]]["fits"], found["best"]
assert all(size > found["best"] for size, trial in by_size.items() if trial["outOfMemory"]), by_size
P
echo "ok: exit codes tell what did not fit"

expect_status "it writes if asked to" "$(tune write job.yaml --memory "$between" --trials 1 --set train.parallelism.strategy=ddp --write)" 0
diff before.yaml job.yaml >changed || true
expect_match "one number" changed '^>     batch: \{globalBatchSize: 64, microBatchSize: 8\}  # kept$'
[ "$(grep -c '^>' changed)" = 1 ] || fail "more than one line changed"

expect_status "nothing fits" "$(tune none job.yaml --memory 1Mi --trials 1)" 1
expect_match "with what to do" none.log 'activationCheckpointing=block'
expect_status "no amount of memory" "$(tune amount job.yaml --memory lots)" 2
expect_status "another failure is told as it is" "$(tune failure job.yaml --memory 8Gi --set train.batch.globalBatchSize=4096)" 1
expect_match "with its words" failure.log '^error: '
printf 'apiVersion: lockstep.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: own}\nspec: {ranks: 1, command: ["true"]}\n' >own.yaml
expect_status "a program of one's own has no batch" "$(tune own own.yaml)" 3
expect_status "a job for GPUs is not tried on processors" "$(tune gpus job.yaml --set 'resources.limits[nvidia.com/gpu]=1')" 3
expect_match "which is said" gpus.log 'spec.resources: the job computes on GPUs, and trials here do not'
