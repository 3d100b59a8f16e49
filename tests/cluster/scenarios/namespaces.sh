#!/usr/bin/env bash
# One operator for two namespaces, with the chart's Role in each and no right elsewhere: jobs in both are run, one in a third
# namespace is left alone, and an operator that starts anew goes on with all of them.
. "$(dirname "$0")/../scenario.sh"
stop "operator-$scenario"
red=$scenario-red green=$scenario-green blue=$scenario-blue
end_namespaces() { "$BIN/kubectl" delete namespace $red $green $blue --wait=false --ignore-not-found >/dev/null 2>&1; }
trap 'rc=$?; end_namespaces; cleanup $rc' EXIT
"$BIN/kubectl" delete namespace $red $green $blue --ignore-not-found >/dev/null  # of an interrupted run
for ns in $red $green $blue; do "$BIN/kubectl" create namespace "$ns" >/dev/null; done
"$BIN/kubectl" delete clusterrolebinding "$scenario-operator" >/dev/null
chosen=(--set "watchNamespaces={$red,$green}" --set operator.watchNodes=false,serviceAccount.create=false,serviceAccount.name=operator)
chart template "$scenario" "${chosen[@]}" --show-only templates/role.yaml | "$BIN/kubectl" apply -f - >/dev/null
can() { "$BIN/kubectl" auth can-i "$@" --as "system:serviceaccount:$scenario:operator" 2>/dev/null || :; }
for ns in $red $green; do expect_equal "may create pods in $ns" "$(can create pods -n "$ns")" yes; done
expect_equal "may create pods in $blue" "$(can create pods -n $blue)" no
expect_equal "may see jobs in $blue" "$(can list trainingjobs.lockstep.dev -n $blue)" no
expect_equal "may see nodes" "$(can list nodes)" no

# What the chart passes on about namespaces, to an operator with those rights and no others.
chart template "$scenario" "${chosen[@]}" --show-only templates/deployment.yaml >"$work/deployment.yaml"
mapfile -t flags < <("$BIN/kubectl" create --dry-run=client -f "$work/deployment.yaml" \
  -o 'jsonpath={range .spec.template.spec.containers[0].args[*]}{@}{"\n"}{end}' | grep -E '^--(namespace|without-nodes|gpu-runtime-image)')
version=$(sed -n 's/^appVersion: //p' "$LOCKSTEP_SOURCE/helm/lockstep/Chart.yaml")
expect_equal "flags" "${flags[*]}" "--namespace=$red --namespace=$green --without-nodes --gpu-runtime-image=registry.invalid/lockstep/runtime:$version"
begin_operator() {
  start "operator-$scenario" "$LOCKSTEP_BIN/lockstep-operator" --kubeconfig "$work/operator.kubeconfig" --listen 127.0.0.1 --port 0 \
    --runtime-image example.invalid/runtime:test "${flags[@]}"
}
begin_operator
await 60 "synced operator" bash -c "[ \$(grep -c 'synced jobs=' '$LOG/operator-$scenario.log') -ge 1 ]"

name() { echo "${1##*-}"; } # namespace: of its job; the process kubelet tells pods apart by their names alone
job() { # namespace command [resources]
  "$BIN/kubectl" -n "$1" apply -f - >/dev/null <<Y
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: $(name "$1")}
spec: {ranks: 2, command: [/bin/sh, -c, "$2"], resources: ${3:-"{}"}}
Y
}
field() { "$BIN/kubectl" -n "$1" get tjob "$(name "$1")" -o "jsonpath={.status.$2}"; } # namespace field
is_state() { [ "$(field "$1" state)" = "$2" ]; }                             # namespace state
job $red 'exec sleep 600'
job $green 'exit 0' '{limits: {nvidia.com/gpu: 1}}'
job $blue 'exit 0'
await 60 "end of the job in $green" is_state $green Succeeded
await 60 "ranks of the job in $red" is_state $red Running
image() { "$BIN/kubectl" -n "$1" get pod "$(name "$1")-0-0" -o 'jsonpath={.spec.containers[0].image}'; } # namespace
expect_equal "image of a job without GPUs" "$(image $red)" example.invalid/runtime:test
expect_equal "image of a job that asks for GPUs" "$(image $green)" "registry.invalid/lockstep/runtime:$version"
port=$(sed -nE 's/.*port=([0-9]+).*/\1/p' "$LOG/operator-$scenario.log" | tail -n 1)
curl -fsS "http://127.0.0.1:$port/metrics" >"$work/metrics"
grep -q "lockstep_job_state{namespace=\"$red\",state=\"Running\",trainingjob=\"red\"} 1" "$work/metrics" || fail "no series of $red: $(grep lockstep_job_state "$work/metrics")"
grep -q "lockstep_job_completion_timestamp_seconds{namespace=\"$green\"" "$work/metrics" || fail "no series of $green"

# The next operator knows both again: one that runs is not begun anew, one that ends is seen to.
stop "operator-$scenario" KILL
kill -TERM "$(cat "$CLUSTER_STATE/node/pods/red-0-1/pid")"
begin_operator
attempt_is() { [ "$(field "$1" attempt)" = "$2" ]; } # namespace attempt
await 60 "next attempt in $red" attempt_is $red 1
expect_equal "attempt in $green" "$(field $green attempt)" 0
expect_equal "pods in $blue" "$("$BIN/kubectl" -n $blue get pods -o name)" ""
expect_equal "status in $blue" "$(field $blue state)" ""
expect_equal "watches that were refused" "$(grep -c 'watch_trouble.*forbidden' "$LOG/operator-$scenario.log" || :)" 0

# A namespace goes, and its Role with it: the next operator is refused there, and looks after the other.
"$BIN/kubectl" delete namespace $green --wait >/dev/null
stop "operator-$scenario" KILL
begin_operator
await 60 "refusal in $green" grep -q "watch_trouble message=\"$green: .*forbidden" "$LOG/operator-$scenario.log"
kill -TERM "$(cat "$CLUSTER_STATE/node/pods/red-1-1/pid")"
await 60 "next attempt in $red without $green" attempt_is $red 2

# Nobody is to have two answers about one namespace.
said=$("$LOCKSTEP_BIN/lockstep-operator" --namespace a --namespace a 2>&1) && fail "the same namespace twice was taken"
expect_match "the same namespace twice" "$said" 'namespace a is given twice'
said=$("$LOCKSTEP_BIN/lockstep-operator" --namespace '' 2>&1) && fail "an empty namespace was taken"
expect_match "an empty namespace" "$said" 'leave it out to watch all'
