#!/usr/bin/env bash
# Two pods of two ranks each, with shared memory inside and Gloo across: they answer for all of theirs; a rank killed inside its pod, and one
# that stands still in it, cost one attempt each and are named; the job goes on in one pod when it is scaled; and no bit of the result changes.
. "$LOCKSTEP_SOURCE/tests/cluster/scenario.sh"
rank_pid() { # pod rank
  local pid
  for pid in $(pgrep --parent "$(pod_pid "$1")"); do
    tr '\0' '\n' <"/proc/$pid/environ" | grep -qx "RANK=$2" && echo "$pid" && return 0
  done
  fail "no process of rank $2 in pod $1"
}
page() { curl --silent --fail --max-time 10 "http://$(kubectl get pod "$1" -o 'jsonpath={.status.podIP}'):9400/$2"; } # pod path
trains() { page "$1" "status/$2" | grep -qE '"phase": ?"training"'; } # pod rank
pods() { kubectl get pods --sort-by=.metadata.name -o 'jsonpath={.items[*].metadata.name}'; }

small_job grouped 4 "$REFERENCE_STEPS" ddp |
  sed 's/^  ranks: 4$/  ranks: 4\n  ranksPerPod: 2\n  failurePolicy: {stallTimeoutSeconds: 6}/' | kubectl apply -f -
await 120 "checkpoint" has_checkpoint grouped
expect_equal "pods" "$(pods)" "grouped-0-0 grouped-0-2"
expect_equal "ranks in a pod" "$(status grouped ranks.perPod)" 2
expect_match "page of rank 3" "$(page grouped-0-2 status/3)" '"rank": ?3'
expect_match "what carries its bytes" "$(page grouped-0-2 status/3)" '"backend": ?"shared-memory\+gloo"'
expect_equal "ranks in the metrics of the second pod" \
  "$(page grouped-0-2 metrics | grep -oE '^lockstep_rank_up.*|^lockstep_step\{[^}]*\}' | sort | tr '\n' ';')" \
  'lockstep_rank_up{rank="2"} 1;lockstep_rank_up{rank="3"} 1;lockstep_step{rank="2"};lockstep_step{rank="3"};'

kill -KILL "$(rank_pid grouped-0-2 3)"
await 60 "training in the second attempt" trains grouped-1-0 1
expect_equal "restarts" "$(status grouped restarts)" 1
expect_equal "first failing rank" "$(status grouped firstFailure.rank)" 3
expect_equal "its exit code" "$(status grouped firstFailure.exitCode)" 137
expect_equal "its pod" "$(status grouped firstFailure.pod)" grouped-0-2
expect_equal "pods, of which the failed one is kept" "$(pods)" "grouped-0-2 grouped-1-0 grouped-1-2"

kill -STOP "$(rank_pid grouped-1-0 1)"
kubectl wait --for=condition=Stalled tjob/grouped --timeout=120s
expect_equal "rank that stands still" "$(status grouped firstFailure.rank)" 1
expect_equal "why" "$(status grouped firstFailure.reason)" Stalled
expect_equal "its pod" "$(status grouped firstFailure.pod)" grouped-1-0

await 60 "training in the third attempt" trains grouped-2-2 3
kubectl scale tjob grouped --replicas=2
await_success grouped
expect_equal "attempt" "$(status grouped attempt)" 3
expect_equal "restarts, of which scaling is none" "$(status grouped restarts)" 2
expect_equal "pods of the last attempt" "$(kubectl get pods -l lockstep.dev/attempt=3 -o 'jsonpath={.items[*].metadata.name}')" grouped-3-0
expect_equal "ranks that succeeded" "$(status grouped ranks.succeeded)" 2
expect_reference grouped
