#!/usr/bin/env bash
# Prints what offload to NVMe costs in time and saves in memory, beside checkpointing of activations: the same job of 15 M parameters
# in fp32, two ranks, zero3, alternately. Nothing passes or fails here but that the weights are the same.
# usage: offload.sh [BIN_DIR] [NVME_FOLDER]
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=${1:-build/bin} work=$(mktemp -d)
nvme=${2:-$work}
trap 'rm -rf "$work"' EXIT

# measure NAME SETTING...: keeps step times of the logged steps but the first, and the peak of rank 0.
measure() {
  local name=$1
  shift
  rm -rf "$work/run"
  "$bin/lockstep" run examples/quickstart.yaml --output "$work/run" --set train.data.train="$work/corpus" --set train.steps=4 \
    --set train.logging.everySteps=1 --set train.batch.globalBatchSize=8 --set train.batch.microBatchSize=4 \
    --set train.checkpoint.everySteps=0 --set train.parallelism.strategy=zero3 \
    --set train.model.config.hidden_size=512 --set train.model.config.intermediate_size=1408 \
    --set train.model.config.num_hidden_layers=5 --set train.model.config.num_attention_heads=8 \
    --set train.model.config.num_key_value_heads=4 --set train.offload.nvmePath="$nvme" "$@" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  sed -n '2,$s/.*"step_seconds": \([0-9.e-]*\).*"optimizer_seconds": \([0-9.e-]*\).*/\1 \2/p' "$work/run/metrics.jsonl" >>"$work/$name.times"
  sed -n 's/.*when=end .*resident_peak_bytes=\([0-9]*\).*/\1/p' "$work"/run/logs/attempt-0/rank-0.log >"$work/$name.peak"
  sed -n 's/.* offload .*\(io=[^ ]*\).*/\1/p' "$work"/run/logs/attempt-0/rank-0.log | sort -u >"$work/$name.io"
  [ -e "$work/weights" ] || cp "$work/run/model/model.safetensors" "$work/weights"
  cmp "$work/run/model/model.safetensors" "$work/weights"
}

cp -r runtime "$work/corpus"  # the tree may change meanwhile
echo "load before: $(cut -d ' ' -f 1 /proc/loadavg)"
for _ in 1 2; do
  measure none
  measure optimizer --set train.offload.optimizer=nvme
  measure activations --set train.offload.activations=nvme
  measure checkpointing --set train.activationCheckpointing=block
done
for name in none optimizer activations checkpointing; do
  sort -n "$work/$name.times" | awk -v name=$name -v peak="$(cat "$work/$name.peak")" -v io="$(cat "$work/$name.io")" '
    { step[NR] = $1; update += $2 }
    END { printf "%-14s step %.2f s (best %.2f), of it update %.3f s, peak of a rank %.0f MiB %s\n", name, step[int((NR + 1) / 2)], step[1], update / NR, peak / 1048576, io }'
done
