#!/usr/bin/env bash
# Stops what up.sh started (recorded processes only) and removes its state.
set -uo pipefail
cd "$(dirname "$0")"
. ./lib.sh
for name in scheduler controllers apiserver etcd; do stop "$name"; done
rm -rf "${CLUSTER_STATE:?}"
