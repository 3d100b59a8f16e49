#!/usr/bin/env bash
# A rank killed in mid-run costs one attempt, names the rank, and changes no bit of the result.
. "$LOCKSTEP_SOURCE/tests/cluster/scenario.sh"
small_job disturbed 2 "$REFERENCE_STEPS" zero3 | kubectl apply -f -
await 120 "checkpoint" has_checkpoint disturbed
kill -KILL "$(pod_pid disturbed-0-1)"
await_success disturbed
expect_equal "attempt" "$(status disturbed attempt)" 1
expect_equal "restarts" "$(status disturbed restarts)" 1
expect_equal "first failing rank" "$(status disturbed firstFailure.rank)" 1
expect_equal "its exit code" "$(status disturbed firstFailure.exitCode)" 137
expect_reference disturbed
