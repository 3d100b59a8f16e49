#!/usr/bin/env bash
# Installs what a build or the tests need, into the system (Debian packages) and into the cache (everything else).
# usage: setup.sh build | cuda | test | test-full | bench | print-site | print-cuda | print-fuzzer | print-python | print-peers
# Idempotent: a second run costs a second. Settings: LOCKSTEP_CACHE (default ~/.cache/lockstep).
set -euo pipefail
cd "$(dirname "$0")"
. ./pins.sh
: "${LOCKSTEP_CACHE:=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep}"
venv=$LOCKSTEP_CACHE/python
peers=$LOCKSTEP_CACHE/peers

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

# Puts the files of packages below LOCKSTEP_CACHE/debian/PACKAGE without installing them.
unpacked_packages() {
  local package folder
  for package in "$@"; do
    folder=$LOCKSTEP_CACHE/debian/$package
    [ -d "$folder" ] && continue
    echo "setup: unpacking $package into $folder"
    rm -rf "$folder.new" && mkdir -p "$folder.new/root"
    (cd "$folder.new" && { apt-get download -qq "$package" || { apt-get update -qq && apt-get download -qq "$package"; } }) >/dev/null 2>&1 ||
      die "cannot download the Debian package $package"
    dpkg-deb -x "$folder.new"/*.deb "$folder.new/root"
    mv "$folder.new/root" "$folder"
    rm -rf "$folder.new"
  done
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

# A folder of its own in $peers, which only a program sees that has it in PYTHONPATH: Transformers and the peers import
# one another where they are installed.
peer_packages() { # name package...
  local name=$1; shift
  local stamp
  stamp=$peers/.$name-$(printf '%s\n' "$@" | sha256sum | cut -c1-16)
  [ -e "$stamp" ] && return 0
  echo "setup: installing $# Python packages into $peers/$name"
  rm -rf "${peers:?}/$name" "$peers/.$name-"*
  # DeepSpeed comes as a source, which its own setup.py makes a wheel of.
  PYTHONPATH=$peers/wheel "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
    --target "$peers/$name" "$@"
  touch "$stamp"
}

# The CUDA compiler's wheels as a toolkit's root: they lay libraries into lib, and have them under the names of their versions only.
# A folder per content of the pin list, so that two checkouts may differ.
cuda_folder=$LOCKSTEP_CACHE/cuda/$(printf '%s\n' "${PYTHON_CUDA[@]}" "${PYTHON_CUDA_LIBRARIES[@]}" | sha256sum | cut -c1-16)
cuda_toolkit() {
  local began=$SECONDS root=$cuda_folder.new/nvidia/cu13 libraries file name
  [ -d "$cuda_folder" ] && return 0
  python_packages cuda "${PYTHON_CUDA_LIBRARIES[@]}"
  echo "setup: installing the CUDA compiler into $cuda_folder"
  rm -rf "$cuda_folder.new"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --target "$cuda_folder.new" "${PYTHON_CUDA[@]}"
  libraries=("$venv"/lib/python3*/site-packages/nvidia/cu13)
  ln -s lib "$root/lib64"
  for file in "${libraries[0]}"/include/*; do
    [ -e "$root/include/${file##*/}" ] || ln -s "$file" "$root/include/"
  done
  for name in cublas cublasLt cudart; do
    file=$(echo "${libraries[0]}/lib/lib$name".so.*)
    ln -s "$file" "$root/lib/"
    ln -s "${file##*/}" "$root/lib/lib$name.so"
  done
  ln -s "${libraries[0]}"/lib/libcudart_static.a "${libraries[0]}"/lib/libcudadevrt.a "$root/lib/"  # CMake tries them
  mv "$cuda_folder.new" "$cuda_folder"
  echo "setup: the CUDA compiler took $((SECONDS - began)) s and $(du -sm "$cuda_folder" | cut -f1) MB"
}

# Rust builds the tokenizers. rustup is its only installer, and puts it into the user's home: that is left to the user.
rust_toolchain() {
  local found=0
  export PATH=$PATH:$HOME/.cargo/bin
  command -v cargo >/dev/null && found=$(cargo --version | cut -d' ' -f2)
  [ "$(printf '%s\n' "$RUST_MINIMUM" "$found" | sort -V | head -n 1)" = "$RUST_MINIMUM" ] ||
    die "cargo $RUST_MINIMUM or newer is missing (found: $found): install Rust with rustup, see https://rustup.rs"
  local lock=../runtime/text/rust/Cargo.lock stamp
  stamp=$LOCKSTEP_CACHE/rust/.fetched-$(sha256sum $lock | cut -c1-16)
  [ -e "$stamp" ] && return 0
  echo "setup: fetching the crates of runtime/text"
  cargo fetch --quiet --locked --manifest-path ../runtime/text/rust/Cargo.toml
  mkdir -p "$LOCKSTEP_CACHE/rust" && touch "$stamp"
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
    rust_toolchain
    ;;
  cuda)
    ./setup.sh build
    cuda_toolkit
    ;;
  test)
    [ "$(id -u)" = 0 ] || die "the cluster tests mount file systems: run make test as root"
    ./setup.sh build
    debian_packages "${DEBIAN_TEST[@]}"
    unpacked_packages "${DEBIAN_UNPACKED[@]}"
    python_packages test "${PYTHON_TEST[@]}"
    peer_packages peft "${PYTHON_PEFT[@]}"
    peer_packages trl "${PYTHON_TRL[@]}"
    peer_packages mlflow "${PYTHON_MLFLOW[@]}"
    cuda_toolkit
    python_packages style "${PYTHON_STYLE[@]}"
    go_toolchain
    ../tests/cluster/build.sh
    ;;
  test-full)
    ./setup.sh test
    debian_packages "${DEBIAN_TEST_FULL[@]}"
    go_toolchain
    ../tests/cluster/build.sh node
    ;;
  bench)
    ./setup.sh build
    python_packages test "${PYTHON_TEST[@]}"
    peer_packages wheel "${PYTHON_WHEEL[@]}"
    peer_packages accelerate "${PYTHON_ACCELERATE[@]}"
    peer_packages deepspeed "${PYTHON_DEEPSPEED[@]}"
    ;;
  print-site)
    site=("$venv"/lib/python3*/site-packages)
    [ -d "${site[0]}/torch" ] || die "LibTorch is not installed: run tools/setup.sh build"
    echo "${site[0]}"
    ;;
  print-cuda)
    [ -d "$cuda_folder" ] || die "the CUDA compiler is not installed: run tools/setup.sh cuda"
    echo "$cuda_folder/nvidia/cu13"
    ;;
  print-fuzzer)
    archive=("$LOCKSTEP_CACHE"/debian/libclang-rt-14-dev/usr/lib/llvm-14/lib/clang/*/lib/linux/libclang_rt.fuzzer-"$(uname -m)".a)
    [ -e "${archive[0]}" ] || die "libFuzzer is not in the cache: run tools/setup.sh test"
    echo "${archive[0]}"
    ;;
  print-python) echo "$venv/bin/python" ;;
  print-peers)
    [ -d "$peers/deepspeed" ] || die "the peers are not installed: run tools/setup.sh bench"
    echo "$peers"
    ;;
  *) die "usage: setup.sh build | cuda | test | test-full | bench | print-site | print-cuda | print-fuzzer | print-python | print-peers" ;;
esac
