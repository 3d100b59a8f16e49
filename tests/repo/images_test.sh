#!/usr/bin/env bash
# usage: images_test.sh BIN_DIR SOURCE_DIR WORK_DIR
# The images' Dockerfiles make what runs: every binary starts in the root that the last stage has and nothing else, as the user that it
# names, on a file system that cannot be written; and an image is no larger than we promise. Prints the sizes. Needs root.
set -euo pipefail
bin=$1 source=$2 work=$3/images
bad=0
complain() { echo "FAILED: $*"; bad=1; }
mkdir -p "$work"
trap 'rm -rf "$work"' EXIT

# In the root of an image: another user, no way to write, no environment but what the image gives.
inside() { # root program argument...
  local root=$1
  shift
  unshare --mount sh -c 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec env -i PATH=/usr/sbin:/usr/local/bin chroot --userspec=65532:65532 "$0" "$@"' \
    "$root" "$@"
}

check() { # dockerfile most-megabytes program...
  local file=$source/docker/$1 most=$2 root=$work/${1%.Dockerfile} size program
  shift 2
  "$source/tests/support/image_folder.sh" "$file" "$bin" "$source" "$root" >"$work/objects" || { complain "$file"; return 0; }
  tail -n 1 "$work/objects"
  size=$(du -sb "$root" | cut -f 1)
  [ $((size / 1000000)) -lt "$most" ] || complain "$file: $size bytes, promised: $most MB"
  for program; do
    inside "$root" "$program" --version >"$work/said" 2>&1 || complain "$program does not start in the image: $(cat "$work/said")"
    grep -q '[0-9]\.[0-9]' "$work/said" || complain "$program --version said: $(cat "$work/said")"
  done
  [ -z "$(find "$root" -perm /6000)" ] || complain "$file: a program with the set-user-id bit"
  grep -q '^PackageName: libc6$' "$root/usr/share/doc/lockstep/sbom.spdx" || complain "$file: the bill of materials does not name libc6"
  grep -q '^USER 65532:65532$' "$file" || complain "$file does not name its user by number, which runAsNonRoot asks for"
}
check operator.Dockerfile 30 lockstep-operator lockstep
check runtime-cpu.Dockerfile 480 lockstep-runtime bash

# An object that the loader would not find is an error, not a gap in the image.
cp "$bin/lockstep" "$work/broken"
sed -i 's/libyaml-cpp\.so\.0\.7/libyaml-cpp.so.0.9/' "$work/broken"
"$source/docker/image_root.sh" "$work/gap" "$work/broken" >"$work/said" 2>&1 && complain "an image without libyaml-cpp was made"
grep -q 'libyaml-cpp.so.0.9 => not found' "$work/said" || complain "the missing object is not named: $(cat "$work/said")"

[ $bad = 0 ] && echo "ok"
exit $bad
