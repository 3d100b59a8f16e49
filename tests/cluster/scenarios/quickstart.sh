#!/usr/bin/env bash
# The quickstart's own manifest succeeds through the API server, with the columns, events and files that its user looks for.
# LOCKSTEP_QUICKSTART_STEPS: so many steps in place of its own.
. "$LOCKSTEP_SOURCE/tests/cluster/scenario.sh"
manifest=$LOCKSTEP_SOURCE/examples/quickstart.yaml
steps=${LOCKSTEP_QUICKSTART_STEPS:-$(sed -nE 's/^ *steps: ([0-9]+).*/\1/p' "$manifest")}
sed -E "s/^( *steps:) [0-9]+/\1 $steps/" "$manifest" | kubectl apply -f -
await 60 "running ranks" bash -c "'$BIN/kubectl' -n $scenario get tjob quickstart -o 'jsonpath={.status.ranks.running}' | grep -qx 2"
await 300 "progress in status" bash -c "'$BIN/kubectl' -n $scenario get tjob quickstart -o 'jsonpath={.status.progress.step}' | grep -q ."
expect_match "columns" "$(kubectl get tjob | head -n 1)" '^NAME +STATE +STEP +LOSS +TOK/S +ETA +RESTARTS +AGE'
expect_match "row" "$(kubectl get tjob quickstart | tail -n 1)" '^quickstart +Running +[0-9]+/[0-9]+ +[0-9.]+ +[0-9]+ '
kubectl wait --for=condition=Succeeded tjob/quickstart --timeout=600s
expect_equal "restarts" "$(status quickstart restarts)" 0
expect_equal "attempt" "$(status quickstart attempt)" 0
expect_equal "succeeded ranks" "$(status quickstart ranks.succeeded)" 2
expect_match "events" "$(kubectl get events -o 'jsonpath={.items[*].reason}')" Succeeded
for file in model/model.safetensors model/config.json metrics.jsonl loss.svg; do
  [ -s "$(output_of quickstart)/$file" ] || fail "no $file"
done
expect_match "last line of metrics.jsonl" "$(tail -n 1 "$(output_of quickstart)/metrics.jsonl")" "\"step\": ?$steps,"
