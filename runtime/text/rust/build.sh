#!/usr/bin/env bash
# usage: build.sh CARGO CACHE OUT     puts liblockstep_text_rust.a into OUT/release
# Crates are compiled in CACHE, which all trees share. There cargo takes a package of the same name for the same wherever it
# lies, if only its files are old enough: so the sources' hash is part of how ours is compiled.
set -euo pipefail
cargo=$1 cache=$2 out=$3
cd "$(dirname "$0")"
sources=$(cat Cargo.toml Cargo.lock src/*.rs | sha256sum | cut -c1-16)
CARGO_BUILD_BUILD_DIR=$cache "$cargo" rustc --quiet --release --locked --lib --target-dir "$out" -- -C metadata="$sources"
touch "$out/release/liblockstep_text_rust.a" # newer than what it was made of, or it would be made at each build
