#!/usr/bin/env bash
# Kills the API server of the test bed with SIGKILL, drops etcd's history, and returns once a new one serves.
set -euo pipefail
cd "$(dirname "$0")"
. ./lib.sh
stop apiserver KILL
etcd_url=http://127.0.0.1:$ETCD_PORT
revision=$(curl -fsS -d '{"key": "AA=="}' "$etcd_url/v3/kv/range" | sed -nE 's/.*"revision":"([0-9]+)".*/\1/p')
curl -fsS -o /dev/null -d "{\"revision\": \"$revision\", \"physical\": true}" "$etcd_url/v3/kv/compaction"
exec ./up.sh
