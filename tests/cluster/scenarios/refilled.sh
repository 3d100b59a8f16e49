#!/usr/bin/env bash
# A budget of one restart carries a job over two failures with a checkpoint between them, and goodput tells what they cost.
. "$LOCKSTEP_SOURCE/tests/cluster/scenario.sh"
small_job lucky 2 100000 zero3 | sed 's/^  ranks: 2/  ranks: 2\n  failurePolicy: {maxRestarts: 1}/' | kubectl apply -f -
checkpoint_beyond() { local step; step=$(status lucky progress.lastCheckpointStep) && [ "${step:-0}" -gt "$1" ]; }
attempt_runs() { [ "$(status lucky attempt) $(status lucky ranks.running)" = "$1 2" ]; }
await 120 "checkpoint in status" checkpoint_beyond 0
kill -KILL "$(pod_pid lucky-0-1)"
await 60 "second attempt" attempt_runs 1
await 120 "newer checkpoint in status" checkpoint_beyond "$(status lucky budget.checkpointStep)"
kill -KILL "$(pod_pid lucky-1-0)"
await 60 "third attempt" attempt_runs 2
expect_equal "restarts" "$(status lucky restarts)" 2
expect_equal "restarts since the newest checkpoint" "$(status lucky budget.used)" 1
expect_match "goodput" "$(status lucky goodput.ratio)" '^[01]\.[0-9][0-9]$'
expect_equal "pod that failed last, kept with its log" "$(kubectl get pod lucky-1-0 -o 'jsonpath={.status.phase}')" Failed
expect_equal "pods of the attempts before it" "$(kubectl get pods -l lockstep.dev/attempt=0 -o name)" ""
