#!/usr/bin/env bash
# Deadline, time to live, cleanPodPolicy, failure rules, managedBy: what ends a job, and what stays of it.
. "$LOCKSTEP_SOURCE/tests/cluster/scenario.sh"
own_job() { # name ranks shell-command, more lines of the spec on standard input
  { printf 'apiVersion: lockstep.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: %s}\nspec:\n  ranks: %s\n' "$1" "$2"
    printf '  command: [/bin/sh, -c, %s]\n' "$(printf '%s' "$3" | sed 's/.*/"&"/')"
    cat; } | kubectl create -f - >/dev/null
}
reason() { kubectl get tjob "$1" -o "jsonpath={.status.conditions[?(@.type==\"$2\")].reason}"; }
pods() { kubectl get pods -l "lockstep.dev/job-name=$1" --sort-by=.metadata.name -o 'jsonpath={range .items[*]}{.metadata.name}:{.status.phase} {end}'; }
pods_are() { [ "$(pods "$1")" = "$2" ]; }

own_job late 2 'exec sleep 600' <<<'  activeDeadlineSeconds: 3
  cleanPodPolicy: None'
own_job brief 1 'exit 0' <<<'  ttlSecondsAfterFinished: 2'
own_job ruled 2 'test $RANK = 0 && exec sleep 600; exit 3' <<<'  failurePolicy: {rules: [{exitCodes: [3], action: Fail}]}'
own_job swept 1 'exit 0' <<<'  cleanPodPolicy: All'
own_job foreign 1 'exit 0' <<<'  managedBy: example.com/other'

kubectl wait --for=condition=Failed tjob/late --timeout=60s
expect_equal "reason of the late job" "$(reason late Failed)" DeadlineExceeded
await 60 "late pods gone" pods_are late ""

kubectl wait --for=condition=Failed tjob/ruled --timeout=60s
expect_equal "reason of the ruled job" "$(reason ruled Failed)" ExitCode3
expect_match "its message" "$(status ruled message)" 'rank 1 .*failurePolicy\.rules\[0\]'
expect_equal "its restarts" "$(status ruled restarts)" 0
await 60 "its failed pod, alone" pods_are ruled "ruled-0-1:Failed "

kubectl wait --for=condition=Succeeded tjob/swept --timeout=60s
await 60 "swept pods gone" pods_are swept ""
job_gone() { local out; out=$(kubectl get tjob,pods,services,configmaps -l lockstep.dev/job-name=brief -o name) && [ -z "$out" ] && ! kubectl get tjob brief; }
await 60 "brief job gone with its children" job_gone
expect_equal "status of another controller's job" "$(kubectl get tjob foreign -o 'jsonpath={.status}')" ""
if kubectl patch tjob foreign --type merge -p '{"spec":{"managedBy":"lockstep.dev/operator"}}' 2>"$work/refusal"; then fail "managedBy changed"; fi
expect_match "refusal" "$(cat "$work/refusal")" 'managedBy never changes'
