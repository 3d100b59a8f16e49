#!/usr/bin/env bash
# Trains the small job without a cluster, on one rank: what every scenario that disturbs it must end with, on any number of ranks.
set -euo pipefail
. "$LOCKSTEP_SOURCE/tests/cluster/lib.sh"
. "$LOCKSTEP_SOURCE/tests/cluster/small_job.sh"
rm -rf "$REFERENCE" && mkdir -p "$REFERENCE"
small_job reference 1 "$REFERENCE_STEPS" ddp >"$REFERENCE/job.yaml"
cd "$LOCKSTEP_SOURCE"
"$LOCKSTEP_BIN/lockstep" run "$REFERENCE/job.yaml" --output "$REFERENCE/output"
