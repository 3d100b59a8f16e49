#!/usr/bin/env bash
# usage: check_style.sh format    clang-format over every source
#        check_style.sh tidy      clang-tidy over every source that changed, itself or by a header, since it was last found clean;
#                                 needs build/release (whose build knows what each source includes)
# What was found clean is remembered by content in LOCKSTEP_CACHE (default ~/.cache/lockstep), outside of the tree.
set -euo pipefail
cd "$(dirname "$0")/.."

# Prints "SOURCE KEY" for the sources of operator/ and runtime/. KEY hashes the rules, the tool, and every file of ours that the
# compiler read for SOURCE. The kernels' variants are left out: clang-tidy is not told about their instruction sets.
tidy_keys() {
  local rules
  rules=$({ cat .clang-tidy tools/check_style.sh tools/pins.sh; clang-tidy-14 --version; } | sha256sum | cut -c1-16)
  git ls-files '*.cc' '*.h' | xargs sha256sum >build/tidy/contents
  ninja -C build/release -t deps | awk -v root="$PWD/" -v rules="$rules" '
    FNR == NR { hash[$2] = $1; next }
    /^[^ ].*: #deps/ { flush(); next }
    /^    / {
      path = substr($0, 5)
      if (index(path, root) == 1) path = substr(path, length(root) + 1)
      while (path ~ /^\.\.\//) path = substr(path, 4)
      if (!(path in hash)) next
      if (source == "" && path ~ /^(operator|runtime)\/.*\.cc$/) source = path
      key = key hash[path]
    }
    END { flush() }
    function flush() {
      if (source != "" && source !~ /^runtime\/kernels\/isa\//) print source, rules key
      source = ""; key = ""
    }' build/tidy/contents - | while read -r source key; do
      echo "$source $(printf '%s' "$key" | sha256sum | cut -c1-32)"
    done | sort -u
}

tidy() {
  local clean=${LOCKSTEP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lockstep}/tidy
  mkdir -p "$clean" build/tidy
  # A folder of its own: clang cannot read the precompiled header of g++.
  cmake --preset release -B build/tidy -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DLOCKSTEP_PYTHON_SITE="$(tools/setup.sh print-site)" >/dev/null
  tidy_keys >build/tidy/keys
  [ -s build/tidy/keys ] || { echo "clang-tidy: build/release has built nothing" >&2; return 1; }
  while read -r source key; do
    [ -e "$clean/$key" ] || echo "$source $key"
  done <build/tidy/keys >build/tidy/changed
  echo "clang-tidy: $(wc -l <build/tidy/changed) of $(wc -l <build/tidy/keys) sources changed"
  xargs -r -n 2 -P 2 bash -c 'clang-tidy-14 -p build/tidy --quiet --extra-arg=-Wthread-safety "$1" && touch "$0/$2"' "$clean" \
    <build/tidy/changed
}

case ${1:-} in
  format)
    mapfile -t sources < <(git ls-files '*.cc' '*.h')
    [ ${#sources[@]} -gt 0 ] || { echo "no sources: not a git checkout?" >&2; exit 1; }
    clang-format-14 --dry-run --Werror "${sources[@]}"
    echo "clang-format: ${#sources[@]} files"
    ;;
  tidy) tidy ;;
  *)
    echo "usage: check_style.sh format | tidy" >&2
    exit 2
    ;;
esac
