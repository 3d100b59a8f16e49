#!/usr/bin/env bash
# Prints what the operator does and costs at scale: a control plane of its own, whose controller manager has its stock limits. Nothing
# passes or fails here.
# usage: operators.sh [--quick]
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
export CLUSTER_STATE=$work/cluster API_PORT=${API_PORT:-17443} ETCD_PORT=${ETCD_PORT:-13379} CONTROLLER_LIMITS=
. tests/cluster/lib.sh
trap 'tests/cluster/down.sh; rm -rf "$work"' EXIT
tests/cluster/up.sh
"$BIN/kubectl" apply -f crds/ >/dev/null
wait_for 60 "established CRD" "$BIN/kubectl" wait --for=condition=Established crd/trainingjobs.lockstep.dev --timeout=10s
echo "$(date -u +%F), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, load before: $(cut -d' ' -f1 /proc/loadavg)"
build/release/bin/operators-bench --kubeconfig "$KUBECONFIG" --operator build/bin/lockstep-operator \
  --controllers "$(cut -d' ' -f1 "$PIDS/controllers")" --server "$(cut -d' ' -f1 "$PIDS/apiserver")" --work "$work" "$@" || { rc=$?; tail -n 20 "$work"/*.log; exit $rc; }
