#!/usr/bin/env bash
# usage: observability_test.sh SOURCE_DIR PYTHON
# Alert rules, runbooks and dashboards without a cluster: promtool checks and tests the rules and parses each panel's query.
# LOCKSTEP_UPDATE_FILES=1 writes the dashboards anew from dashboards.py.
set -euo pipefail
source=$1 python=$2
chart=$source/helm/lockstep here=$source/tests/helm
. "$source/tests/cluster/lib.sh"
promtool=$LOCKSTEP_CACHE/debian/prometheus/usr/bin/promtool
[ -x "$promtool" ] || { echo "FAILED: no $promtool: run tools/setup.sh test"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$promtool" check rules --lint=all --lint-fatal "$chart/files/rules.yaml"
"$promtool" test rules "$here/rules_test.yaml"
mkdir "$work/dashboards"
"$python" "$here/dashboards.py" "$work/dashboards"
[ -z "${LOCKSTEP_UPDATE_FILES:-}" ] || cp "$work"/dashboards/*.json "$chart/dashboards/"
diff -r "$work/dashboards" "$chart/dashboards" || { echo "FAILED: dashboards differ from dashboards.py; LOCKSTEP_UPDATE_FILES=1 writes them"; exit 1; }
"$python" "$here/observability.py" "$source" "$work/queries.yaml"
"$promtool" check rules --lint=none "$work/queries.yaml"
