#!/usr/bin/env bash
# Two operators with leader election and the chart's rights: the leader killed, paused for longer than its lease and resumed, and ended.
# There is one set of effects at any time, whoever leads.
. "$(dirname "$0")/../scenario.sh"
. "$LOCKSTEP_SOURCE/tests/cluster/replicas.sh"
own_job() { # name
  printf 'apiVersion: lockstep.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: %s}\nspec:\n  ranks: 2\n' "$1"
  printf '  command: [/bin/sh, -c, "test $LOCKSTEP_ATTEMPT = 1 || exec sleep 600"]\n'
}
running() { [ "$(status "$1" attempt) $(status "$1" ranks.running)" = "$2 2" ]; } # job attempt
# Not the function: the shell around it would be killed in its place, and who waits for our output would wait for the watch.
"$BIN/kubectl" --namespace "$scenario" get pods --watch --output-watch-events -o 'jsonpath={.type} {.object.metadata.name}{"\n"}' >"$work/pods.log" 2>/dev/null &
watcher=$!
trap 'rc=$?; kill "$watcher" 2>/dev/null || :; stop "operator-$scenario-a" KILL; stop "operator-$scenario-b" KILL; cleanup $rc' EXIT

replica a
await 30 "leader a" leads a
expect_equal "transitions" "$(lease leaseTransitions)" 0
expect_equal "duration" "$(lease leaseDurationSeconds)" 3
replica b
own_job first | kubectl create -f - >/dev/null
await 60 "running ranks" running first 0

# Killed in mid-life: the other takes over when the lease has run out, and what is there stays.
stop "operator-$scenario-a" KILL
await 30 "leader b" leads b
expect_equal "transitions after the kill" "$(lease leaseTransitions)" 1
own_job second | kubectl create -f - >/dev/null
await 60 "running ranks of the second job" running second 0

# Paused for longer than its lease, with work to do meanwhile that it will know of when it goes on.
replica a
await 30 "second replica" grep -q election_started "$LOG/operator-$scenario-a.log"
kill -STOP "$(pid_of b)"
await 30 "leader a again" leads a
expect_equal "transitions after the pause" "$(lease leaseTransitions)" 2
kubectl delete pod first-0-1 --wait=false >/dev/null
own_job third | kubectl create -f - >/dev/null
await 60 "running ranks of the third job" running third 0
await_success first
b=$(pid_of b)
kill -CONT "$b"
ended() { ! kill -0 "$b" 2>/dev/null; }
await 30 "end of the old leader" ended
expect_match "its last words" "$(tail -n 1 "$LOG/operator-$scenario-b.log")" 'leader election lost: the Lease could not be renewed for 2000 ms'
expect_equal "jobs that it changed after its pause" "$(sed '0,/lead_lost/d' "$LOG/operator-$scenario-b.log" | grep -c ' job ' || :)" 0
leads a || fail "the resumed operator disturbed the new leader"
echo "ok: a leads on"

# Ended in good order: the lease is free at once.
replica b
await 30 "second replica" bash -c "[ \$(grep -c election_started '$LOG/operator-$scenario-b.log') = 2 ]"
stop "operator-$scenario-a"
expect_match "how the leader ended" "$(grep election_ended "$LOG/operator-$scenario-a.log")" 'released=true'
await 30 "leader b" leads b
expect_equal "transitions after the hand-over" "$(lease leaseTransitions)" 3
kubectl patch tjob third --type merge -p '{"spec":{"suspend":true}}' >/dev/null
suspended() { [ "$(kubectl get tjob third -o 'jsonpath={.status.conditions[?(@.type=="Suspended")].status}')" = True ]; }
await 60 "suspended job" suspended

# One set of effects: every pod came to be once, under its own name.
kill "$watcher"
expect_equal "pods that came to be twice" "$(grep '^ADDED' "$work/pods.log" | sort | uniq -d)" ""
expect_equal "pods" "$(grep '^ADDED' "$work/pods.log" | cut -d' ' -f2 | sort | xargs)" \
  "first-0-0 first-0-1 first-1-0 first-1-1 second-0-0 second-0-1 third-0-0 third-0-1"
expect_match "events" "$(kubectl get events --field-selector involvedObject.kind=Lease -o 'jsonpath={.items[*].message}')" 'became leader.*became leader'
