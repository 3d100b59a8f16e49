# Sourced by every scenario: a namespace of its own, an operator with no more rights than the chart gives it.
# Environment from CTest: LOCKSTEP_BIN, LOCKSTEP_SOURCE.
set -euo pipefail
. "$LOCKSTEP_SOURCE/tests/cluster/lib.sh"
. "$LOCKSTEP_SOURCE/tests/cluster/small_job.sh"
scenario=$(basename "$0" .sh)
work=$CLUSTER_STATE/scenarios/$scenario
rm -rf "$work" "$CLUSTER_STATE/node/volumes/$scenario" && mkdir -p "$work" "$PIDS"
kubectl() { "$BIN/kubectl" --namespace "$scenario" "$@"; }

fail() {
  echo "FAILED: $*" >&2
  kubectl get trainingjobs,pods -o wide >&2 || :
  kubectl get trainingjobs -o yaml >&2 || :
  tail -n 40 "$LOG/operator-$scenario.log" >&2 || :
  ls -t "$CLUSTER_STATE"/node/pods/*/log | head -n 4 | xargs -r tail -n 8 >&2 || :
  exit 1
}
. "$LOCKSTEP_SOURCE/tests/cluster/checks.sh"

start_operator() { # [suffix flag...]: more than one needs a suffix each, and --leader-elect
  start "operator-$scenario${1:-}" "$LOCKSTEP_BIN/lockstep-operator" --kubeconfig "$work/operator.kubeconfig" --namespace "$scenario" \
    --listen 127.0.0.1 --port 0 --runtime-image example.invalid/runtime:test "${@:2}"
}

# helm VERB RELEASE of our chart, with the one value that has no default.
chart() { # verb release argument...
  "$BIN/helm" "$1" "$2" "$LOCKSTEP_SOURCE/helm/lockstep" --namespace "$scenario" --set image.registry=registry.invalid "${@:3}"
}

# The chart's ClusterRole, bound to a service account of this scenario, and a kubeconfig with its token.
grant_operator() {
  chart template "$scenario" --show-only templates/clusterrole.yaml | kubectl apply -f - >/dev/null
  kubectl create serviceaccount operator >/dev/null
  "$BIN/kubectl" delete clusterrolebinding "$scenario-operator" --ignore-not-found >/dev/null
  kubectl create clusterrolebinding "$scenario-operator" --clusterrole "$scenario-operator" --serviceaccount "$scenario:operator" >/dev/null
  cat >"$work/operator.kubeconfig" <<K
apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: "https://127.0.0.1:$API_PORT", certificate-authority: "$PKI/ca.crt"}}]
users: [{name: test, user: {token: "$(kubectl create token operator --duration 4h)"}}]
contexts: [{name: test, context: {cluster: test, user: test, namespace: $scenario}}]
K
}

has_checkpoint() { compgen -G "$(output_of "$1")/checkpoints/step-*/manifest.json" >/dev/null; } # job
# The job ended with the bits of the run that nothing disturbed: every loss and the model.
expect_reference() { # job
  cmp "$REFERENCE/output/model/model.safetensors" "$(output_of "$1")/model/model.safetensors" || fail "model differs"
  [ "$(losses "$REFERENCE/output")" = "$(losses "$(output_of "$1")")" ] || fail "losses differ"
  echo "ok: model and losses of $1 equal the reference's"
}
output_of() { echo "$CLUSTER_STATE/node/volumes/$scenario/$1"; } # job
pod_pid() { cat "$CLUSTER_STATE/node/pods/$1/pid"; }             # pod
# A scenario's own trap saves the status first: trap 'rc=$?; ...; cleanup $rc' EXIT
cleanup() { # [status]
  local rc=${1:-$?}
  stop "operator-$scenario" KILL 2>/dev/null
  kubectl delete trainingjobs --all --wait=false --ignore-not-found >/dev/null 2>&1 || :
  "$BIN/kubectl" delete namespace "$scenario" --wait=false --ignore-not-found >/dev/null 2>&1 || :
  exit $rc
}
trap cleanup EXIT
"$BIN/kubectl" delete namespace "$scenario" --ignore-not-found >/dev/null  # of an interrupted run
"$BIN/kubectl" create namespace "$scenario" >/dev/null
grant_operator
start_operator
