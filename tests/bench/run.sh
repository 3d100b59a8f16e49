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

# Against an address where nobody answers: the operator at rest, without an API server's objects.
cat >"$work/kubeconfig" <<'K'
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: u, user: {token: none}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
K
"$bin/lockstep-operator" --kubeconfig "${KUBECONFIG:-$work/kubeconfig}" --listen 127.0.0.1 --port 0 2>"$work/operator.log" &
operator=$!
sleep 3
echo "operator at rest${KUBECONFIG:+ on a real API server}: $(awk '/VmRSS/ {printf "%.1f", $2 / 1024}' /proc/$operator/status) MB resident"
kill $operator
wait $operator || :

[ -x "$build/bin/kernels_bench" ] && "$build/bin/kernels_bench"
