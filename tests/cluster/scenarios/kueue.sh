#!/usr/bin/env bash
# Jobs in a queue of Kueue, whose side tests/support/queue_double plays: told why they wait, admitted as one gang, in turns on a quota of one
# gang, preempted and back from their checkpoint in the same pod group, with the bits of a run that nothing disturbed.
. "$LOCKSTEP_SOURCE/tests/cluster/scenario.sh"
orders=$work/orders queue_log=$LOG/queue-double-$scenario.log
mkdir -p "$orders" && rm -f "$queue_log"
trap 'rc=$?; stop "queue-double-$scenario"; cleanup $rc' EXIT
is_status() { [ "$(status "$1" "$2")" = "$3" ]; }                                # job field value
says() { status "$1" message | grep -q "$2"; }                                   # job pattern
pods() { kubectl get pods -l "lockstep.dev/job-name=$1" -o name; }               # job
no_pods() { local out; out=$(pods "$1") && [ -z "$out" ]; }                      # job
group() { status "$1" queue.podGroup; }                                          # job
queued_job() { # job queue: four pods, with the reference's bits
  small_job "$1" 4 "$REFERENCE_STEPS" zero3 | sed "s|^metadata: .*|metadata: {name: $1, labels: {kueue.x-k8s.io/queue-name: $2}}|"
}

"$BIN/kubectl" delete crd workloads.kueue.x-k8s.io localqueues.kueue.x-k8s.io --ignore-not-found >/dev/null
queued_job front team | kubectl apply -f - >/dev/null
await 60 "word that Kueue is not there" says front 'Kueue is not installed in this cluster'
expect_equal "state" "$(status front state)" Queued
expect_equal "gates" "$(kubectl get pods -l lockstep.dev/job-name=front -o 'jsonpath={.items[*].spec.schedulingGates[*].name}')" \
  "kueue.x-k8s.io/admission kueue.x-k8s.io/admission kueue.x-k8s.io/admission kueue.x-k8s.io/admission"
expect_equal "size of the group" "$(kubectl get pod front-0-3 -o 'jsonpath={.metadata.annotations.kueue\.x-k8s\.io/pod-group-total-count}')" 4
expect_equal "group" "$(kubectl get pod front-0-3 -o 'jsonpath={.metadata.labels.kueue\.x-k8s\.io/pod-group-name}')" "$(group front)"

for kind in Workload LocalQueue; do
  lower=$(tr '[:upper:]' '[:lower:]' <<<"$kind")
  "$BIN/kubectl" apply -f - >/dev/null <<Y
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ${lower}s.kueue.x-k8s.io}
spec:
  group: kueue.x-k8s.io
  scope: Namespaced
  names: {kind: $kind, plural: ${lower}s, singular: $lower}
  versions:
  - {name: v1beta2, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
Y
  "$BIN/kubectl" wait --for=condition=Established "crd/${lower}s.kueue.x-k8s.io" --timeout=60s >/dev/null
done
make_queue() { "$BIN/kubectl" apply -f - >/dev/null <<Y
{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: team, namespace: $scenario}, spec: {clusterQueue: all}}
Y
}
await 60 "LocalQueue" make_queue
touch "$orders/closed"
start "queue-double-$scenario" "$LOCKSTEP_QUEUE_DOUBLE" --kubeconfig "$KUBECONFIG" --namespace "$scenario" --queue team \
  --quota 4 --orders "$orders"
kubectl annotate tjob front look=again >/dev/null  # sooner than the next look
await 90 "Kueue's word" says front 'waits in queue team of Kueue: ClusterQueue is stopped'
expect_match "description" "$("$LOCKSTEP_BIN/lockstep" describe front -n "$scenario")" 'waiting in a queue'

rm "$orders/closed"
await 60 "admission" is_status front state Running
queued_job rear team | kubectl apply -f - >/dev/null
await 90 "word about the quota" says rear 'insufficient unused quota'
expect_equal "state of the rear" "$(status rear state)" Queued
await_success front
expect_equal "attempts of the front" "$(status front attempt)" 0
expect_reference front

# Its turn; then somebody more important comes.
await 120 "checkpoint of the rear" has_checkpoint rear
before=$(group rear)
touch "$orders/preempt-$before"
await 120 "attempt after preemption" is_status rear attempt 1
expect_equal "restarts" "$(status rear restarts)" 0
await_success rear
expect_equal "group after preemption" "$(group rear)" "$before"
expect_equal "restarts" "$(status rear restarts)" 0
expect_reference rear

# A queue that is not there; what waits there can be suspended and deleted, though finalizers hold it.
queued_job lost nowhere | kubectl apply -f - >/dev/null
await 60 "word about the queue" says lost "there is no LocalQueue \"nowhere\" in namespace $scenario"
kubectl patch tjob lost --type merge -p '{"spec":{"suspend":true}}' >/dev/null
kubectl wait --for=condition=Suspended tjob/lost --timeout=60s
await 60 "end of the pods of a suspended job" no_pods lost
before=$(group lost)
kubectl patch tjob lost --type merge -p '{"spec":{"suspend":false}}' >/dev/null
await 60 "resumed job in the queue" is_status lost state Queued
[ "$(group lost)" != "$before" ] || fail "a resumed job kept its group"
kubectl delete tjob lost >/dev/null
await 60 "end of the pods of a deleted job" no_pods lost

! grep 'EXCESS POD' "$queue_log" || fail "more pods than the group has"
echo "ok: never more pods than the group has"
