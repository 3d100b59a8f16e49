#!/usr/bin/env bash
# helm install, upgrade, rollback and uninstall: the API server takes every object of the chart as it stands, an upgrade brings the new
# CRD, an uninstall leaves the CRD and the jobs. The chart's own test passes.
. "$(dirname "$0")/../scenario.sh"
crd() { "$BIN/kubectl" get crd trainingjobs.lockstep.dev -o "jsonpath=$1"; }
columns() { crd '{.spec.versions[0].additionalPrinterColumns[*].name}'; }
# The CRD is every scenario's: back to what the fixture applied, whatever happens here.
restore_crd() {
  "$BIN/kubectl" replace -f "$LOCKSTEP_SOURCE/crds/trainingjobs.yaml" >/dev/null || :
}
trap 'restore_crd; cleanup' EXIT

# The test bed's CRD was applied by kubectl, which is not this release.
refused=$(chart install tried 2>&1) && fail "a CRD of somebody else's was taken over"
expect_match "somebody else's CRD" "$refused" "trainingjobs.lockstep.dev.*exists"
"$BIN/helm" uninstall tried --namespace "$scenario" >/dev/null 2>&1 || :
chart install tried --take-ownership --force-conflicts --set operator.workers=2 >"$work/notes" || fail "helm install"
expect_match "notes" "$(cat "$work/notes")" "helm test tried -n $scenario"
expect_equal "kept by" "$(crd '{.metadata.annotations.helm\.sh/resource-policy}')" keep
expect_equal "service account" "$(kubectl get deployment tried-operator -o 'jsonpath={.spec.template.spec.serviceAccountName}')" tried-operator
expect_equal "image" "$(kubectl get deployment tried-operator -o 'jsonpath={.spec.template.spec.containers[0].image}')" \
  "registry.invalid/lockstep/operator:$(sed -n 's/^appVersion: //p' "$LOCKSTEP_SOURCE/helm/lockstep/Chart.yaml")"

# What the chart passes to the operator, the operator knows.
mapfile -t arguments < <(kubectl get deployment tried-operator -o 'jsonpath={range .spec.template.spec.containers[0].args[*]}{@}{"\n"}{end}')
[ ${#arguments[@]} -ge 2 ] || fail "the chart passes ${#arguments[@]} arguments"
for argument in "${arguments[@]}" --without-nodes --namespace=x; do
  "$LOCKSTEP_BIN/lockstep-operator" --help | grep -q -- "${argument%%=*}" || fail "lockstep-operator does not know $argument"
done
echo "ok: ${#arguments[@]} arguments known"

can() { "$BIN/kubectl" auth can-i "$@" --as "system:serviceaccount:$scenario:tried-operator" 2>/dev/null || :; }
expect_equal "may create pods" "$(can create pods -n "$scenario")" yes
expect_equal "may create pods elsewhere" "$(can create pods -n default)" yes
expect_equal "may write status" "$(can update trainingjobs.lockstep.dev --subresource status -n "$scenario")" yes
expect_equal "may create leases" "$(can create leases.coordination.k8s.io -n "$scenario")" yes
expect_equal "may renew its lease" "$(can update leases.coordination.k8s.io/tried-operator -n "$scenario")" yes
expect_equal "may renew another's lease" "$(can update leases.coordination.k8s.io/other -n "$scenario")" no
expect_equal "may delete its lease" "$(can delete leases.coordination.k8s.io/tried-operator -n "$scenario")" no
expect_equal "may see leases elsewhere" "$(can get leases.coordination.k8s.io/tried-operator -n default)" no
expect_equal "replicas" "$(kubectl get deployment tried-operator -o 'jsonpath={.spec.replicas}')" 2
expect_equal "may read secrets" "$(can get secrets -n "$scenario")" no
expect_equal "may exec" "$(can create pods --subresource exec -n "$scenario")" no

# The chart's test: its job by the operator of this scenario, its waiting by the very script of its pod.
chart template tried --show-only templates/tests/job.yaml --set "watchNamespaces={$scenario}" | kubectl apply -f - >/dev/null
chart template tried --show-only templates/tests/await.yaml --set "watchNamespaces={$scenario}" | kubectl apply --dry-run=server -o json -f - >"$work/await.json"
await 60 "port of the operator" grep -qE '(port=|:)[0-9]+' "$LOG/operator-$scenario.log"
port=$(sed -nE 's/.*port=([0-9]+).*/\1/p' "$LOG/operator-$scenario.log" | tail -n 1)
field() { "$BIN/kubectl" create --dry-run=client -f "$work/await.json" -o "jsonpath={.spec.containers[0].$1}"; }
HOST=127.0.0.1 PORT=$port JOB=$(field 'env[?(@.name=="JOB")].value') bash -euc "$(field 'command[2]')" >"$work/await.out" ||
  fail "the chart's test: $(cat "$work/await.out")"
expect_match "the chart's test" "$(cat "$work/await.out")" "tried-test succeeded"
kubectl delete trainingjob tried-test --wait >/dev/null

# A job that is there all the time.
small_job kept 1 10 ddp | sed 's/^  ranks:/  suspend: true\n  ranks:/' | kubectl apply -f - >/dev/null
uid=$(kubectl get trainingjob kept -o 'jsonpath={.metadata.uid}')

# The next version has a column more, and this release watches its namespace only.
cp -rL "$LOCKSTEP_SOURCE/helm/lockstep" "$work/next"
sed -i 's/^version: .*/version: 0.2.0/' "$work/next/Chart.yaml"
sed -i '0,/additionalPrinterColumns:/s//additionalPrinterColumns:\n    - {jsonPath: ".metadata.name", name: Newcomer, type: string}/' "$work/next/files/trainingjobs.yaml"
before=$(columns)
"$BIN/helm" upgrade tried "$work/next" --namespace "$scenario" --force-conflicts --set image.registry=registry.invalid --set "watchNamespaces={$scenario}" >/dev/null ||
  fail "helm upgrade"
expect_match "columns after the upgrade" "$(columns)" Newcomer
expect_equal "may still create pods" "$(can create pods -n "$scenario")" yes
expect_equal "may create pods elsewhere" "$(can create pods -n default)" no
expect_equal "may see nodes" "$(can list nodes)" yes
expect_equal "may see all jobs" "$(can list trainingjobs.lockstep.dev -A)" no
"$BIN/helm" rollback tried 1 --namespace "$scenario" --force-conflicts >/dev/null || fail "helm rollback"
expect_equal "columns after the rollback" "$(columns)" "$before"
expect_equal "may create pods elsewhere again" "$(can create pods -n default)" yes

"$BIN/helm" uninstall tried --namespace "$scenario" --wait >/dev/null || fail "helm uninstall"
expect_equal "left after uninstall" \
  "$("$BIN/kubectl" get deployment,serviceaccount,service,clusterrole,clusterrolebinding,role,rolebinding -A -o name | grep -c tried-operator || :)" 0
expect_equal "the job" "$(kubectl get trainingjob kept -o 'jsonpath={.metadata.uid}')" "$uid"
chart install tried >/dev/null || fail "helm install over the CRD that was kept"
expect_equal "the job after installing again" "$(kubectl get trainingjob kept -o 'jsonpath={.metadata.uid}')" "$uid"

"$BIN/helm" uninstall tried --namespace "$scenario" --wait >/dev/null || fail "helm uninstall"

# Without Helm: the same objects pass the API server.
"$BIN/kubectl" create namespace lockstep-system >/dev/null
trap '"$BIN/kubectl" delete namespace lockstep-system --wait=false >/dev/null 2>&1 || :; restore_crd; cleanup' EXIT
"$BIN/kubectl" apply -k "$LOCKSTEP_SOURCE" --dry-run=server >"$work/kustomized" 2>&1 || fail "kubectl apply -k: $(cat "$work/kustomized")"
expect_equal "objects of kubectl apply -k" "$(grep -c '(server dry run)' "$work/kustomized")" 10
