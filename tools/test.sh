#!/usr/bin/env bash
# Proves the tree: set-up, release build with CUDA and every test (no test needs a GPU), the torch-free part under ASan+UBSan and TSan, style.
# usage: test.sh [--full]     --full adds the long tests and the dev and no-torch presets.
# Prints each stage's time and ends with "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/.."
full=0; [ "${1:-}" = --full ] && full=1
began=$SECONDS
logs=build/logs; mkdir -p "$logs"
: >"$logs/counts"  # "PASSED FAILED" of each stage; stages that run side by side add theirs

# Runs one stage; on failure shows the end of its log and counts one failure.
stage() { # name command...
  local name=$1 start=$SECONDS; shift
  if "$@" >"$logs/$name.log" 2>&1; then
    printf '== %-16s ok      %4d s\n' "$name" $((SECONDS - start))
    return 0
  fi
  printf '== %-16s FAILED  %4d s, log %s\n' "$name" $((SECONDS - start)) "$logs/$name.log"
  tail -n 60 "$logs/$name.log"
  echo 0 1 >>"$logs/counts"
  return 1
}

# Runs ctest and adds its tests to the count. No test found is a failure.
ctest_stage() { # name build-folder ctest-argument...
  local name=$1 folder=$2 start=$SECONDS total bad; shift 2
  ctest --test-dir "$folder" --output-on-failure --no-tests=error "$@" >"$logs/$name.log" 2>&1
  local rc=$?
  total=$(sed -nE 's/.*tests failed out of ([0-9]+).*/\1/p' "$logs/$name.log" | tail -n 1)
  bad=$(sed -nE 's/.* ([0-9]+) tests failed out of.*/\1/p' "$logs/$name.log" | tail -n 1)
  : "${total:=0}" "${bad:=0}"
  if [ "$rc" != 0 ] && [ "$bad" = 0 ]; then bad=1; total=$((total + 1)); fi
  echo $((total - bad)) "$bad" >>"$logs/counts"
  printf '== %-16s %d of %d passed  %4d s\n' "$name" $((total - bad)) "$total" $((SECONDS - start))
  [ "$bad" = 0 ] || { grep -E '\(Failed\)|\(Timeout\)|\*\*\*' "$logs/$name.log" | sort -u | head -n 40; tail -n 120 "$logs/$name.log"; }
}

build() { # preset cmake-argument...
  local preset=$1; shift
  cmake --preset "$preset" "$@" && cmake --build "build/$preset"
}

sanitizers() {
  local sanitizer
  for sanitizer in asan tsan; do
    stage "build-$sanitizer" build $sanitizer && ctest_stage "test-$sanitizer" build/$sanitizer -L unit -j 2
  done
}

finish() {
  local passed failed
  read -r passed failed < <(awk '{ passed += $1; failed += $2 } END { print passed + 0, failed + 0 }' "$logs/counts")
  printf '== %-16s %12s %4d s\n' total '' $((SECONDS - began))
  echo "$passed passed, $failed failed"
  [ "$failed" = 0 ]
  exit
}

setup=test; [ $full = 1 ] && setup=test-full
stage setup tools/setup.sh $setup || finish
stage format tools/check_style.sh format
if stage build-release build release -DLOCKSTEP_PYTHON_SITE="$(tools/setup.sh print-site)" -DWITH_CUDA=ON \
  -DLOCKSTEP_CUDA_TOOLKIT="$(tools/setup.sh print-cuda)"; then
  stage tidy tools/check_style.sh tidy
  ctest_stage test-unit build/release -L 'unit|cuda' -j 2
  ctest_stage test-runtime build/release -L 'torch|ranks' -j 2
  # Jobs on a cluster wait most of the time: the sanitizers have the processors meanwhile, and yield them when a job trains.
  (renice -n 10 -p $BASHPID >/dev/null; sanitizers) &
  ctest_stage test-end-to-end build/release -L e2e -j 3
  wait
else
  sanitizers
fi
if [ $full = 1 ]; then
  ctest_stage test-full build/release -L full
  stage build-dev build dev -DLOCKSTEP_PYTHON_SITE="$(tools/setup.sh print-site)"
  stage build-no-torch build no-torch
fi
finish
