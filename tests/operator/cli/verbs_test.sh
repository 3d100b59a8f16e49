#!/usr/bin/env bash
# The command line as a whole: flags, help, wrong usage.   usage: verbs_test.sh BIN_DIR
set -euo pipefail
. "$(dirname "$0")/lib.sh"

echo "a corpus" >corpus.txt
cat >job.yaml <<'Y'
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: small}
spec:
  ranks: 2
  inputs: [{name: corpus, mountPath: /data, persistentVolumeClaim: {claimName: corpus}}]
  output: {persistentVolumeClaim: {claimName: runs}}
  train:
    model: {config: {vocab_size: 256, hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2, num_attention_heads: 4,
                     max_position_embeddings: 64}}
    data: {train: "/data/*.txt", sequenceLength: 64}
    batch: {globalBatchSize: 8}
    steps: 800
Y

# Flags that may be repeated take one value each, and leave what follows to others.
for verb in validate plan estimate "run --dry-run"; do
  # shellcheck disable=SC2086
  expect_status "$verb: --set and --input leave the file alone" \
    "$(run one $verb --set train.steps=7 --set ranks=4 --input "corpus=$work" job.yaml)" 0
done
expect_text "and were honoured" one.out '\"steps\": 7,'
expect_status "a flag without its value is refused" "$(run lacks validate job.yaml --set)" 2
expect_status "a second value is nobody's" "$(run second validate job.yaml --set ranks=4 train.steps=7)" 2

# --dry-run says what a node would start, and holds the flags against each other and the job.
expect_status "a dry run of one of several nodes" "$(run node run --dry-run job.yaml --nodes 2 --node-rank 1 --master n0:29500)" 0
expect_text "says which ranks it would start" node.log 'node 1 of 2 (--nodes) would start rank 1; nodes meet at n0:29500, ranks at port 29501'
expect_status "a node that there is not" "$(run nonode run --dry-run job.yaml --nodes 2 --node-rank 2 --master n0:29500)" 2
expect_status "nodes that do not divide the ranks" "$(run odd run --dry-run job.yaml --nodes 3 --node-rank 0 --master n0:29500)" 2
expect_text "are told with what to do" odd.log '--set ranks=3'
expect_status "half a place" "$(run half run --dry-run job.yaml --nodes 2)" 2

expect_status "no verb" "$(run none)" 2
expect_text "shows them all" none.log 'validate'
expect_status "an unknown verb" "$(run bogus bogus)" 2
expect_text "is named" bogus.log "'bogus'"
expect_status "a slip of the fingers" "$(run slip valdiate job.yaml)" 2
expect_text "is understood" slip.log "did you mean 'validate'? see lockstep --help"
expect_status "so is one in a flag" "$(run flag run job.yaml --overwite)" 2
expect_text "with where its flags are told" flag.log 'did you mean --overwrite? see lockstep run --help'
expect_status "what is missing" "$(run missing validate)" 2
expect_text "is named" missing.log 'error: file is required; see lockstep validate --help'
expect_status "also of a verb that the runtime reads" "$(run source export)" 2
expect_text "in the same words" source.log 'error: source is required; see lockstep export --help'
expect_status "whose help" "$(run usage export --help)" 0
expect_text "speaks of lockstep" usage.out 'Usage: lockstep export'
expect_status "--help" "$(run help --help)" 0
while read -r verb; do # what the runtime reads explains itself
  case $verb in tokenize|export|generate|chat|bench) continue ;; esac
  expect_status "$verb --help" "$(run "help-$verb" "$verb" --help)" 0
done < <(awk '/^  [a-z]/ && !/^  -/ { print $1 }' help.out)
# A verb is one line, and fits a terminal.
[ -z "$(awk 'length > 100' help.out)" ] || fail "--help has lines over 100 columns"

expect_status "a schema for editors" "$(run json schema --json)" 0
expect_text "is JSON Schema" json.out '"$schema": "https://json-schema.org/draft/2020-12/schema"'
expect_status "one form at a time" "$(run both schema --json --markdown)" 2

# The script for bash, in bash; those for other shells have every verb.
"$bin/lockstep" completion bash >completion.bash
completed() { # word... (the last one is being typed)
  bash --norc -c 'source completion.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _lockstep; echo "${COMPREPLY[*]}"' - "$@"
}
expect_words() { [ "$2" = "$3" ] || fail "$1: '$2', expected '$3'"; echo "ok: $1"; } # what found expected
expect_words "a verb is completed" "$(completed lockstep est)" estimate
expect_words "a flag is completed" "$(completed lockstep estimate job.yaml --ou)" --output
expect_words "a value is completed" "$(completed lockstep estimate --output j)" json
expect_words "a word is completed" "$(completed lockstep completion f)" fish
expect_words "files are the shell's" "$(completed lockstep estimate jo)" ""
for shell in bash zsh fish; do
  run script completion $shell >rc.out
  [ "$(cat rc.out)" = 0 ] || fail "completion $shell"
  while read -r verb; do expect_text "$shell knows $verb" script.out "$verb"; done < <(awk '/^  [a-z]/ { print $1 }' help.out)
done
expect_status "an unknown shell is refused" "$(run csh completion csh)" 2
