#!/usr/bin/env bash
# All replicas of the operator replaced one by one, as a Deployment does it, twice, while jobs are created: the lead changes hands under
# load. Who watches the API server beside them sees every object come to be once, and every job end in its first attempt.
. "$(dirname "$0")/../scenario.sh"
. "$LOCKSTEP_SOURCE/tests/cluster/replicas.sh"
batches=16 batch_jobs=3 num_jobs=$((16 * 3))
batch() { # number: its jobs end by themselves, after a moment
  local job
  for ((job = 0; job < batch_jobs; job++)); do
    printf -- '---\napiVersion: lockstep.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: load-%d-%d}\nspec:\n  ranks: 2\n' "$1" "$job"
    printf '  command: [/bin/sh, -c, "exec sleep 1"]\n'
  done
}
watch() { # plural: into a file of its own
  "$BIN/kubectl" --namespace "$scenario" get "$1" --watch --output-watch-events \
    -o 'jsonpath={.type} {.object.metadata.name} {.object.metadata.uid}{"\n"}' >"$work/$1.log" 2>/dev/null &
  watchers+=($!)
}
watchers=() load=
trap 'rc=$?; kill "${watchers[@]}" $load 2>/dev/null || :; for it in a b c d e f; do stop "operator-$scenario-$it" KILL; done; cleanup $rc' EXIT
for plural in pods configmaps services; do watch "$plural"; done

replica a
await 30 "leader a" leads a
replica b
await 30 "second replica" grep -q election_started "$LOG/operator-$scenario-b.log"

created() { cat "$work/created" 2>/dev/null || echo 0; }
(for ((n = 1; n <= batches; n++)); do batch $n | kubectl create -f - >/dev/null; echo $n >"$work/created"; sleep 0.3; done) &
load=$!

# A new replica is there before an old one goes; the leader goes first, so that each step hands the lead on.
old=(a b)
for new in c d e f; do
  replica "$new"
  await 30 "replica $new" grep -q election_started "$LOG/operator-$scenario-$new.log"
  before=$(created)
  leader=${old[0]}; leads "$leader" || leader=${old[1]}
  stop "operator-$scenario-$leader"
  expect_match "how $leader ended after $before batches" "$(grep election_ended "$LOG/operator-$scenario-$leader.log")" 'released=true'
  [ "$leader" = "${old[0]}" ] && old=("${old[1]}" "$new") || old=("${old[0]}" "$new")
  led() { leads "${old[0]}" || leads "${old[1]}"; }
  await 30 "leader after $leader" led
done
expect_equal "transitions" "$(lease leaseTransitions)" 4
[ "$before" -lt $batches ] || fail "all jobs were there before the last hand-over: this tests nothing"
wait $load || fail "jobs could not be created"
load=

succeeded() { kubectl get trainingjobs -o 'jsonpath={range .items[*]}{.status.conditions[?(@.type=="Succeeded")].status}{"\n"}{end}' | grep -c True; }
all_succeeded() { [ "$(succeeded)" = $num_jobs ]; }
await 240 "end of all jobs" all_succeeded
echo "ok: $num_jobs jobs succeeded"
kill "${watchers[@]}"; watchers=()

# What the watches saw, and what the operators never read.
for plural in pods configmaps services; do
  grep -E '^ADDED load-' "$work/$plural.log" | sort >"$work/$plural.added"
  expect_equal "$plural that came to be twice" "$(cut -d' ' -f2 "$work/$plural.added" | uniq -d | xargs)" ""
done
expect_equal "pods that ever were" "$(wc -l <"$work/pods.added")" $((2 * num_jobs))
expect_equal "ConfigMaps that ever were" "$(wc -l <"$work/configmaps.added")" $num_jobs
expect_equal "Services that ever were" "$(wc -l <"$work/services.added")" $num_jobs
expect_equal "attempts beyond the first" "$(cut -d' ' -f2 "$work/pods.added" | grep -cvE '^load-[0-9]+-[0-9]+-0-[01]$' || :)" 0
expect_equal "jobs that used their budget or a second attempt" \
  "$(kubectl get trainingjobs -o 'jsonpath={range .items[*]}{.status.attempt}/{.status.budget.used}{"\n"}{end}' | grep -cvE '^0/0?$' || :)" 0
actors=0
for it in a b c d e f; do grep -q ' job ' "$LOG/operator-$scenario-$it.log" && actors=$((actors + 1)); done
[ $actors -ge 3 ] || fail "only $actors replicas did anything"
echo "ok: $actors replicas led and worked"
