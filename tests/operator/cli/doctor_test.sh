#!/usr/bin/env bash
# `lockstep env` and `lockstep doctor` on this machine, made worse one thing at a time.   usage: doctor_test.sh BIN_DIR
set -euo pipefail
. "$(dirname "$0")/lib.sh"
# The line of a check, and the one behind it.
wrong() { # what file check text next
  grep -A1 -F "WRONG  $3" "$2" >"$work/one" || fail "$1: $3 is not wrong in $2"
  grep -qF -- "$4" "$work/one" || fail "$1: no '$4' of $3"
  grep -qF -- "       next: $5" "$work/one" || fail "$1: no 'next: $5' of $3"
  echo "ok: $1"
}
fine() { grep -q "^ok     $3" "$2" || fail "$1: $3 is wrong in $2"; echo "ok: $1"; } # what file check

# A runtime that is there and of this version, whatever was built.
version=$("$bin/lockstep" --version)
printf '#!/bin/sh\necho "lockstep-runtime %s, LibTorch 0"\n' "$version" >runtime && chmod +x runtime
mkdir shm && export LOCKSTEP_RUNTIME=$work/runtime LOCKSTEP_SHM_DIR=$work/shm
unset MASTER_ADDR MASTER_PORT LOCKSTEP_METRICS_PORT

expect_status "env" "$(KUBECONFIG=$work/none HOME=$work run env env)" 0
for name in lockstep runtime system cpu 'instruction sets' cgroup memory gpu nccl topology limits master; do
  grep -q "^$name  *[^ ]" env.out || fail "env does not tell $name"
done
expect_text "env says what is absent" env.out 'kubectl context   none'
expect_text "env tells the runtime's versions" env.out "lockstep-runtime $version, LibTorch 0"
expect_text "and how this machine is reached" env.out '127.0.0.1 by lo'
printf 'apiVersion: v1\nkind: Config\ncurrent-context: here\ncontexts: [{name: here, context: {cluster: c, user: u}}]\n' >kubeconfig
printf 'clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]\nusers: [{name: u, user: {}}]\n' >>kubeconfig
expect_status "env for machines" "$(KUBECONFIG=$work/kubeconfig run json env --output json)" 0
python3 - <<'P' || fail "env --output json"
import json
facts = json.load(open("json.out"))
assert facts["kubectl"] == {"context": "here", "server": "http://127.0.0.1:1"}, facts["kubectl"]
assert facts["memory"]["totalBytes"] > facts["memory"]["availableBytes"] > 0
assert facts["cpu"]["cores"] >= 1 and facts["limits"]["open files"]["soft"] > 0
P

run sound doctor >rc
for check in runtime "$work/shm" 'open files' output gpu nccl topology master; do fine "$check is sound" sound.out "$check"; done
if grep -q WRONG sound.out; then expect_status "exit status of this machine" "$(cat rc)" 1; else expect_status "exit status of this machine" "$(cat rc)" 0; fi

expect_status "a runtime that is not there" "$(LOCKSTEP_RUNTIME=$work/absent run runtime doctor)" 1
wrong "is named" runtime.out runtime "$work/absent: cannot be started" 'make build'
printf '#!/bin/sh\necho "lockstep-runtime 0.0.0, LibTorch 0"\n' >old && chmod +x old
expect_status "a runtime of another version" "$(LOCKSTEP_RUNTIME=$work/old run old doctor)" 1
wrong "is named" old.out runtime "is of version 0.0.0, this program of $version" 'make build'
expect_status "no shared memory" "$(LOCKSTEP_SHM_DIR=$work/none run shm doctor)" 1
wrong "is named" shm.out "$work/none" "there is no $work/none" "mount -t tmpfs"
expect_status "few open files" "$(ulimit -Sn 64; run files doctor)" 1
wrong "are counted" files.out 'open files' 'at most 64' 'ulimit -n'
expect_status "an output that cannot be written" "$(run output doctor --output-folder /proc/runs)" 1
wrong "is named" output.out output '/proc/runs' 'ls -ld /proc/runs'
echo file >taken
expect_status "an output that is a file" "$(run taken doctor --output-folder taken)" 1
wrong "is named" taken.out output 'is no folder' 'ls -ld taken'
expect_status "a master that nobody knows" "$(run master doctor --master 'no such host')" 1
wrong "is named" master.out master 'no such host is not known here' 'getent ahosts'

# A port that somebody has: the test's own listener, while it lives.
python3 - "$bin/lockstep" "$work" <<'P' || fail "a port in use"
import socket, subprocess, sys
held = socket.socket()
held.bind(("0.0.0.0", 0))
held.listen()
port = held.getsockname()[1]
told = subprocess.run([sys.argv[1], "doctor", "--port", str(port)], capture_output=True, text=True)
open(f"{sys.argv[2]}/port.out", "w").write(told.stdout)
assert told.returncode == 1 and f"WRONG  port {port}" in told.stdout and f"next: ss -ltnp 'sport = :{port}'" in told.stdout, told
P
echo "ok: a port in use is named"

# Judged by a job.
echo corpus >corpus.txt
"$bin/lockstep" init job.yaml --data corpus.txt --model tiny --ranks 1 --batch 64 >/dev/null 2>&1
run job doctor job.yaml >rc
fine "the memory of a small job" job.out memory
expect_text "is reckoned" job.out 'the job wants'
expect_status "more ranks than cores" "$(run cores doctor job.yaml --set ranks=4096 --set train.batch.globalBatchSize=4096)" 1
wrong "are told what to do" cores.out cores '4096 ranks' 'lockstep run job.yaml --set ranks='
expect_status "a job that wants more memory than there is" \
  "$(run memory doctor job.yaml --set train.model.config.hidden_size=8192 --set train.model.config.intermediate_size=28672 \
    --set train.model.config.num_hidden_layers=80 --set train.model.config.num_attention_heads=64 --set train.model.config.num_key_value_heads=8)" 1
wrong "is told by how much" memory.out memory 'the job wants' 'lockstep estimate job.yaml'
wrong "and that the disk is too small" memory.out output 'checkpoints and model want' 'df -h runs/train'
expect_status "a job that is wrong" "$(run invalid doctor job.yaml --set ranks=0)" 3
expect_status "findings for machines" "$(LOCKSTEP_RUNTIME=$work/absent run list doctor --output json)" 1
python3 - <<'P' || fail "doctor --output json"
import json
findings = json.load(open("list.out"))["findings"]
assert all(bool(f["next"]) == f["wrong"] for f in findings)
assert [f["check"] for f in findings][0] == "runtime" and findings[0]["next"] == "make build"
P
echo "ok: every finding has exactly one next command"
expect_status "a cluster without a kubeconfig" "$(KUBECONFIG=$work/none run cluster doctor --cluster)" 8
expect_status "a server that is away" "$(run away doctor --cluster --kubeconfig "$work/kubeconfig")" 1
wrong "is named" away.out server 'http://127.0.0.1:1' 'kubectl cluster-info'
