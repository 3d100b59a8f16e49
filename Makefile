# `make demo` trains the quickstart; `make test` proves the tree. Each does its own set-up.
SHELL := /bin/bash
.PHONY: setup build build-folder demo test test-full test-cluster soak soak-operator fuzz bench bench-memory bench-operator format clean

setup:
	@tools/setup.sh build

build: setup | build-folder
	@cmake --preset release -DLOCKSTEP_PYTHON_SITE="$$(tools/setup.sh print-site)" >build/.configure.log 2>&1 || { cat build/.configure.log; exit 1; }
	@cmake --build build/release --target lockstep lockstep-operator lockstep-runtime

demo: build
	@build/bin/lockstep run examples/quickstart.yaml --output build/demo --overwrite

test:
	@tools/test.sh

test-full:
	@tools/test.sh --full

# All that needs a cluster: the control plane's scenarios, and one real node with containers.
test-cluster: build
	@tools/setup.sh test-full
	@cmake --build build/release
	@ctest --test-dir build/release -R '^(cluster\.|node$$|images|chart$$|observability$$)' --output-on-failure --no-tests=error

# A rank of a long run is killed or stopped every 20 seconds, 90 times.
soak: build
	@cmake --build build/release --target soak_test
	@LOCKSTEP_SOAK_KILLS=90 LOCKSTEP_SOAK_PERIOD_SECONDS=20 LOCKSTEP_SOAK_STEPS=100000 build/release/bin/soak_test

# Jobs, users, nodes, networks and operators that misbehave at random for half an hour, on a control plane of its own.
soak-operator: build
	@tools/setup.sh test
	@cmake --build build/release --target operator_soak_test
	@tests/cluster/soak/soak.sh

# Every parser of what comes from outside, FUZZ_SECONDS each. New inputs and crashes are kept in build/fuzz.
fuzz:
	@tools/setup.sh test
	@mkdir -p build && cmake --preset asan >build/.configure-asan.log 2>&1 || { cat build/.configure-asan.log; exit 1; }
	@cmake --build build/asan --target parser_fuzz
	@for parser in events status kubeconfig quantity; do tests/fuzz/fuzz.sh build/asan/bin/parser_fuzz $$parser -max_total_time=$${FUZZ_SECONDS:-300} || exit 1; done

bench: build
	@tests/bench/run.sh

bench-memory: build
	@tools/setup.sh bench
	@tests/bench/memory.sh

# The operator at scale, beside raw creation and indexed Jobs, on a control plane of its own: about five minutes.
bench-operator: build
	@tools/setup.sh test
	@cmake --build build/release --target operators-bench
	@tests/bench/operators.sh

format:
	@git ls-files '*.cc' '*.h' | xargs clang-format-14 -i

clean:
	@rm -rf build

build-folder:
	@mkdir -p build
