#!/usr/bin/env bash
# usage: guide.sh BIN_DIR GUIDE
# Runs every `sh` block of a guide, in order, in an empty folder: what the page shows is what happens.
set -euo pipefail
bin=$1 guide=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
blocks=$(grep -c '^```sh$' "$guide") || { echo "FAILED: $guide has no sh block"; exit 1; }
awk '/^```sh$/ { on = 1; next } /^```$/ { on = 0 } on' "$guide" > "$folder/blocks.sh"
cd "$folder"
PATH=$bin:$PATH bash -euxo pipefail blocks.sh
echo "ok: $blocks blocks"
