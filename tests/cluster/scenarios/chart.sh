#!/usr/bin/env bash
# helm lint, install and uninstall: the API server takes every object of the chart as it stands, and all of it goes again.
. "$(dirname "$0")/../scenario.sh"
lint=$("$BIN/helm" lint --strict "$LOCKSTEP_SOURCE/helm/lockstep" --set image.registry=registry.invalid 2>&1) || fail "helm lint: $lint"
echo "ok: helm lint --strict"

refused=$("$BIN/helm" template no-registry "$LOCKSTEP_SOURCE/helm/lockstep" 2>&1) && fail "a chart without image.registry was rendered"
expect_match "without a registry" "$refused" "image.registry is required"
refused=$(chart template wrong --set operator.wrokers=2 2>&1) && fail "a value that does not exist was accepted"
expect_match "a misspelt value" "$refused" "wrokers"

chart install tried --skip-crds --set operator.workers=2 >/dev/null || fail "helm install"
expect_equal "service account" "$(kubectl get deployment tried-operator -o 'jsonpath={.spec.template.spec.serviceAccountName}')" tried-operator
expect_equal "image" "$(kubectl get deployment tried-operator -o 'jsonpath={.spec.template.spec.containers[0].image}')" \
  "registry.invalid/lockstep/operator:$(sed -n 's/^appVersion: //p' "$LOCKSTEP_SOURCE/helm/lockstep/Chart.yaml")"

# What the chart passes to the operator, the operator knows.
mapfile -t arguments < <(kubectl get deployment tried-operator -o 'jsonpath={range .spec.template.spec.containers[0].args[*]}{@}{"\n"}{end}')
[ ${#arguments[@]} -ge 2 ] || fail "the chart passes ${#arguments[@]} arguments"
for argument in "${arguments[@]}"; do
  "$LOCKSTEP_BIN/lockstep-operator" --help | grep -q -- "${argument%%=*}" || fail "lockstep-operator does not know $argument"
done
echo "ok: ${#arguments[@]} arguments known"

can() { "$BIN/kubectl" auth can-i "$@" --as "system:serviceaccount:$scenario:tried-operator" --namespace "$scenario" 2>/dev/null || :; }
expect_equal "may create pods" "$(can create pods)" yes
expect_equal "may write status" "$(can update trainingjobs.lockstep.dev --subresource status)" yes
expect_equal "may read secrets" "$(can get secrets)" no
expect_equal "may exec" "$(can create pods --subresource exec)" no

"$BIN/helm" uninstall tried --namespace "$scenario" --wait >/dev/null || fail "helm uninstall"
expect_equal "left after uninstall" "$("$BIN/kubectl" get deployment,serviceaccount,clusterrole,clusterrolebinding -A -o name | grep -c tried || :)" 0
