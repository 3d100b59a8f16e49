#!/usr/bin/env bash
# usage: contrib_test.sh BIN_DIR SOURCE_DIR PYTHON
# What contrib/ gives to Argo CD, k9s and krew, what the chart shows on Artifact Hub, and every example: all of them are taken by what reads them.
set -euo pipefail
bin=$1 source=$2 python=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/archive"
cp "$bin/lockstep" "$source/LICENSE" "$work/archive/"
tar -C "$work/archive" -czf "$work/lockstep-linux-amd64.tar.gz" lockstep LICENSE
"$source/contrib/krew/manifest.sh" v0.1.0 https://releases.invalid/v0.1.0 "$work/lockstep-linux-amd64.tar.gz" >"$work/lockstep.yaml"
tar -C "$work/archive" -czf "$work/lockstep-linux-arm64.tar.gz" lockstep
if "$source/contrib/krew/manifest.sh" v0.1.0 https://releases.invalid "$work/lockstep-linux-arm64.tar.gz" >/dev/null 2>&1; then
  echo "FAILED: an archive without a licence was taken"
  exit 1
fi
"$python" "$source/tests/contrib/contrib.py" "$source" lua5.1 "$work/lockstep.yaml" "$work/lockstep-linux-amd64.tar.gz" "$work/artifacthub.yaml"
for manifest in "$work/artifacthub.yaml" "$source"/examples/*.yaml; do
  (cd "$source" && "$bin/lockstep" validate "$manifest") >"$work/said" 2>&1 || { echo "FAILED: $manifest: $(cat "$work/said")"; exit 1; }
done
