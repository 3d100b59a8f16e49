#!/usr/bin/env bash
# What cannot run is refused by the API server, with the field's path; what only the operator can see, by Accepted=False.
. "$LOCKSTEP_SOURCE/tests/cluster/scenario.sh"
refused() { # what pattern sed-expression
  local output
  if output=$(small_job wrong 2 10 ddp | sed -E "$3" | kubectl create -f - 2>&1); then fail "$1 was accepted"; fi
  expect_match "$1" "$output" "$2"
}
refused "unknown field" 'spec\.train\.stepz' 's/steps: 10/stepz: 10/'
refused "wrong type" 'spec\.train\.steps' 's/steps: 10/steps: ten/'
refused "out of bounds" 'spec\.ranks' 's/ranks: 2/ranks: 0/'
refused "not in the enum" 'spec\.train\.parallelism\.strategy' 's/strategy: ddp/strategy: zero9/'
refused "indivisible batch" 'globalBatchSize' 's/ranks: 2/ranks: 3/'
refused "both train and command" 'train.*command|command.*train' 's/^  ranks: 2/  ranks: 2\n  command: [sleep]/'
refused "neither train nor command" 'train' '/^  train:/,$d'
refused "name too long" 'name' "s/name: wrong/name: $(printf 'a%.0s' {1..46})/"

refused "a fall longer than the run" 'schedule\.decaySteps' 's/^( *)steps: 10$/&\n\1schedule: {name: wsd, decaySteps: 11}/'
refused "a warm-up from above lr" 'schedule\.warmupMinLr' 's/^( *)steps: 10$/&\n\1schedule: {warmupMinLr: 1}/'
refused "indivisible heads" 'num_attention_heads must be divisible' 's/num_attention_heads: 4/num_attention_heads: 5/'
refused "groups under ddp" 'shardRanks needs strategy zero3' 's/strategy: ddp/strategy: ddp, shardRanks: 2/'
refused "groups that do not divide the ranks" 'shardRanks must divide ranks' 's/strategy: ddp/strategy: zero3, shardRanks: 3/'
refused "rounded gradients that promise the same bits" 'reduceDtype bf16 needs reduction fast' 's/strategy: ddp/strategy: ddp, reduceDtype: bf16/'

refused "a loss scale in fp32" 'lossScale needs precision fp16' 's/^( *)steps: 10$/&\n\1lossScale: {window: 5}/'
refused "a frozen layer beyond the last" 'frozen names a layer beyond the last' 's/^( *)model:$/&\n\1  frozen: [embedding, layer.1-2]/'
refused "frozen layers in reverse" 'range of frozen layers ends before it begins' 's/^( *)model:$/&\n\1  frozen: [layer.1-0]/'
refused "a frozen unit that there is not" 'train\.model\.frozen' 's/^( *)model:$/&\n\1  frozen: [norm]/'

refused "a path and a config" 'either path or config' 's/^( *)model:$/&\n\1  path: \/models\/a/'
refused "weights without a path" 'pretrained needs path' 's/^( *)model:$/&\n\1  init: pretrained/'

refused "data from two places" 'give either train or sources' 's/train: operator/&, sources: [{path: operator}]/'
refused "data from nowhere" 'give either train or sources' 's/train: operator, //'
refused "a weight of none" 'data\.sources.*weight' 's/train: operator/sources: [{path: a, weight: 0}]/'
refused "a weight beside which another is none" 'ten-thousandth of their sum' 's/train: operator/sources: [{path: a, weight: 1000000}, {path: b}]/'
refused "a source twice" 'Duplicate value' 's/train: operator/sources: [{path: a}, {path: a}]/'
refused "a source that is no reference" 'hf://ORG/NAME' 's/train: operator/sources: [{path: "hf:\/\/a"}]/'

refused "a variable of our own" 'spec\.env' 's/^  ranks: 2/  ranks: 2\n  env: [{name: RANK, value: "7"}]/'

# A cluster whose CRD lacks the newer rules: the operator refuses what the schema lets through.
kubectl patch crd trainingjobs.lockstep.dev --type json \
  -p '[{"op": "remove", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations"}]' >/dev/null
accepts_indivisible() { small_job indivisible 3 10 ddp | kubectl create -f - >/dev/null; }
await 30 "CRD without rules" accepts_indivisible
"$BIN/kubectl" apply -f "$LOCKSTEP_SOURCE/crds/" >/dev/null
kubectl wait --for=condition=Accepted=False tjob/indivisible --timeout=60s
expect_match "message" "$(kubectl get tjob indivisible -o 'jsonpath={.status.conditions[?(@.type=="Accepted")].message}')" 'spec\.train\.batch\.globalBatchSize'
expect_equal "pods" "$(kubectl get pods -o name | wc -l)" 0
