#!/usr/bin/env bash
# A suspended job saves a checkpoint and frees its pods; resumed on another number of ranks it ends with the same bits.
. "$LOCKSTEP_SOURCE/tests/cluster/scenario.sh"
small_job halved 4 "$REFERENCE_STEPS" zero3 | kubectl apply -f -
await 120 "checkpoint" has_checkpoint halved
kubectl patch tjob halved --type merge -p '{"spec":{"suspend":true}}'
kubectl wait --for=condition=Suspended tjob/halved --timeout=180s
no_pods() { local out; out=$(kubectl get pods -l lockstep.dev/job-name=halved -o name) && [ -z "$out" ]; }
await 60 "pods gone while suspended" no_pods
kubectl patch tjob halved --type merge -p '{"spec":{"suspend":false,"ranks":2}}'
await_success halved
expect_equal "restarts" "$(status halved restarts)" 0
expect_reference halved
