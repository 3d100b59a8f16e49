#!/usr/bin/env bash
# Kills the API server of the test bed with SIGKILL and returns once a new one serves.
set -euo pipefail
cd "$(dirname "$0")"
. ./lib.sh
stop apiserver KILL
exec ./up.sh
