#!/usr/bin/env bash
# `lockstep run --nodes 2` on two machines: two network namespaces with a cable between them and a /dev/shm each, and with the real
# runtime. The same bits as on one machine, restarts, a machine that dies, a cable that is pulled, wrong flags. Needs root.
# usage: nodes_test.sh BIN_DIR quick|PYTHON     a Python with PyTorch, for torchrun; quick: only what is over in seconds
set -euo pipefail
. "$(dirname "$0")/lib.sh"
one=lockstep-one-$$ two=lockstep-two-$$
declare -a started=()
clean_up() {
  for pid in "${started[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
  ip netns del "$one" 2>/dev/null || true
  ip netns del "$two" 2>/dev/null || true
  rm -rf "$work"
}
trap clean_up EXIT

# Two machines, 10.73.0.1 and 10.73.0.2.
ip netns add "$one"
ip netns add "$two"
ip -n "$one" link add eth0 type veth peer name eth0 netns "$two"
for pair in "$one 1" "$two 2"; do
  read -r space number <<<"$pair"
  ip -n "$space" link set lo up
  ip -n "$space" addr add "10.73.0.$number/24" dev eth0
  ip -n "$space" link set eth0 up
done
# `become SPACE COMMAND...` is it on that machine, which sees no shared memory of the other, in place of this shell: in the background
# its id is the command's. `on` runs it.
become() { exec nsenter "--net=/run/netns/$1" unshare --mount sh -c 'mount -t tmpfs none /dev/shm && exec "$@"' sh "${@:2}"; }
on() { (become "$@"); }
node() { # name space rank argument...: starts `lockstep run` of a node; its id is in $pid
  become "$2" "$bin/lockstep" run "${job:-job.yaml}" --nodes 2 --node-rank "$3" --master 10.73.0.1:29400 "${@:4}" >"$1.out" 2>"$1.log" &
  pid=$!
  started+=("$pid")
}
status_of() { local rc=0; wait "$1" || rc=$?; echo "$rc" >status; } # sets the file `status`: a subshell could not wait

corpus 400 >corpus.txt
cat >job.yaml <<'Y'
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: small}
spec:
  ranks: 4
  train:
    model: {config: {vocab_size: 256, hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2, num_attention_heads: 4,
                     max_position_embeddings: 64}}
    data: {train: corpus.txt, sequenceLength: 64}
    batch: {globalBatchSize: 8, microBatchSize: 1}
    steps: 20
    parallelism: {strategy: zero3}
    checkpoint: {everySteps: 10}
    logging: {everySteps: 1}
    communication: {timeoutSeconds: 60}
Y

"$bin/lockstep" run job.yaml --output alone >alone.out 2>alone.log || fail "on one machine"
node first "$one" 0 --output both; first=$pid
node second "$two" 1 --output both; second=$pid
status_of "$first"; expect_status "a run on two machines ends well on the first" "$(cat status)" 0
status_of "$second"; expect_status "and on the second" "$(cat status)" 0
expect_match "the first says who came" first.log '^node 1 is 10\.73\.0\.2$'
expect_match "the second says which ranks it has" second.log 'node 1 of 2 \(--nodes\), ranks 2 to 3: looking for node 0 at 10\.73\.0\.1:29400'
expect_match "machines talk over the network, ranks of one through memory" both/logs/attempt-0/rank-2.log 'connected.* backend=shared-memory\+gloo'
cmp alone/model/model.safetensors both/model/model.safetensors || fail "the model differs from one machine's"
[ "$(losses alone)" = "$(losses both)" ] || fail "losses differ from one machine's"
echo "ok: same bits on two machines as on one"

# What is wrong is said in one line, and ends at once.
refuse() { # what status pattern argument...
  local rc=0
  on "$two" "$bin/lockstep" run job.yaml --output wrong "${@:4}" >wrong.out 2>wrong.log || rc=$?
  expect_status "$1 is refused" "$rc" "$2"
  expect_match "$1 is explained" wrong.log "$3"
  [ "$(grep -c '^error: ' wrong.log)" = 1 ] || fail "$1: not one error"
}
refuse "a rank beyond the nodes" 2 '^error: --node-rank: expected a number from 0 to 1, as --nodes is 2, found 2' --nodes 2 --node-rank 2 --master 10.73.0.1:1
refuse "a missing master" 2 '^error: --master is missing' --nodes 2 --node-rank 1
refuse "ranks that do not divide" 2 '^error: spec.ranks is 4, which 3 nodes \(--nodes\) do not divide' --nodes 3 --node-rank 1 --master 10.73.0.1:1
refuse "a master that nobody is" 72 '^error: cannot reach node 0 at 10\.73\.0\.1:29400 within 1 s: Connection refused' \
  --nodes 2 --node-rank 1 --master 10.73.0.1:29400 --set train.communication.timeoutSeconds=1
refuse "a master elsewhere" 2 '^error: cannot listen on 10\.73\.0\.1:29400: Cannot assign requested address' --nodes 2 --node-rank 0 --master 10.73.0.1:29400
refuse "a node that does not come" 72 '^error: node 1 of 2 did not come to 10\.73\.0\.2:29400 within 1 s' \
  --nodes 2 --node-rank 0 --master 10.73.0.2:29400 --set train.communication.timeoutSeconds=1
node unequal "$one" 0 --output unequal; first=$pid
refuse "another manifest" 3 '^error: node 0 refused: node 1 \(10\.73\.0\.2\): the manifests differ: spec\.train\.steps is 21 there and 20 on node 0' \
  --nodes 2 --node-rank 1 --master 10.73.0.1:29400 --set train.steps=21
status_of "$first"; expect_status "and ends the first node too" "$(cat status)" 3
expect_match "which says the same" unequal.log '^error: node 1 \(10\.73\.0\.2\): the manifests differ: spec\.train\.steps is 21 there'

# Machines without a common folder: what failed on the second one is there.
cat >failing.yaml <<'Y'
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: failing}
spec:
  ranks: 2
  command: [/bin/sh, -c, 'test $RANK = 0 && exec sleep 600; echo broken; exit 4']
  failurePolicy: {maxRestarts: 0}
Y
job=failing.yaml node failing-0 "$one" 0 --output first-folder; first=$pid
job=failing.yaml node failing-1 "$two" 1 --output second-folder; second=$pid
status_of "$first"; expect_status "a failed run ends with 1 on the first" "$(cat status)" 1
status_of "$second"; expect_status "and on the second" "$(cat status)" 1
expect_match "which machine has the log is said" failing-0.log '^its log is on node-1, below the --output there: logs/attempt-0/rank-1\.log$'
expect_match "and it is there" second-folder/logs/attempt-0/rank-1.log '^broken$'
job=failing.yaml node unwritable-0 "$one" 0 --output first-folder; first=$pid
job=failing.yaml node unwritable-1 "$two" 1 --output failing.yaml; second=$pid
status_of "$first"; expect_status "a second machine that cannot start its rank ends the first with 1" "$(cat status)" 1
status_of "$second"; expect_status "and itself" "$(cat status)" 1
why="cannot create $work/failing\.yaml/logs: Not a directory \(choose another --output\)\$"
expect_match "the first says which and why" unwritable-0.log "^error: node 1 \(10\.73\.0\.2\): $why"
expect_match "the second says why" unwritable-1.log "^error: $why"
[ "${2-}" = quick ] && exit 0

# What started us says which node this is.
launched() { # name VARIABLE=value... -- VARIABLE=value...: the variables of either process
  local name=$1 split=2
  while [ "${!split}" != -- ]; do split=$((split + 1)); done
  env "${@:2:split-2}" "$bin/lockstep" run job.yaml --output "$name" --set train.communication.backend=gloo >"$name-0.out" 2>"$name-0.log" &
  first=$!
  env "${@:split+1}" "$bin/lockstep" run job.yaml --output "$name" --set train.communication.backend=gloo >"$name-1.out" 2>"$name-1.log" &
  second=$!
  started+=("$first" "$second")
  status_of "$first"; expect_status "$name: the first process ends well" "$(cat status)" 0
  status_of "$second"; expect_status "$name: the second process ends well" "$(cat status)" 0
  expect_match "$name: it is told apart" "$name-1.log" "^node 1 of 2 \\($name\\), ranks 2 to 3: "
  cmp alone/model/model.safetensors "$name/model/model.safetensors" || fail "$name: the model differs"
}
port=$((20000 + $$ % 10000))
slurm=(SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE=2 SLURM_NODEID=0 SLURM_STEP_NODELIST=localhost SLURM_JOB_ID=$$)
launched Slurm "${slurm[@]}" SLURM_PROCID=0 SLURM_LOCALID=0 -- "${slurm[@]}" SLURM_PROCID=1 SLURM_LOCALID=1
mpi=(OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 MASTER_PORT=$port)
launched 'Open MPI' "${mpi[@]}" OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_RANK=0 -- \
  "${mpi[@]}" OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_LOCAL_RANK=1
python=$2
"$python" -m torch.distributed.run --nnodes 1 --nproc-per-node 2 --master-port "$port" --no-python \
  "$bin/lockstep" run job.yaml --output torchrun >torchrun.out 2>torchrun.log || fail "torchrun"
expect_match "torchrun's processes are told apart" torchrun.log '^node 1 of 2 \(torchrun\), ranks 2 to 3: '
cmp alone/model/model.safetensors torchrun/model/model.safetensors || fail "torchrun: the model differs"

steps='--set train.steps=600'
"$bin/lockstep" run job.yaml --output long $steps >long.out 2>long.log || fail "a longer run on one machine"
saved() { compgen -G "$1/checkpoints/step-*/manifest.json" >/dev/null; }
await_checkpoint() { until saved "$1"; do kill -0 "$first" || fail "$1 ended early"; sleep 0.05; done; } # output
rank_of() { # launcher rank: the process of that rank below a launcher
  local child
  for child in $(pgrep -P "$1"); do
    if tr '\0' '\n' <"/proc/$child/environ" | grep -x "RANK=$2" >/dev/null; then echo "$child"; fi
  done
}
begin() { # name: a run on both machines, until its first checkpoint
  node "$1-0" "$one" 0 --output "$1" $steps; first=$pid
  node "$1-1" "$two" 1 --output "$1" $steps; second=$pid
  await_checkpoint "$1"
}
same_as_alone() { # name
  cmp long/model/model.safetensors "$1/model/model.safetensors" || fail "$1: the model differs"
  [ "$(losses long)" = "$(losses "$1")" ] || fail "$1: losses differ"
  echo "ok: $1 has the bits of one machine"
}

begin killed
victim=$(rank_of "$second" 3)
[ -n "$victim" ] || fail "rank 3 is not on the second machine"
kill -KILL "$victim"
status_of "$first"; expect_status "a rank killed on the second machine restarts all" "$(cat status)" 0
status_of "$second"; expect_status "on both machines" "$(cat status)" 0
expect_match "and is named with its node" killed-0.log 'rank 3 on node-1'
same_as_alone killed

begin stopped
kill -INT "$second"
status_of "$first"; expect_status "Ctrl-C on the second machine suspends the first" "$(cat status)" 130
status_of "$second"; expect_status "and itself" "$(cat status)" 130
expect_match "behind a checkpoint" stopped-0.log '^suspended; go on with: lockstep run job.yaml --output stopped .* --nodes 2 --node-rank 0 --master 10\.73\.0\.1:29400$'
begin stopped
status_of "$first"; expect_status "the same commands go on" "$(cat status)" 0
status_of "$second"
same_as_alone stopped

begin dead
kill -KILL "$second"
status_of "$first"; expect_status "a node that dies ends the first" "$(cat status)" 83
expect_match "which names it" dead-0.log '^error: node 1 \(10\.73\.0\.2\) is gone: its connection closed'
status_of "$second"
begin dead
status_of "$first"; expect_status "the same commands go on after it" "$(cat status)" 0
status_of "$second"
same_as_alone dead

begin master
kill -KILL "$first"
status_of "$second"; expect_status "a first node that dies ends the second" "$(cat status)" 83
expect_match "which names it" master-1.log '^error: node 0 \(10\.73\.0\.1:29400\) is gone: its connection closed'
status_of "$first"
until ! grep -qsz "^LOCKSTEP_OUTPUT=$work/master$" /proc/[0-9]*/environ; do sleep 0.1; done  # or the test's time is over
echo "ok: no rank outlives its node"

begin unplugged
ip -n "$two" link set eth0 down
status_of "$first"; expect_status "a pulled cable ends the first" "$(cat status)" 83
status_of "$second"; expect_status "and the second" "$(cat status)" 83
expect_match "which says how long it waited" unplugged-0.log '^error: node 1 \(10\.73\.0\.2\) is gone: it was silent for 15 s'
expect_match "on both sides" unplugged-1.log '^error: node 0 \(10\.73\.0\.1:29400\) is gone: it was silent for 15 s'
