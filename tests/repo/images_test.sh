#!/usr/bin/env bash
# usage: images_test.sh BIN_DIR SOURCE_DIR WORK_DIR
# The images' Dockerfiles make what runs: every binary starts in the root that the last stage has and nothing else, as the user that it
# names, on a file system that cannot be written; and an image is no larger than we promise. Prints the sizes. Needs root.
set -euo pipefail
bin=$1 source=$2 work=$3/images
bad=0
complain() { echo "FAILED: $*"; bad=1; }
mkdir -p "$work"
trap 'rm -rf "$work"' EXIT

# In the root of an image: another user, no way to write, no environment but what the image gives.
inside() { # root program argument...
  local root=$1
  shift
  unshare --mount sh -c 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec env -i PATH=/usr/sbin:/usr/local/bin chroot --userspec=65532:65532 "$0" "$@"' \
    "$root" "$@"
}

check() { # dockerfile most-megabytes program...
  local file=$source/docker/$1 most=$2 root=$work/${1%.Dockerfile} size program
  shift 2
  "$source/tests/support/image_folder.sh" "$file" "$bin" "$source" "$root" >"$work/objects" || { complain "$file"; return 0; }
  tail -n 1 "$work/objects"
  size=$(du -sb "$root" | cut -f 1)
  [ $((size / 1000000)) -lt "$most" ] || complain "$file: $size bytes, promised: $most MB"
  for program; do
    inside "$root" "$program" --version >"$work/said" 2>&1 || complain "$program does not start in the image: $(cat "$work/said")"
    grep -q '[0-9]\.[0-9]' "$work/said" || complain "$program --version said: $(cat "$work/said")"
  done
  [ -z "$(find "$root" -perm /6000)" ] || complain "$file: a program with the set-user-id bit"
  grep -q '^PackageName: libc6$' "$root/usr/share/doc/lockstep/sbom.spdx" || complain "$file: the bill of materials does not name libc6"
  grep -q '^USER 65532:65532$' "$file" || complain "$file does not name its user by number, which runAsNonRoot asks for"
}
check operator.Dockerfile 30 lockstep-operator lockstep
check runtime-cpu.Dockerfile 480 lockstep-runtime bash

if [ -e "$bin/liblockstep-cuda.so" ]; then
check runtime.Dockerfile 3000 lockstep-runtime bash
library=/usr/lib/$(uname -m)-linux-gnu/liblockstep-cuda.so
inside "$work/runtime" /lib64/ld-linux-*.so.* --list "$library" >"$work/said" 2>&1 || complain "$library does not load: $(cat "$work/said")"
grep -q 'not found' "$work/said" && complain "$library lacks $(grep 'not found' "$work/said")"
grep -q 'libcublasLt' "$work/said" || complain "$library does not load cuBLAS: $(cat "$work/said")"
mkdir "$work/runtime/job"
echo '{"name": "none", "ranks": 1, "train": {"model": {"config": {"model_type": "llama", "vocab_size": 256, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}}, "data": {"train": "/job/job.json", "sequenceLength": 8}, "batch": {"globalBatchSize": 1}, "steps": 1}}' >"$work/runtime/job/job.json"
image_env=$(sed -nE 's/^ENV (.*)/\1/p; s/^    (NVIDIA_.*)/\1/p' "$source/docker/runtime.Dockerfile" | tr -d '\\' | tr '\n' ' ')
inside "$work/runtime" sh -c "$image_env RANK=0 WORLD_SIZE=1 LOCKSTEP_JOB=/job/job.json LOCKSTEP_OUTPUT=/tmp LOCKSTEP_METRICS_PORT=0 exec lockstep-runtime" >"$work/said" 2>&1 &&
  complain "a rank of the image for GPUs trained without one"
grep -q 'exit_code=86 reason=NoDevice' "$work/said" || complain "the rank did not say that it has no GPU: $(cat "$work/said")"
rm -rf "$work/runtime"
else
  echo "the image for GPUs was not looked at: this build has no liblockstep-cuda.so (-DWITH_CUDA=ON)"
fi

# What a rank loads only when it needs it is in the image too; an image without it says what is missing.
gloo() { inside "$work/runtime-cpu" lockstep-runtime bench collectives --ranks 2 --backend gloo --max-bytes 1Ki --iterations 1 --warmup 0; }
gloo >"$work/said" 2>&1 || complain "ranks do not meet over Gloo in the image: $(cat "$work/said")"
rm "$work/runtime-cpu/usr/lib/$(uname -m)-linux-gnu/liblockstep-gloo.so"
gloo >"$work/said" 2>&1 && complain "ranks meet over Gloo without its library"
grep -q 'Gloo: liblockstep-gloo.so: cannot open' "$work/said" || complain "the missing library is not named: $(cat "$work/said")"

# An object that the loader would not find is an error, not a gap in the image.
cp "$bin/lockstep" "$work/broken"
sed -i 's/libyaml-cpp\.so\.0\.7/libyaml-cpp.so.0.9/' "$work/broken"
"$source/docker/image_root.sh" "$work/gap" "$work/broken" >"$work/said" 2>&1 && complain "an image without libyaml-cpp was made"
grep -q 'libyaml-cpp.so.0.9 => not found' "$work/said" || complain "the missing object is not named: $(cat "$work/said")"

[ $bad = 0 ] && echo "ok"
exit $bad
