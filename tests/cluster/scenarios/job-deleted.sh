#!/usr/bin/env bash
# A deleted job leaves no pod, Service or ConfigMap behind, and no process.
. "$LOCKSTEP_SOURCE/tests/cluster/scenario.sh"
small_job doomed 2 100000 ddp | kubectl apply -f -
await 60 "running ranks" bash -c "'$BIN/kubectl' -n $scenario get tjob doomed -o 'jsonpath={.status.ranks.running}' | grep -qx 2"
pid=$(pod_pid doomed-0-0)
kubectl delete tjob doomed --timeout=60s
none_left() {
  local out
  out=$(kubectl get pods,services,configmaps -l lockstep.dev/job-name=doomed -o name) && [ -z "$out" ]
}
await 180 "empty namespace" none_left
[ ! -e "/proc/$pid" ] || [ "$(cut -d' ' -f3 "/proc/$pid/stat")" = Z ] || fail "process $pid still runs"
echo "ok: nothing left"
