#!/usr/bin/env bash
# `lockstep run` as a person uses it, with the real runtime: success, Ctrl-C and the same command again, a killed rank,
# used outputs, wrong input.   usage: run_test.sh BIN_DIR
set -euo pipefail
. "$(dirname "$0")/lib.sh"

corpus 400 >corpus.txt
cat >job.yaml <<'Y'
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: small}
spec:
  ranks: 2
  train:
    model: {config: {vocab_size: 256, hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2, num_attention_heads: 4,
                     max_position_embeddings: 64}}
    data: {train: corpus.txt, sequenceLength: 64}
    batch: {globalBatchSize: 8, microBatchSize: 1}
    steps: 800
    parallelism: {strategy: zero3}
    checkpoint: {everySteps: 100}
    logging: {everySteps: 1}
Y

expect_status "a whole run succeeds" "$(run whole run job.yaml --output whole)" 0
expect_match "it says where the model is" whole.out '^model +whole/model$'
expect_match "and samples from it" whole.out '^sample$'
expect_status "a finished output is refused" "$(run again run job.yaml --output whole)" 1
expect_match "with what to do" again.log 'overwrite'

"$bin/lockstep" run job.yaml --output stopped >stopped.out 2>stopped.log &
pid=$!
until compgen -G 'stopped/checkpoints/step-*/manifest.json' >/dev/null; do kill -0 $pid || fail "ended early"; sleep 0.02; done
expect_status "a second run in the same output is refused" "$(run second run job.yaml --output stopped)" 1
expect_match "because the first is at work" second.log 'another run is at work'
kill -INT $pid
rc=0; wait $pid || rc=$?
expect_status "Ctrl-C suspends" $rc 130
expect_match "and says how to go on" stopped.log 'go on with: lockstep run job.yaml --output stopped'
expect_status "the same command goes on, on other ranks" "$(run resumed run job.yaml --output stopped --set ranks=4)" 0
cmp whole/model/model.safetensors stopped/model/model.safetensors || fail "the model differs after Ctrl-C"
[ "$(losses whole)" = "$(losses stopped)" ] || fail "losses differ after Ctrl-C"
echo "ok: same bits after Ctrl-C at 2 ranks and the rest at 4"

"$bin/lockstep" run job.yaml --output killed >killed.out 2>killed.log &
pid=$!
until compgen -G 'killed/checkpoints/step-*/manifest.json' >/dev/null; do kill -0 $pid || fail "ended early"; sleep 0.02; done
rank1=$(for child in $(pgrep -P $pid); do tr '\0' '\n' <"/proc/$child/environ" | grep -qx RANK=1 && echo "$child"; done)
kill -KILL "$rank1"
rc=0; wait $pid || rc=$?
expect_status "a killed rank costs a restart, not the run" $rc 0
expect_match "it is named" killed.log 'rank 1'
cmp whole/model/model.safetensors killed/model/model.safetensors || fail "the model differs after a killed rank"
echo "ok: same bits after a killed rank"

expect_status "an interface that is not there ends the run" \
  "$(run interface run job.yaml --output interface --set train.communication.backend=gloo --set train.communication.env.GLOO_SOCKET_IFNAME=no-such-if)" 1
expect_match "ranks saw train.communication.env" interface.log 'there is no interface no-such-if'

expect_status "missing file" "$(run missing run no-such.yaml)" 3
expect_match "is named" missing.log 'no-such.yaml'
expect_status "missing corpus" "$(run corpus run job.yaml --set train.data.train=nowhere.txt)" 3
expect_match "is named with its field" corpus.log 'spec.train.data.train: nothing here matches .nowhere.txt'
expect_status "unknown path of --set" "$(run set run job.yaml --set train.stepz=1)" 3
expect_match "is named" set.log 'stepz'
expect_status "indivisible batch" "$(run batch validate job.yaml --set ranks=3)" 3
expect_match "with its field" batch.log 'spec.train.batch.globalBatchSize'
expect_status "validate without the corpus only warns" "$(run warn validate job.yaml --set train.data.train=nowhere.txt)" 0
expect_match "naming it" warn.log 'warning: .*nowhere.txt'
expect_status "unknown verb" "$(run verb bogus)" 2
expect_match "is named" verb.log "'bogus'"
expect_status "output that cannot be written" "$(run output run job.yaml --output /proc/nowhere)" 1
expect_match "is named" output.log '/proc/nowhere'
mkdir strange && mkdir strange/model && echo mine >strange/model/mine.txt
expect_status "an output that holds somebody's model is refused" "$(run strange run job.yaml --output strange)" 1
[ "$(cat strange/model/mine.txt)" = mine ] || fail "somebody's file was touched"
echo "ok: and left alone"
