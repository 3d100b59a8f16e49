#!/usr/bin/env bash
# usage: guide.sh BIN_DIR GUIDE
# Runs every `sh` block of a guide, in order, in an empty folder: what the page shows is what happens. A line `! command` must fail:
# bash -e itself overlooks that it does not, so such a line becomes `not command`.
set -euo pipefail
bin=$1 guide=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
blocks=$(grep -c '^```sh$' "$guide") || { echo "FAILED: $guide has no sh block"; exit 1; }
cat > "$folder/blocks.sh" <<'SH'
exec {trace}>&2; BASH_XTRACEFD=$trace  # the trace is not what `not command 2> said` says
not() { if "$@"; then echo "FAILED: did not fail: $*" >&2; return 1; fi; }
SH
awk '/^```sh$/ { on = 1; next } /^```$/ { on = 0 } on { sub(/^! /, "not "); print }' "$guide" >> "$folder/blocks.sh"
cd "$folder"
PATH=$bin:$PATH bash -euxo pipefail blocks.sh
echo "ok: $blocks blocks"
