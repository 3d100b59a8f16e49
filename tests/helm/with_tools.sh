#!/usr/bin/env bash
# usage: with_tools.sh COMMAND...    Runs a command with the test bed's helm and kubectl on the path.
set -euo pipefail
. "$(dirname "$0")/../cluster/lib.sh"
unset KUBECONFIG
PATH=$BIN:$PATH exec "$@"
