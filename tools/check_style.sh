#!/usr/bin/env bash
# usage: check_style.sh format            clang-format over every source
#        check_style.sh tidy [BASE]       clang-tidy over the sources that differ from BASE (default: the parent commit);
#                                         LibTorch in the cache is needed (tools/setup.sh build)
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in
  format)
    mapfile -t sources < <(git ls-files '*.cc' '*.h')
    [ ${#sources[@]} -gt 0 ] || { echo "no sources: not a git checkout?" >&2; exit 1; }
    clang-format-14 --dry-run --Werror "${sources[@]}"
    echo "clang-format: ${#sources[@]} files"
    ;;
  tidy)
    base=${2:-HEAD~1}
    git rev-parse --quiet --verify "$base^{commit}" >/dev/null || base=$(git hash-object -t tree /dev/null)
    mapfile -t sources < <(git diff --name-only --diff-filter=d "$base" -- 'operator/*.cc' 'runtime/*.cc')
    # The kernels' variants are compiled with instruction sets that clang-tidy is not told about.
    sources=($(printf '%s\n' "${sources[@]}" | grep -v '^runtime/kernels/isa/' || :))
    echo "clang-tidy: ${#sources[@]} files differ from $base"
    [ ${#sources[@]} = 0 ] && exit 0
    # A folder of its own: clang cannot read the precompiled header of g++.
    cmake --preset release -B build/tidy -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DLOCKSTEP_PYTHON_SITE="$(tools/setup.sh print-site)" >/dev/null
    printf '%s\0' "${sources[@]}" | xargs -0 -n 4 -P 2 clang-tidy-14 -p build/tidy --quiet --extra-arg=-Wthread-safety
    ;;
  *)
    echo "usage: check_style.sh format | tidy [BASE]" >&2
    exit 2
    ;;
esac
