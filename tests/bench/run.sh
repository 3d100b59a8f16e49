#!/usr/bin/env bash
# Prints figures of this machine: start-up, memory, kernels. Nothing passes or fails here.
# usage: run.sh [BIN_DIR] [BUILD_DIR]
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=${1:-build/bin} build=${2:-build/release} work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
milliseconds() { echo $(($(date +%s%N) / 1000000)); }

echo "processor: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores"
for round in 1 2 3; do
  begin=$(milliseconds)
  "$bin/lockstep" run examples/quickstart.yaml --output "$work/run-$round" --set train.steps=2 --set train.logging.everySteps=1 \
    >"$work/log" 2>&1 &
  run=$!
  until [ -s "$work/run-$round/metrics.jsonl" ]; do
    kill -0 $run 2>/dev/null || { cat "$work/log"; exit 1; }
    sleep 0.005
  done
  echo "first optimizer step of the quickstart: $(($(milliseconds) - begin)) ms after lockstep run"
  wait $run
done

# The operator at rest on a real API server that holds 20 suspended jobs.
export CLUSTER_STATE=$work/cluster API_PORT=17443 ETCD_PORT=13379
. tests/cluster/lib.sh
trap 'tests/cluster/down.sh; rm -rf "$work"' EXIT
tests/cluster/up.sh
"$BIN/kubectl" apply -f crds/ >/dev/null
"$BIN/kubectl" wait --for=condition=Established crd/trainingjobs.lockstep.dev >/dev/null
for i in $(seq 1 20); do sed -e "/^---/,\$d" -e "s/^  name: quickstart/  name: idle-$i/" -e 's/^  ranks: 2/  ranks: 2\n  suspend: true/' examples/quickstart.yaml; echo ---; done |
  "$BIN/kubectl" create -f - >/dev/null
"$bin/lockstep-operator" --kubeconfig "$KUBECONFIG" --listen 127.0.0.1 --port 0 2>"$work/operator.log" &
operator=$!
"$BIN/kubectl" wait --for=condition=Suspended tjob --all --timeout=60s >/dev/null
sleep 2
echo "operator at rest with 20 jobs: $(awk '/VmRSS/ {printf "%.1f", $2 / 1024}' /proc/$operator/status) MB resident"
kill $operator
wait $operator || :

[ -x "$build/bin/kernels_bench" ] && "$build/bin/kernels_bench"
tests/bench/precision.sh "$bin"
