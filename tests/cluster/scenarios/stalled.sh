#!/usr/bin/env bash
# A rank that stands still without failing is found by its heartbeat, named, and the gang starts over with the same bits.
. "$LOCKSTEP_SOURCE/tests/cluster/scenario.sh"
small_job frozen 2 "$REFERENCE_STEPS" ddp | sed 's/^  ranks: 2/  ranks: 2\n  failurePolicy: {stallTimeoutSeconds: 8}/' | kubectl apply -f -
await 120 "checkpoint" has_checkpoint frozen
kill -STOP "$(pod_pid frozen-0-1)"
kubectl wait --for=condition=Stalled tjob/frozen --timeout=120s
expect_equal "rank that is named" "$(status frozen firstFailure.rank)" 1
expect_equal "reason" "$(status frozen firstFailure.reason)" Stalled
await_success frozen
expect_equal "restarts" "$(status frozen restarts)" 1
expect_equal "Stalled at the end" "$(kubectl get tjob frozen -o 'jsonpath={.status.conditions[?(@.type=="Stalled")].status}')" False
expect_reference frozen
