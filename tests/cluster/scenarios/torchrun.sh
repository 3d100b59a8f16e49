#!/usr/bin/env bash
# torchrun as the job's own command, once per pod of two ranks: it reads our environment, and its ranks reduce over Gloo.
. "$LOCKSTEP_SOURCE/tests/cluster/scenario.sh"
python=$("$LOCKSTEP_SOURCE/tools/setup.sh" print-python)
kubectl apply -f - <<Y
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: torchrun}
spec:
  ranks: 4
  ranksPerPod: 2
  image: example.invalid/none:1
  command: ["$python", -m, torch.distributed.run, tests/cluster/torchrun_sum.py]
  env: [{name: OMP_NUM_THREADS, value: "1"}, {name: GLOO_SOCKET_IFNAME, value: lo}]
  failurePolicy: {maxRestarts: 0}
Y
await_success torchrun
expect_equal "pods" "$(kubectl get pods --sort-by=.metadata.name -o 'jsonpath={.items[*].metadata.name}')" "torchrun-0-0 torchrun-0-2"
expect_equal "what the ranks found" "$(cat "$CLUSTER_STATE"/node/pods/torchrun-0-[02]/log | grep -oE 'rank [0-9] of 4.*' | sort | tr '\n' ';')" \
  "rank 0 of 4, 0 of 2 in torchrun-0-0: sum 1111;rank 1 of 4, 1 of 2 in torchrun-0-0: sum 1111;rank 2 of 4, 0 of 2 in torchrun-0-2: sum 1111;rank 3 of 4, 1 of 2 in torchrun-0-2: sum 1111;"
