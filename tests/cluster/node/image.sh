#!/usr/bin/env bash
# Makes an image archive of one layer without any daemon, the same bytes from the same root.
# usage: image.sh NAME ROOT ARCHIVE [DOCKERFILE]    the Dockerfile's last stage says environment, user, folder and command
set -euo pipefail
name=$1 root=$2 archive=$3 dockerfile=${4:-/dev/null}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The last stage's word, with the lines that it goes on in.
said() {
  sed -e ':a' -e '/\\$/N; s/\\\n//; ta' "$dockerfile" |
    awk -v word="$1" '/^FROM/ { text = "" } $1 == word { text = $0; sub(/^[A-Z]+ /, "", text) } END { printf "%s", text }'
}
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$root" -cf "$work/layer.tar" .
digest=$(sha256sum "$work/layer.tar" | cut -d ' ' -f 1)
entry=$(said ENTRYPOINT) command=$(said CMD) folder=$(said WORKDIR) user=$(said USER)
# Words of NAME=value, as JSON.
environment=$(said ENV | xargs -n 1 | sed '/^$/d; s/.*/"&"/' | paste -s -d ,)
cat >"$work/config.json" <<J
{"architecture": "amd64", "os": "linux", "created": "1970-01-01T00:00:00Z",
 "config": {"Entrypoint": ${entry:-null}, "Cmd": ${command:-null}, "Env": [${environment:-\"PATH=/bin\"}], "WorkingDir": "${folder:-/}", "User": "$user"},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$digest"]}, "history": [{"created": "1970-01-01T00:00:00Z"}]}
J
echo "[{\"Config\": \"config.json\", \"RepoTags\": [\"$name\"], \"Layers\": [\"layer.tar\"]}]" >"$work/manifest.json"
tar --sort=name --mtime=@0 -C "$work" -cf "$archive" config.json layer.tar manifest.json
