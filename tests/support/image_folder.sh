#!/usr/bin/env bash
# What `docker build` would put into the image, from binaries that are built already: makes FOLDER as the last stage of DOCKERFILE says.
# usage: image_folder.sh DOCKERFILE BIN_DIR SOURCE_DIR FOLDER
set -euo pipefail
dockerfile=$1 bin=$2 source=$3 folder=$4
rm -rf "$folder"

# The first stage ends in `docker/image_root.sh ROOT BINARY...`; ours lie in BIN_DIR.
read -r _ _ root binaries < <(sed -e ':a' -e '/\\$/N; s/\\\n//; ta' "$dockerfile" | grep '^RUN docker/image_root.sh ')
mapfile -t binaries < <(tr ' ' '\n' <<<"$binaries" | sed -E "/^$/d; s#^(/out|build/bin)/#$bin/#")
"$source/docker/image_root.sh" "$folder" "${binaries[@]}"

# COPY of the last stage: the first stage's root, then folders of the sources.
awk '/^FROM/ { text = "" } $1 == "COPY" { text = text $0 "\n" } END { printf "%s", text }' "$dockerfile" | while read -r _ from to rest; do
  if [ "$from" = --from=build ]; then
    [ "$to $rest" = "$root /" ] || { echo "image_folder.sh: $dockerfile copies $to, and its first stage makes $root" >&2; exit 1; }
    continue
  fi
  mkdir -p "$folder$to"
  git -C "$source" ls-files -z -- "$from" | tar -C "$source" --null -T - -cf - | tar -C "$folder$to" --strip-components "$(tr -cd / <<<"$from/" | wc -c)" -xf -
done
