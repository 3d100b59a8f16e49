#!/usr/bin/env bash
# usage: fixture.sh up|down BIN_DIR SOURCE_DIR LIBRARY_DIR TOOLS_DIR
# One API server for all scenarios, with the CRD established and a process kubelet as its only node.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
action=$1 bin=$2 source=$3 library=$4 tools=$5
. "$here/lib.sh"
if [ "$action" = down ]; then
  mkdir -p "$PIDS"
  stop process-kubelet
  exec "$here/down.sh"
fi
"$here/down.sh"  # what an interrupted run may have left
"$here/up.sh"
"$BIN/kubectl" apply -f "$source/crds/"
# kubectl wait gives up at once if the CRD has no conditions yet.
wait_for 60 "established CRD" "$BIN/kubectl" wait --for=condition=Established crd/trainingjobs.lockstep.dev --timeout=10s
start process-kubelet "$tools/process-kubelet" --kubeconfig "$KUBECONFIG" --state "$CLUSTER_STATE/node" --bin "$bin" \
  --workdir "$source" --library "$library"
wait_for 60 "ready node" bash -c "'$BIN/kubectl' get nodes | grep -q Ready"
