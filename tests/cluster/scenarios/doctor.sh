#!/usr/bin/env bash
# lockstep doctor --cluster against the real API server: a cluster that is sound, and one thing wrong at a time.
. "$(dirname "$0")/../scenario.sh"
stop "operator-$scenario"  # the one without leader election
chart template "$scenario" --show-only templates/lease-role.yaml | sed "s/name: $scenario-operator, namespace/name: operator, namespace/" |
  kubectl apply -f - >/dev/null
judge() { # name status argument...
  local name=$1 expected=$2 rc=0; shift 2
  "$LOCKSTEP_BIN/lockstep" doctor --cluster -n "$scenario" "$@" >"$work/$name" 2>"$work/$name.err" || rc=$?
  [ "$rc" = "$expected" ] || fail "doctor ($name) exits with $rc, expected $expected: $(cat "$work/$name" "$work/$name.err")"
}
says() { expect_match "$2" "$(tr '\n' ' ' <"$work/$1")" "$3"; } # name what pattern
# The chart's Deployment without pods of its own: the operator at work is this scenario's process, by the same Lease.
chart template "$scenario" --show-only templates/deployment.yaml | kubectl apply -f - >/dev/null
kubectl scale deployment "$scenario-operator" --replicas 0 >/dev/null
elect() {
  start_operator -a --leader-elect --leader-elect-resource-namespace "$scenario" --leader-elect-resource-name "$scenario-operator" \
    --leader-elect-lease-duration 3s --leader-elect-renew-deadline 2s --leader-elect-retry-period 400ms
}
trap 'rc=$?; stop "operator-$scenario-a" KILL; cleanup $rc' EXIT
leads() { [ -n "$(kubectl get lease "$scenario-operator" -o 'jsonpath={.spec.holderIdentity}')" ]; }

judge nobody 1
says nobody "an operator without pods" "WRONG +operator +$scenario/$scenario-operator has no pod that is ready +next: kubectl -n $scenario describe pods"
says nobody "no Lease" "WRONG +leader .*not found"
elect
await 30 "leader" leads
judge sound 0
for line in 'server +https://.* answers' 'crd +TrainingJobs are known, of this version' "operator +$scenario/$scenario-operator runs" 'leader +.* leads' \
  'runtime image +registry.invalid/lockstep/runtime-cpu:.*, for GPUs registry.invalid/lockstep/runtime:' "rights +jobs may be made and looked at in $scenario" 'nothing is wrong'; do
  says sound "a sound cluster" "$line"
done
judge lease 0 --lease "$scenario/$scenario-operator"
judge json 0 --output json
expect_equal "findings for machines" "$(grep -c '"wrong": false' "$work/json")" 6

# Killed without a word: its Lease stays, and is watched for as long as it may last.
stop "operator-$scenario-a" KILL
silent() { ! "$LOCKSTEP_BIN/lockstep" doctor --cluster -n "$scenario"; }
await 30 "end of the Lease" silent
judge silent 1
says silent "a leader that is gone" 'WRONG +leader +the Lease .* was not renewed by .* next: kubectl .* get lease'

# Rights: the operator's own account may not create jobs, nobody may do nothing and sees no CRD and no Deployment.
judge operator 1 --kubeconfig "$work/operator.kubeconfig"
says operator "rights of the operator" 'WRONG +rights +in namespace [a-z]+ you may not create trainingjobs'
kubectl create serviceaccount nobody >/dev/null
sed "s|token: \"[^\"]*\"|token: \"$(kubectl create token nobody)\"|" "$work/operator.kubeconfig" >"$work/nobody.kubeconfig"
judge nothing 1 --kubeconfig "$work/nobody.kubeconfig"
says nothing "what nobody sees" 'ok +crd +TrainingJobs are known; of which version .* ok +operator +these rights do not show one'
sed 's|token: "[^"]*"|token: "wrong"|' "$work/operator.kubeconfig" >"$work/wrong.kubeconfig"
judge wrong 1 --kubeconfig "$work/wrong.kubeconfig"
says wrong "wrong credentials" 'WRONG +server +.*does not accept the credentials .*next: kubectl auth whoami'

# A CRD of another version, and no runtime image. The CRD is every scenario's: back at once.
kubectl patch deployment "$scenario-operator" --type json -p '[{"op":"replace","path":"/spec/template/spec/containers/0/args/0","value":"--workers=1"}]' >/dev/null
judge image 1
says image "no runtime image" "WRONG +runtime image +$scenario/$scenario-operator names none"
restore_crd() { "$BIN/kubectl" replace -f "$LOCKSTEP_SOURCE/crds/trainingjobs.yaml" >/dev/null || :; }
trap 'rc=$?; restore_crd; stop "operator-$scenario-a" KILL; cleanup $rc' EXIT
"$BIN/kubectl" patch crd trainingjobs.lockstep.dev --type json \
  -p '[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/novel","value":{"type":"string"}}]' >/dev/null
judge other 1
says other "a CRD of another version" 'WRONG +crd +.*another version of Lockstep .*next: lockstep schema \| kubectl apply'
restore_crd
kubectl delete deployment "$scenario-operator" >/dev/null
judge absent 1
says absent "no operator" 'WRONG +operator +no Deployment of an operator is here +next: helm install'
