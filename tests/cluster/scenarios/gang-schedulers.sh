#!/usr/bin/env bash
# Jobs through schedulers that know gangs, whose side tests/support/gang_double plays from our PodGroups: coscheduling, Volcano and Kubernetes'
# own Workload API, on an API server that serves all three. Each is found by discovery; a gang gets all of its nodes or none; the group stays
# over restarts, follows the number of ranks, ends with suspension and with the job.
# A control plane of its own: where these types are served, `auto` goes by them, and that would change every other scenario.
export CLUSTER_STATE=$CLUSTER_STATE-gangs API_PORT=18543 ETCD_PORT=14479
export FEATURE_GATES=GenericWorkload=true RUNTIME_CONFIG=scheduling.k8s.io/v1alpha2=true
fixture() { "$LOCKSTEP_SOURCE/tests/cluster/fixture.sh" "$1" "$LOCKSTEP_BIN" "$LOCKSTEP_SOURCE" "$LOCKSTEP_BIN" "$(dirname "$LOCKSTEP_KUBELET")"; }
trap 'fixture down' EXIT
fixture up || exit 1
. "$LOCKSTEP_SOURCE/tests/cluster/scenario.sh"
double_log=$LOG/gang-double.log
mkdir -p "$work/rooms"
trap 'rc=$?; stop gang-double; stop "operator-$scenario"; fixture down; exit $rc' EXIT

is_status() { [ "$(status "$1" "$2")" = "$3" ]; }                        # job field value
says() { status "$1" message | grep -q "$2"; }                           # job pattern
look() { kubectl annotate tjob "$1" --overwrite "look=$SECONDS"; }        # job: sooner than the next look
hears() { look "$1" && says "$@"; }                                      # job pattern
remade() { look "$1" && kubectl get "$2" "$3"; }                         # job type name
runs() { is_status "$1" state Running && is_status "$1" attempt "$2"; }  # job attempt
group() { status "$1" gang.podGroup; }                                   # job
gone() { ! kubectl get "$1" "$2" >/dev/null 2>&1; }                      # type name
nodes() { kubectl get pods -l "lockstep.dev/job-name=$1" -o 'jsonpath={.items[*].spec.nodeName}'; }  # job
gang_job() { # name gangScheduler schedulerName: three ranks, until there is a file
  cat <<Y
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: $1}
spec:
  ranks: 3
  image: example.invalid/none:1
  command: [/bin/sh, -c, "until test -e /output/done; do sleep 0.2; done"]
  output: {persistentVolumeClaim: {claimName: $1}}
  resources: {limits: {cpu: 100m}}
  scheduling: {gangScheduler: $2}
  template: {spec: {schedulerName: $3}}
Y
}
pod_group_crd() { # API-group version fields-of-the-spec
  "$BIN/kubectl" apply -f - >/dev/null <<Y
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: podgroups.$1, annotations: {api-approved.kubernetes.io: "unapproved, for tests"}}
spec:
  group: $1
  scope: Namespaced
  names: {kind: PodGroup, plural: podgroups, singular: podgroup}
  versions:
  - name: $2
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              minMember: {type: integer, format: int32, minimum: 1}
              minResources:
                type: object
                additionalProperties: {anyOf: [{type: integer}, {type: string}], x-kubernetes-int-or-string: true}
$3
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
Y
  "$BIN/kubectl" wait --for=condition=Established "crd/podgroups.$1" --timeout=60s >/dev/null
}

# One job from its wait to its end.
live() { # scheduler job type size-field word size-is-fixed
  local scheduler=$1 job=$2 type=$3 size=$4 word=$5 fixed=$6 first second
  await 90 "word of the scheduler about $job" hears "$job" "to give nodes to all 3 pods of PodGroup .* at once: $word"
  expect_equal "nodes of $job while there is no room" "$(nodes "$job")" ""
  expect_match "description of $job" "$("$LOCKSTEP_BIN/lockstep" describe "$job" -n "$scenario")" 'waiting for nodes'
  first=$(group "$job")
  expect_equal "size of the group" "$(kubectl get "$type" "$first" -o "jsonpath={.spec.$size}")" 3
  echo 3 >"$work/rooms/$scheduler"
  await 90 "running gang of $job" runs "$job" 0

  kill -KILL "$(pod_pid "$job-0-1")"
  await 90 "gang of $job after a failure" runs "$job" 1
  expect_equal "group after a failure" "$(group "$job")" "$first"
  kubectl patch tjob "$job" --type merge -p '{"spec":{"ranks":2}}' >/dev/null
  await 90 "smaller gang of $job" runs "$job" 2
  second=$(group "$job")
  expect_equal "size of the smaller group" "$(kubectl get "$type" "$second" -o "jsonpath={.spec.$size}")" 2
  if [ "$fixed" = 1 ]; then
    [ "$second" != "$first" ] || fail "a group that never changes was kept"
    await 30 "end of the larger group" gone "$type" "$first"
  else
    expect_equal "group after scaling" "$second" "$first"
  fi

  kubectl patch tjob "$job" --type merge -p '{"spec":{"suspend":true}}' >/dev/null
  kubectl wait --for=condition=Suspended "tjob/$job" --timeout=60s >/dev/null
  await 30 "end of the group of a suspended job" gone "$type" "$second"
  kubectl patch tjob "$job" --type merge -p '{"spec":{"suspend":false}}' >/dev/null
  await 90 "resumed gang of $job" runs "$job" 3
  [ "$(group "$job")" != "$second" ] || fail "a resumed job kept its group"
  first=$(group "$job")
  touch "$(output_of "$job")/done"
  await_success "$job"
  await 30 "end of the group of a finished job" gone "$type" "$first"
  expect_equal "restarts of $job" "$(status "$job" restarts)" 1
}

pod_group_crd scheduling.volcano.sh v1beta1 '              queue: {type: string}
              priorityClassName: {type: string}'
start gang-double "$LOCKSTEP_GANG_DOUBLE" --kubeconfig "$KUBECONFIG" --namespace "$scenario" --node process-node --rooms "$work/rooms" \
  --coscheduling-name batch
# Named, and not there: no pod, until somebody installs it.
gang_job named coscheduling batch | kubectl apply -f - >/dev/null
await 60 "word about the missing scheduler" says named 'the API server serves no PodGroup of scheduling.x-k8s.io/v1alpha1'
expect_equal "why" "$(kubectl get tjob named -o 'jsonpath={.status.conditions[?(@.type=="Scheduled")].reason}')" GangSchedulerMissing
expect_equal "pods without their scheduler" "$(kubectl get pods -o name)" ""
pod_group_crd scheduling.x-k8s.io v1alpha1 '              scheduleTimeoutSeconds: {type: integer, format: int32}'

native() {
  local type=podgroups.v1alpha2.scheduling.k8s.io
  gang_job own auto default-scheduler | kubectl apply -f - >/dev/null
  await 60 "choice" is_status own gang.scheduler native
  await 60 "pods" kubectl get pod own-0-2
  expect_equal "field of the pods" "$(kubectl get pod own-0-2 -o 'jsonpath={.spec.schedulingGroup.podGroupName}')" "$(group own)"
  live native own $type schedulingPolicy.gang.minCount '3/3 tasks in gang unschedulable' 1
}
volcano() {
  local type=podgroups.v1beta1.scheduling.volcano.sh
  gang_job batched auto volcano | kubectl apply -f - >/dev/null
  await 60 "choice" is_status batched gang.scheduler volcano
  await 60 "pods" kubectl get pod batched-0-2
  expect_equal "annotation of the pods" \
    "$(kubectl get pod batched-0-2 -o 'jsonpath={.metadata.annotations.scheduling\.k8s\.io/group-name}')" "$(group batched)"
  expect_equal "resources of the group" "$(kubectl get $type "$(group batched)" -o 'jsonpath={.spec.minResources.cpu}')" 300m
  kubectl delete $type "$(group batched)" >/dev/null
  await 90 "group that somebody deleted" remade batched $type "$(group batched)"
  live volcano batched $type minMember 'Inqueue: 3/3 tasks in gang unschedulable' 0
}
coscheduling() {
  await 150 "choice" is_status named gang.scheduler coscheduling
  live coscheduling named podgroups.v1alpha1.scheduling.x-k8s.io minMember Scheduling 0
  expect_equal "label of the pods" \
    "$(kubectl get pod named-3-0 -o 'jsonpath={.metadata.labels.scheduling\.x-k8s\.io/pod-group}' | cut -d- -f1)" named
}
native & lives=($!)
volcano & lives+=($!)
coscheduling & lives+=($!)
for life in "${lives[@]}"; do wait "$life" || exit 1; done
expect_match "what discovery found" "$(grep gang_schedulers "$LOG/operator-$scenario.log" | tail -n 1)" 'coscheduling volcano native'
! grep -E 'BEFORE ITS GROUP|EXCESS POD|ANOTHER SCHEDULER' "$double_log" || fail "the schedulers' contract was broken"
echo "ok: every pod had its group before it, none was in excess"
