#!/usr/bin/env bash
# A node that is taken away or tainted, and a pod that is drained, cost no restart of the budget; the gang starts over elsewhere.
. "$LOCKSTEP_SOURCE/tests/cluster/scenario.sh"
own_job() { # name shell-command
  printf 'apiVersion: lockstep.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: %s}\nspec:\n  ranks: 2\n  failurePolicy: {maxRestarts: 0}\n' "$1"
  printf '  command: [/bin/sh, -c, "%s"]\n' "$2"
}
running() { [ "$(status "$1" attempt) $(status "$1" ranks.running)" = "$2 2" ]; } # job attempt
reason() { kubectl get events --field-selector "involvedObject.name=$1,reason=Restarting" -o 'jsonpath={.items[*].message}'; }

own_job drained 'test $LOCKSTEP_ATTEMPT = 1 || exec sleep 600' | kubectl create -f - >/dev/null
await 60 "running ranks" running drained 0
# What kubectl drain asks for.
kubectl create --raw "/api/v1/namespaces/$scenario/pods/drained-0-1/eviction" -f - >/dev/null <<Y
{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "drained-0-1", "namespace": "$scenario"}}
Y
await_success drained
expect_equal "attempt after the drain" "$(status drained attempt)" 1
expect_equal "restarts charged for it" "$(status drained restarts)" 0
expect_equal "rank that was drained" "$(status drained firstFailure.rank)" 1
expect_match "event" "$(reason drained)" 'rank 1'

# A taint that nobody tolerates: the control plane deletes the ranks that run there.
own_job tainted 'test $LOCKSTEP_ATTEMPT = 1 || exec sleep 600' | kubectl create -f - >/dev/null
await 60 "running ranks" running tainted 0
node=$(kubectl get pod tainted-0-1 -o 'jsonpath={.spec.nodeName}')
kubectl taint node "$node" example.test/repair:NoExecute >/dev/null
trap 'rc=$?; kubectl taint node "$node" example.test/repair- >/dev/null 2>&1; cleanup $rc' EXIT
next_attempt() { [ "$(status tainted attempt)" = 1 ]; }
await 60 "attempt after the taint" next_attempt
kubectl taint node "$node" example.test/repair- >/dev/null
await_success tainted
expect_equal "attempt after the taint" "$(status tainted attempt)" 1
expect_equal "restarts charged for it" "$(status tainted restarts)" 0
expect_match "reason" "$(status tainted firstFailure.reason)" "^(DisruptionTarget|PodDeleted)$"

# Rank 1 runs on a node of its own, played by this script; the node goes, and nobody confirms the pod's end.
kubectl create -f - >/dev/null <<Y
{apiVersion: v1, kind: Node, metadata: {name: doomed}}
Y
trap 'rc=$?; kubectl delete node doomed --ignore-not-found >/dev/null 2>&1; cleanup $rc' EXIT
kubectl patch node doomed --subresource status --type merge -p \
  "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"lastHeartbeatTime\":\"$(date -u +%FT%TZ)\"}]}}" >/dev/null
kubelet=$(cut -d' ' -f1 "$PIDS/process-kubelet")
kill -STOP "$kubelet"
trap 'rc=$?; kill -CONT "$kubelet"; kubectl delete node doomed --ignore-not-found >/dev/null 2>&1; cleanup $rc' EXIT
own_job stranded 'test $LOCKSTEP_ATTEMPT = 1 || exec sleep 600' | kubectl create -f - >/dev/null
await 60 "pod of rank 1" kubectl get pod stranded-0-1
kubectl create --raw "/api/v1/namespaces/$scenario/pods/stranded-0-1/binding" -f - >/dev/null <<Y
{"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "stranded-0-1"}, "target": {"kind": "Node", "name": "doomed"}}
Y
kubectl patch pod stranded-0-1 --subresource status --type merge -p '{"status":{"phase":"Running"}}' >/dev/null
kill -CONT "$kubelet"
await 60 "running ranks" running stranded 0
kubectl delete node doomed >/dev/null
await_success stranded
expect_equal "attempt after the loss" "$(status stranded attempt)" 1
expect_equal "restarts charged for it" "$(status stranded restarts)" 0
expect_equal "reason" "$(status stranded firstFailure.reason)" NodeLost
expect_equal "node" "$(status stranded firstFailure.node)" doomed
pod_gone() { ! kubectl get pod stranded-0-1 >/dev/null 2>&1; }
await 60 "end of the pod without a node" pod_gone
