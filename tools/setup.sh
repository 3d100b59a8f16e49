#!/usr/bin/env bash
# Installs what a build or the tests need, into the system (Debian packages) and into the cache (everything else).
# usage: setup.sh build | test | print-site | print-python
# Idempotent: a second run costs a second. Settings: LOCKSTEP_CACHE (default ~/.cache/lockstep).
set -euo pipefail
cd "$(dirname "$0")"
. ./pins.sh
: "${LOCKSTEP_CACHE:=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep}"
venv=$LOCKSTEP_CACHE/python

die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

debian_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} = 0 ] && return 0
  local command="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
  [ "$(id -u)" = 0 ] || die "missing packages; run as root: $command"
  echo "setup: installing ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# A stamp per content of the pin list, so that a changed pin installs again and an unchanged one costs nothing.
python_packages() { # name package...
  local name=$1; shift
  local stamp
  stamp=$venv/.$name-$(printf '%s\n' "$@" | sha256sum | cut -c1-16)
  [ -e "$stamp" ] && return 0
  [ -x "$venv/bin/pip" ] || python3 -m venv "$venv"
  echo "setup: installing $# Python packages ($name) into $venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps "$@"
  touch "$stamp"
}

# Go builds the cluster test bed: the system's if it is new enough, else the pinned one in the cache.
go_toolchain() {
  [ -n "${KUBEBUILDER_ASSETS:-}" ] && return 0
  local found=0
  command -v go >/dev/null && found=$(go env GOVERSION)
  [ "$(printf '%s\n' "$GO_MINIMUM" "${found#go}" | sort -V | head -n 1)" = "$GO_MINIMUM" ] && return 0
  python_packages go "${PYTHON_GO[@]}"
  export PATH=$venv/bin:$PATH
}

case ${1:-} in
  build)
    debian_packages "${DEBIAN_BUILD[@]}"
    python_packages build "${PYTHON_BUILD[@]}"
    ;;
  test)
    [ "$(id -u)" = 0 ] || die "the cluster tests mount file systems: run make test as root"
    ./setup.sh build
    debian_packages "${DEBIAN_TEST[@]}"
    python_packages test "${PYTHON_TEST[@]}"
    python_packages style "${PYTHON_STYLE[@]}"
    go_toolchain
    ../tests/cluster/build.sh
    ;;
  print-site)
    site=("$venv"/lib/python3*/site-packages)
    [ -d "${site[0]}/torch" ] || die "LibTorch is not installed: run tools/setup.sh build"
    echo "${site[0]}"
    ;;
  print-python) echo "$venv/bin/python" ;;
  *) die "usage: setup.sh build | test | print-site | print-python" ;;
esac
