#!/usr/bin/env bash
# usage: chart_test.sh SOURCE_DIR PYTHON
# The chart without a cluster: lint, manifests of several value files against golden ones, values that must be refused, and
# kustomize/operator.yaml, which is the chart with its defaults. LOCKSTEP_UPDATE_FILES=1 writes golden files and kustomize/ anew.
set -euo pipefail
source=$1 python=$2
chart=$source/helm/lockstep here=$source/tests/helm
. "$source/tests/cluster/lib.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
complain() { echo "FAILED: $*"; bad=1; }
same() { # what expected-file found-file
  if [ -n "${LOCKSTEP_UPDATE_FILES:-}" ]; then cp "$3" "$2"; fi
  if diff -u "$2" "$3"; then echo "ok: $1"; else complain "$1 differs; LOCKSTEP_UPDATE_FILES=1 writes it anew"; fi
}
helm() { "$BIN/helm" "$@" 2>"$work/err" || { cat "$work/err" >&2; return 1; }; }
# helm-test hooks included; without the objects that rendered.py compares with their own files.
render() { # release values argument...
  helm template "$1" "$chart" --namespace lockstep-system --kube-version 1.36 --values "$2" --set crds.install=false "${@:3}" |
    sed '/^$/d; s/[ \t]*$//'
}

for values in "$here"/values/*.yaml; do
  name=$(basename "$values" .yaml)
  helm lint --strict "$chart" --values "$values" >"$work/lint" || complain "helm lint with $name: $(cat "$work/lint")"
  render train "$values" --set metrics.rules.enabled=false,metrics.dashboards.enabled=false >"$work/$name.yaml"
  same "manifests of $name" "$here/golden/$name.yaml" "$work/$name.yaml"
done
helm template train "$chart" --values "$here/values/observed.yaml" >"$work/all.yaml"
"$python" "$here/rendered.py" "$source" "$work/all.yaml" https://runbooks.invalid/lockstep || complain "rendered.py"
helm template train "$chart" --set image.registry=r.invalid,crds.keep=false >"$work/let-go.yaml"
if grep -q 'resource-policy' "$work/let-go.yaml"; then complain "crds.keep=false keeps the CRD"; fi
grep -q 'kind: CustomResourceDefinition' "$work/let-go.yaml" || complain "crds.keep=false installs no CRD"
helm template train "$chart" --set image.registry=r.invalid,metrics.rules.enabled=true >"$work/unlinked.yaml"
if grep -q 'runbook_url:' "$work/unlinked.yaml"; then complain "alerts link to a site that nobody named"; fi
[ "$(grep -c 'alert:' "$work/unlinked.yaml")" = "$(grep -c 'alert:' "$chart/files/rules.yaml")" ] || complain "alerts were lost with their links"
# Values of a release that is older than the key, as --reuse-values keeps them.
helm template train "$chart" --set image.registry=r.invalid,metrics.rules.enabled=true --set-json metrics.rules.alerts=null,image.gpuRuntime=null >"$work/reused.yaml"
[ "$(grep -c 'alert:' "$work/reused.yaml")" = "$(grep -c 'alert:' "$chart/files/rules.yaml")" ] || complain "no alerts without metrics.rules.alerts"
# Which image jobs get that ask for GPUs: ours beside ours, else what was named for all.
gpu_image() { helm template train "$chart" --set "image.registry=r.invalid,$1" --show-only templates/deployment.yaml | sed -n 's/.*--gpu-runtime-image=//p'; }
[ "$(gpu_image image.tag=v1)" = r.invalid/lockstep/runtime:v1 ] || complain "the image for GPUs is '$(gpu_image image.tag=v1)'"
[ -z "$(gpu_image image.runtime=own/cuda)" ] || complain "an own image for all jobs is not that of jobs with GPUs: $(gpu_image image.runtime=own/cuda)"
[ "$(gpu_image image.runtime=own/cpu,image.gpuRuntime=own/cuda,image.tag=v1)" = r.invalid/own/cuda:v1 ] || complain "image.gpuRuntime is without effect"
alerts=metrics.rules.alerts
helm template train "$chart" --set image.registry=r.invalid,metrics.rules.enabled=true,$alerts.LockstepStraggler.enabled=false \
  --set $alerts.LockstepCheckpointStale.window=20s,$alerts.LockstepCheckpointStale.for=3s,$alerts.LockstepCheckpointStale.severity=critical \
  --show-only templates/prometheusrule.yaml >"$work/tuned.yaml"
[ "$(grep -c 'alert:' "$work/tuned.yaml")" = $(($(grep -c 'alert:' "$chart/files/rules.yaml") - 1)) ] || complain "an alert that is switched off is there, or another is not"
sed -n '/alert: LockstepCheckpointStale/,/severity/p' "$work/tuned.yaml" >"$work/stale"
for said in 'checkpoint_step:max[20s]' 'job_step:max[20s]' 'offset 20s' 'for: 3s' 'severity: critical'; do
  grep -qF "$said" "$work/stale" || complain "an alert that is tuned says nothing of $said: $(cat "$work/stale")"
done

refused() { # pattern argument...
  local pattern=$1 said; shift
  if said=$("$BIN/helm" template train "$chart" --set image.registry=r.invalid "$@" 2>&1); then
    complain "accepted: $*"
  elif grep -qiE -- "$pattern" <<<"$said"; then
    echo "ok: refused $*"
  else
    complain "$* was refused without a word of '$pattern': $said"
  fi
}
refused 'image.registry is required' --set image.registry=
refused 'registry' --set image.registry=r.invalid/
refused 'wrokers' --set operator.wrokers=2
refused 'promtheus' --set promtheus.enabled=true
refused 'workers' --set operator.workers=0
refused 'workers' --set-string operator.workers=4
refused 'pullPolicy' --set image.pullPolicy=Sometimes
refused 'watchNamespaces' --set 'watchNamespaces={a,a}'
refused 'watchNamespaces' --set 'watchNamespaces={Team_A}'
refused 'interval' --set metrics.podMonitor.interval=often
refused 'intreval' --set metrics.podMonitor.intreval=30s
refused 'runbookUrl' --set metrics.rules.runbookUrl=docs
refused 'LockstepStragler' --set metrics.rules.alerts.LockstepStragler.for=1m
refused 'for' --set metrics.rules.alerts.LockstepStraggler.for=soon
refused 'severity' --set metrics.rules.alerts.LockstepStraggler.severity=
refused 'LockstepOperatorDown.window: the expression of this alert has no range to change' --set metrics.rules.enabled=true,metrics.rules.alerts.LockstepOperatorDown.window=1m
refused 'serviceAccount.name is required' --set serviceAccount.create=false
refused 'kepe' --set crds.kepe=true

# A comment stands above every value.
undocumented=$(awk '(/^  [a-zA-Z]+:/ || /^[a-zA-Z]+: ./) && !told { print "line " FNR ": " $0 } { told = /^ *# -- / || (told && /^ *#/) }' "$chart/values.yaml")
[ -z "$undocumented" ] || complain "values.yaml says nothing of $undocumented"

# For those without Helm: the same objects.
{
  echo "# The chart's objects with its defaults, written by tests/helm/chart_test.sh. Another registry: docs/guides/install.md."
  render lockstep "$here/values/defaults.yaml" --set tests.enabled=false | grep -vE '^ *helm.sh/chart:|^# Source:' |
    sed 's|managed-by: Helm|managed-by: kustomize|'
} >"$work/operator.yaml"
same "kustomize/operator.yaml" "$source/kustomize/operator.yaml" "$work/operator.yaml"
"$BIN/kubectl" kustomize "$source" >"$work/kustomized" || complain "kubectl kustomize"
kinds=$(grep -E '^kind:' "$work/kustomized" | sort | xargs)
expected="kind: ClusterRole kind: ClusterRoleBinding kind: CustomResourceDefinition kind: Deployment kind: Namespace kind: PodDisruptionBudget kind: Role kind: RoleBinding kind: Service kind: ServiceAccount"
if [ "$kinds" = "$expected" ]; then echo "ok: kubectl kustomize"; else complain "kubectl kustomize makes $kinds"; fi
exit $bad
