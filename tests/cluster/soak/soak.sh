#!/usr/bin/env bash
# Random jobs and faults for operators on a control plane of their own, for LOCKSTEP_SOAK_SECONDS (default: half an hour).
set -euo pipefail
cd "$(dirname "$0")/../../.."
work=$(mktemp -d)
export CLUSTER_STATE=$work/cluster API_PORT=${API_PORT:-17543} ETCD_PORT=${ETCD_PORT:-13479}
. tests/cluster/lib.sh
trap 'tests/cluster/down.sh; rm -rf "$work"' EXIT
tests/cluster/up.sh
"$BIN/kubectl" apply -f crds/ >/dev/null
wait_for 60 "established CRD" "$BIN/kubectl" wait --for=condition=Established crd/trainingjobs.lockstep.dev --timeout=10s
wait_for 60 "served TrainingJobs" "$BIN/kubectl" get trainingjobs
LOCKSTEP_TEST_KUBECONFIG=$KUBECONFIG LOCKSTEP_SOAK_OPERATOR=$PWD/build/bin/lockstep-operator \
  LOCKSTEP_SOAK_SECONDS=${LOCKSTEP_SOAK_SECONDS:-1800} build/release/bin/operator_soak_test
