#!/usr/bin/env bash
# The operator killed with SIGKILL again and again while a job lives: nothing is lost, nothing doubled.
. "$LOCKSTEP_SOURCE/tests/cluster/scenario.sh"
"$BIN/kubectl" --namespace "$scenario" get pods --watch --output-watch-events -o 'jsonpath={.type} {.object.metadata.name}{"\n"}' >"$work/pods.log" &
watcher=$!
small_job survivor 2 "$REFERENCE_STEPS" zero3 | kubectl apply -f -
deadline=$((SECONDS + 600)) kills=0
until [ "$(kubectl get tjob survivor -o 'jsonpath={.status.conditions[?(@.type=="Succeeded")].status}')" = True ]; do
  [ $SECONDS -lt $deadline ] || fail "the job did not succeed"
  stop "operator-$scenario" KILL
  kills=$((kills + 1))
  start_operator
  sleep "$(awk -v seed=$((kills * 7919)) 'BEGIN { srand(seed); printf "%.2f", 0.05 + rand() * 1.2 }')"
done
kill "$watcher"
[ $kills -ge 3 ] || fail "only $kills kills: the job is too short for this test"
echo "ok: succeeded after $kills kills"
expect_equal "attempt" "$(status survivor attempt)" 0
expect_equal "pods ever created" "$(grep -c '^ADDED' "$work/pods.log")" 2
expect_equal "steps logged" "$(wc -l <"$(output_of survivor)/metrics.jsonl")" "$REFERENCE_STEPS"
expect_reference survivor
