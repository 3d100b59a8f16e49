#!/usr/bin/env bash
# usage: with_tools.sh COMMAND...    Runs a command with the test bed's helm, kubectl and promtool on the path.
set -euo pipefail
. "$(dirname "$0")/../cluster/lib.sh"
unset KUBECONFIG
PATH=$BIN:$LOCKSTEP_CACHE/debian/prometheus/usr/bin:$PATH exec "$@"
