#!/usr/bin/env bash
# usage: build.sh CARGO CACHE OUT     puts liblockstep_text_rust.a into OUT/release
# Crates are compiled in CACHE, which all trees share. There cargo takes a package of the same name for the same wherever it
# lies, if only its files are old enough: so the sources' hash is part of how ours is compiled.
set -euo pipefail
cargo=$1 cache=$2 out=$3
cd "$(dirname "$0")"
sources=$(cat Cargo.toml Cargo.lock src/*.rs | sha256sum | cut -c1-16)
# Every preset and every clone of a tree wants the same library: it is compiled once, and the cache keeps what was wanted in the last days.
made=$cache/made/$sources-$("$cargo" --version | sha256sum | cut -c1-8).a
if [ ! -f "$made" ]; then
  CARGO_BUILD_BUILD_DIR=$cache "$cargo" rustc --quiet --release --locked --lib --target-dir "$out" -- -C metadata="$sources"
  mkdir -p "$cache/made"
  find "$cache/made" -name '*.a' -mtime +3 -delete
  cp "$out/release/liblockstep_text_rust.a" "$made.$$" && mv "$made.$$" "$made"
fi
touch "$made"
mkdir -p "$out/release"
cp "$made" "$out/release/liblockstep_text_rust.a" # newer than what it was made of, or it would be made at each build
