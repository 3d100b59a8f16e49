#!/usr/bin/env bash
# usage: images_test.sh BIN_DIR SOURCE_DIR SITE_DIR
# The images' Dockerfiles name what the binaries need: every shared library that a binary asks the loader for comes from a Debian
# package of the last stage, or is copied there; every COPY names something that exists.
set -euo pipefail
bin=$1 source=$2 site=$3
bad=0
complain() { echo "FAILED: $*"; bad=1; }

last_stage() { awk '/^FROM/ { text = "" } { text = text $0 "\n" } END { printf "%s", text }' "$1"; }
in_every_image='^(libc6|libstdc\+\+6|libgcc-s1)$' # debian:12-slim has them

check() { # binary dockerfile
  local binary=$1 file=$2 checked=0 library package
  [ -e "$binary" ] || { complain "$binary is not built"; return 0; }
  while read -r library; do
    checked=$((checked + 1))
    if compgen -G "$site/torch/lib/$library" >/dev/null || compgen -G "$site/nvidia/*/lib/$library" >/dev/null; then
      grep -q "$library" "$file" || complain "$file does not copy $library, which $(basename "$binary") needs"
      continue
    fi
    package=$(dpkg-query -S "*/$(uname -m)-linux-gnu/$library" | head -n 1 | cut -d: -f1)
    [[ $package =~ $in_every_image ]] && continue
    last_stage "$file" | grep -qw -- "$package" || complain "the last stage of $file lacks $package ($library of $(basename "$binary"))"
  done < <(objdump -p "$binary" | awk '$1 == "NEEDED" { print $2 }')
  [ "$checked" -gt 3 ] || complain "$binary names $checked libraries: objdump could not read it"
}
check "$bin/lockstep-operator" "$source/docker/operator.Dockerfile"
check "$bin/lockstep" "$source/docker/operator.Dockerfile"
check "$bin/lockstep-runtime" "$source/docker/runtime-cpu.Dockerfile"
check "$bin/lockstep-launch" "$source/docker/runtime-cpu.Dockerfile"
# libtorch_cpu.so brings needs of its own.
check "$site/torch/lib/libtorch_cpu.so" "$source/docker/runtime-cpu.Dockerfile"

for file in "$source"/docker/*.Dockerfile; do
  while read -r path; do
    [ -e "$source/$path" ] || complain "$(basename "$file") copies $path, which does not exist"
  done < <(awk '$1 == "COPY" && $2 !~ /^--from/ { print $2 }' "$file")
done
[ $bad = 0 ] && echo "ok"
exit $bad
