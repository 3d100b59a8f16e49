#!/usr/bin/env bash
# Prints tokens/s of fp32 and bf16, alternately, on the quickstart's model and on one of hidden size 512. Nothing passes or fails here.
# usage: precision.sh [BIN_DIR]
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=${1:-build/bin} work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# measure NAME PRECISION [SETTING...]: the median over the logged steps but the first.
measure() {
  local name=$1 precision=$2
  shift 2
  "$bin/lockstep" run examples/quickstart.yaml --output "$work/run" --overwrite --set train.steps=12 --set train.logging.everySteps=1 \
    --set train.export.atEnd=false --set train.checkpoint.everySteps=0 --set train.precision="$precision" "$@" >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
  sed -n '2,$s/.*"tokens_per_second": \([0-9.]*\).*/\1/p' "$work/run/metrics.jsonl" | sort -n |
    awk -v name="$name" -v precision="$precision" '{ v[NR] = $1 } END { printf "%-12s %s %8.0f tokens/s\n", name, precision, v[int((NR + 1) / 2)] }'
}

wide=(--set train.model.config.hidden_size=512 --set train.model.config.intermediate_size=1408 --set train.model.config.num_attention_heads=8
  --set train.model.config.num_key_value_heads=4 --set train.batch.microBatchSize=4)
echo "load before: $(cut -d ' ' -f 1 /proc/loadavg)"
for round in 1 2 3; do
  for precision in fp32 bf16; do
    measure quickstart $precision
    measure "hidden 512" $precision "${wide[@]}"
  done
done
