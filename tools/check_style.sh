#!/usr/bin/env bash
# clang-format over every source; clang-tidy over what differs from the base (CI's parent commit or `main`'s).
# usage: check_style.sh [--tidy [BASE]]
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t sources < <(git ls-files '*.cc' '*.h')
clang-format-14 --dry-run --Werror "${sources[@]}"
echo "clang-format: ${#sources[@]} files"
