#!/usr/bin/env bash
# `kubectl scale` on a running job: it saves, stops, goes on in the new size, and ends with the same bits.
. "$LOCKSTEP_SOURCE/tests/cluster/scenario.sh"
small_job scaled 2 "$REFERENCE_STEPS" zero3 | kubectl apply -f -
await 120 "checkpoint" has_checkpoint scaled
kubectl scale tjob scaled --replicas=4
await 60 "four ranks" bash -c "'$BIN/kubectl' -n $scenario get tjob scaled -o 'jsonpath={.status.ranks.desired}' | grep -qx 4"
expect_equal "replicas of the scale subresource" "$(kubectl get tjob scaled --subresource=scale -o 'jsonpath={.spec.replicas}')" 4
if kubectl patch tjob scaled --type merge -p '{"spec":{"train":{"seed":7}}}' 2>"$work/refusal"; then fail "train changed while running"; fi
expect_match "refusal" "$(cat "$work/refusal")" 'train can only change while the job is suspended'
await_success scaled
expect_equal "restarts" "$(status scaled restarts)" 0
expect_match "events" "$(kubectl get events -o 'jsonpath={.items[*].reason}')" Scaled
expect_reference scaled
