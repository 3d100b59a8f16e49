#!/usr/bin/env bash
# Gives a parser every input of its corpus, then inputs made of them.
# usage: fuzz.sh PARSER_FUZZ NAME FLAG...     e.g. fuzz.sh build/asan/bin/parser_fuzz status -runs=2000
# Finds go to build/fuzz/NAME below the working tree: new inputs that take new ways, and crash-* that break what must hold.
set -euo pipefail
program=$1 name=$2; shift 2
here=$(cd "$(dirname "$0")" && pwd)
finds=$here/../../build/fuzz/$name
corpus=$here/corpus/$name
[ -n "$(ls -A "$corpus")" ] || { echo "fuzz.sh: no corpus in $corpus" >&2; exit 1; }
mkdir -p "$finds"
# libFuzzer writes new inputs into its first folder. A run of a given length knows the committed corpus alone, so that it is the same
# every time; a longer one goes on from what it found before.
case " $* " in
  *" -runs="*) new=$(mktemp -d); trap 'rm -rf "$new"' EXIT; flags=(-seed=8 -max_len=2048) ;;
  *) new=$finds; flags=(-max_len=4096) ;;
esac
"$program" --parser="$name" -artifact_prefix="$finds/" "${flags[@]}" "$@" "$new" "$corpus"
