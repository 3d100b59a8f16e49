#!/usr/bin/env bash
# `lockstep report` and `lockstep compare` as a person uses them, on folders as a run leaves them.   usage: runs_test.sh BIN_DIR
set -euo pipefail
. "$(dirname "$0")/lib.sh"

mkdir -p a/logs/attempt-0 b c empty
for step in 1 2 3; do
  echo "{\"step\": $step, \"loss\": $((6 - step)).25, \"grad_norm\": 1.5, \"learning_rate\": 0.1, \"tokens_per_second\": 100}"
done >a/metrics.jsonl
echo '{"run":"c53871de"}' >a/run.json
echo '{"name":"small","ranks":2,"train":{"steps":9,"seed":42}}' >a/logs/small-0.json
echo '2026-11-21T13:20:04.811Z info serving job=small rank=0 attempt=0 port=1' >a/logs/attempt-0/rank-0.log
echo '{"rank":0,"step":3,"reason":"NonFinite","message":"the <loss> is not finite","hint":"lower the rate"}' >a/logs/attempt-0/rank-0.end

expect_status "a failed run has a report" "$(run report report a)" 0
expect_text "its place is told" report.out a/report.html
expect_text "it says what went wrong" a/report.html 'the &lt;loss&gt; is not finite'
expect_text "and what to do" a/report.html 'lower the rate'
expect_status "a page for standard output" "$(run stdout report a --output -)" 0
cmp stdout.out a/report.html || fail "the page depends on where it goes"
expect_status "a run that lost everything but one line" "$(run torn report --output torn.html b)" 3
head -c 150 a/metrics.jsonl >b/metrics.jsonl
expect_status "is shown as far as it tells" "$(run torn report b --output torn.html)" 0
expect_text "naming the rest" torn.log 'metrics.jsonl: 1 unreadable lines left out'
expect_status "an empty folder is no run" "$(run empty report empty)" 3
expect_text "which is said" empty.log 'no run has been here'
expect_status "nor is one that is not there" "$(run absent report absent)" 3
expect_status "a page that cannot be written" "$(run unwritable report a --output /proc/none/page.html)" 1
expect_text "is named" unwritable.log /proc/none/page.html
printf '#!/bin/sh\necho "$*"\n' >speaks && printf '#!/bin/sh\necho "no weights" >&2; exit 66\n' >mute && chmod +x speaks mute
expect_status "a model is asked" "$(LOCKSTEP_RUNTIME=$work/speaks run samples report a --output samples.html --prompt 'a <b>' --prompt two)" 0
expect_text "for what it goes on with" samples.html '<pre>generate --model a/model --prompt a &lt;b&gt; --tokens 64 --temperature 0</pre>'
expect_text "each time" samples.html '--prompt two --tokens'
expect_status "a model that cannot speak" "$(LOCKSTEP_RUNTIME=$work/mute run mute report a --prompt x)" 1
expect_text "says why" mute.log 'no sample of a/model: lockstep-runtime exited with 66: no weights (lockstep generate --model a/model --prompt TEXT)'

cp -r a/. c
expect_status "a run is the same as its copy" "$(run same compare a c)" 0
expect_text "in all steps" same.out 'same bits in 3 steps in common'
expect_text "weights that are not there are not compared" same.out 'not compared: a/model has no *.safetensors'
sed -i 's/"step": 3, "loss": 3.25/"step": 3, "loss": 3.2500000000000004/' c/metrics.jsonl
sed -i 's/42/43/' c/logs/small-0.json
expect_status "the last bit of a loss makes another run" "$(run bit compare a c)" 5
expect_text "by its step" bit.out 'differs from step 3 on (3.25, 3.2500000000000004)'
expect_text "with the field that may be why" bit.out 'train.seed: 42 | 43'
expect_status "machines are told" "$(run json compare a c --output json)" 5
expect_text "in JSON" json.out '"firstDifferentStep": 3'
mkdir -p a/model c/model
echo 'no header' | tee a/model/model.safetensors >c/model/model.safetensors
expect_status "damaged weights are no difference, but an error" "$(run damaged compare a c)" 3
expect_text "by file" damaged.log 'model/model.safetensors'
printf '\002\000\000\000\000\000\000\000{}' | tee a/model/model.safetensors >c/model/model.safetensors
expect_status "same weights, other losses" "$(run weights compare a c)" 5
expect_text "are told" weights.out 'weights:          same bits in 0 tensors'
expect_status "nothing in common is an error" "$(run nothing compare a empty)" 3
