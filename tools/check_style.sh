#!/usr/bin/env bash
# usage: check_style.sh format    clang-format over every source
#        check_style.sh tidy      clang-tidy over every batch of sources of which one changed, itself or by a header, since it was last
#                                 found clean; needs build/release (whose build knows what each source includes)
# What was found clean is remembered by content in LOCKSTEP_CACHE (default ~/.cache/lockstep), outside of the tree.
set -euo pipefail
cd "$(dirname "$0")/.."

# Prints "SOURCE KEY" for the sources of operator/ and runtime/. KEY hashes every file of ours that the compiler read with SOURCE.
source_keys() {
  git ls-files '*.cc' '*.h' | xargs sha256sum >build/tidy/contents
  ninja -C build/release -t deps | awk -v root="$PWD/" '
    FNR == NR { hash[$2] = $1; next }
    /^[^ ].*: #deps/ { flush(); next }
    /^    / {
      path = substr($0, 5)
      if (index(path, root) == 1) path = substr(path, length(root) + 1)
      while (path ~ /^\.\.\//) path = substr(path, 4)
      if (!(path in hash)) next
      if (path ~ /^(operator|runtime)\/.*\.cc$/) sources[path]  # several, where the build takes them together
      key = key hash[path]
    }
    END { flush() }
    function flush() {
      for (source in sources) print source, key
      delete sources; key = ""
    }' build/tidy/contents - | while read -r source key; do
      echo "$source $(printf '%s' "$key" | sha256sum | cut -c1-32)"
    done | sort -u
}

sources_of() { # unit: what it includes, or itself
  case $1 in
    *_batch_*) sed -nE 's|^#include "(.*)"$|\1|p' "$1" ;;
    *) echo "${1#"$PWD"/}" ;;
  esac | sort
}

# Prints "UNIT KEY" for what clang-tidy reads at once: a file that includes several sources, or one source. KEY hashes the rules, the
# tool and the sources' keys. The kernels' variants are left out: clang-tidy is not told about their instruction sets.
unit_keys() { # clang-tidy
  local rules unit unbuilt
  rules=$({ cat .clang-tidy tools/check_style.sh; "$1" --version; } | sha256sum)
  source_keys >build/tidy/sources
  sed -nE 's/^ *"file": "(.*)",?$/\1/p' build/tidy/compile_commands.json |
    grep -E "^$PWD/(build/tidy/)?(operator|runtime)/" | grep -vE '/kernels/isa' | sort -u | while read -r unit; do
      unbuilt=$(sources_of "$unit" | join -v 1 - build/tidy/sources)
      [ -z "$unbuilt" ] || { echo "clang-tidy: build/release has not built $unbuilt" >&2; return 1; }
      echo "$unit $({ echo "$rules"; sources_of "$unit" | join - build/tidy/sources; } | sha256sum | cut -c1-32)"
    done
}

tidy() {
  local clean=${LOCKSTEP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lockstep}/tidy clang_tidy
  clang_tidy=$(dirname "$(tools/setup.sh print-python)")/clang-tidy
  mkdir -p "$clean" build/tidy
  # A folder of its own: clang cannot read the precompiled header of g++. Sources in batches share the reading of headers.
  cmake --preset release -B build/tidy -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON \
    -DLOCKSTEP_PYTHON_SITE="$(tools/setup.sh print-site)" >/dev/null
  unit_keys "$clang_tidy" >build/tidy/keys
  while read -r unit key; do
    [ -e "$clean/$key" ] || echo "$unit $key"
  done <build/tidy/keys >build/tidy/changed
  echo "clang-tidy: $(wc -l <build/tidy/changed) of $(wc -l <build/tidy/keys) batches changed, $(wc -l <build/tidy/sources) sources in all"
  # libstdc++ 12 uses what it deprecates; a batch joins names that do not meet in the build; some warnings are g++'s alone.
  xargs -r -n 2 -P 2 bash -c '"$0" -p build/tidy --quiet --extra-arg=-Wthread-safety --extra-arg=-Wno-deprecated-declarations \
    --extra-arg=-Wno-shadow --extra-arg=-Wno-unknown-warning-option "$2" &&
    touch "$1/$3"' "$clang_tidy" "$clean" <build/tidy/changed
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
