#!/usr/bin/env bash
# What a pod template makes of a job on a real API server: refused by the server with its words in the job, mended, forbidden by Pod Security,
# or admitted with a warning.
. "$LOCKSTEP_SOURCE/tests/cluster/scenario.sh"
scheduled() { kubectl get tjob "$1" -o "jsonpath={.status.conditions[?(@.type==\"Scheduled\")].$2}"; } # job field
pods_of() { kubectl get pods -l "lockstep.dev/job-name=$1" -o name | wc -l; }                         # job
# Requests that the API server refused so far, by what they wanted to create and the code.
refusals() { "$BIN/kubectl" get --raw /metrics | awk -v code="code=\"$1\"" '/^apiserver_request_total/ && /resource="pods"/ && /verb="POST"/ && index($0, code) { n += $NF } END { print n + 0 }'; }
is_refused() { [ "$(scheduled "$1" reason)" = "$2" ]; } # job reason
has_pods() { [ "$(pods_of "$1")" = "$2" ]; }            # job number

# A program of one's own that no scheduler takes: what counts is what the server makes of the pods.
own_job() { # job container-json
  cat <<Y
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: $1}
spec:
  ranks: 3
  image: example.invalid/none:1
  command: [sleep]
  template:
    spec:
      schedulerName: nobody
      containers: [{name: trainer, $2}, {name: side, image: example.invalid/side:1}]
Y
}

before=$(refusals 400)
own_job typo 'bogus: 1' | kubectl create -f - >/dev/null
await 60 "refusal of an unknown field" is_refused typo CreationRefused
expect_match "condition" "$(scheduled typo message)" 'unknown field "spec\.containers\[0\]\.bogus"'
expect_match "message" "$(status typo message)" 'unknown field "spec\.containers\[0\]\.bogus"'
expect_equal "pods of a refused gang" "$(pods_of typo)" 0
version=$(kubectl get tjob typo -o 'jsonpath={.metadata.resourceVersion}')
sleep 1
expect_equal "resource version at rest" "$(kubectl get tjob typo -o 'jsonpath={.metadata.resourceVersion}')" "$version"
expect_equal "events" "$(kubectl get events --field-selector reason=CreationRefused -o name | wc -l)" 1
tries=$(($(refusals 400) - before))
[ "$tries" -ge 1 ] && [ "$tries" -le 24 ] || fail "$tries tries of a pod that is refused"
echo "ok: tried $tries times"

kubectl patch tjob typo --type json -p '[{"op": "replace", "path": "/spec/template/spec/containers/0", "value": {"name": "trainer", "tty": true}}]' >/dev/null
await 60 "gang of the mended template" has_pods typo 3
expect_equal "attempt" "$(status typo attempt)" 1
expect_equal "restarts" "$(status typo restarts)" 0
expect_equal "containers" "$(kubectl get pod typo-1-2 -o 'jsonpath={.spec.containers[*].name} {.spec.containers[0].tty}')" "trainer side true"
expect_equal "ConfigMaps" "$(kubectl get configmaps -l lockstep.dev/job-name=typo -o 'jsonpath={.items[*].metadata.name}')" typo-1
expect_match "event" "$(kubectl get events --field-selector reason=TemplateChanged -o 'jsonpath={.items[*].message}')" 'new attempt'

own_job gang 'env: [{name: RANK, value: "7"}]' | kubectl create -f - >/dev/null
kubectl wait --for=condition=Accepted=False tjob/gang --timeout=60s
expect_match "what breaks the gang" "$(status gang message)" 'spec\.template\.spec\.containers\[0\]\.env\[0\]\.name: RANK is set by the operator itself'
expect_equal "pods" "$(pods_of gang)" 0

# The example for RDMA, as it stands but for the scheduler: forbidden where the namespace enforces a level, admitted where it does not.
kubectl label namespace "$scenario" pod-security.kubernetes.io/enforce=restricted >/dev/null
"$LOCKSTEP_BIN/lockstep" validate "$LOCKSTEP_SOURCE/examples/rdma.yaml"
sed 's/^      nodeSelector:/      schedulerName: nobody\n&/' "$LOCKSTEP_SOURCE/examples/rdma.yaml" | kubectl create -f - >/dev/null
await 60 "refusal by Pod Security" is_refused rdma PodSecurity
for pattern in 'violates PodSecurity "restricted:latest"' 'container "trainer" must not include "IPC_LOCK" in securityContext\.capabilities\.add' \
  "label pod-security\.kubernetes\.io/enforce of namespace $scenario"; do
  expect_match "condition" "$(scheduled rdma message)" "$pattern"
done
expect_equal "pods of a forbidden gang" "$(pods_of rdma)" 0
kubectl label namespace "$scenario" --overwrite pod-security.kubernetes.io/enforce=privileged pod-security.kubernetes.io/warn=restricted >/dev/null
kubectl annotate tjob rdma look=again >/dev/null  # sooner than the next try
await 60 "gang in a privileged namespace" has_pods rdma 4
expect_equal "what the server made of it" "$(kubectl get pod rdma-0-3 -o 'jsonpath={.spec.containers[0].securityContext.capabilities} {.spec.containers[0].resources.requests.rdma/hca_shared_devices_a} {.metadata.annotations.k8s\.v1\.cni\.cncf\.io/networks}')" \
  '{"add":["IPC_LOCK"],"drop":["ALL"]} 1 rdma-network'

# That namespace only warns: the gang is there, and the user is told once, in the server's words.
warned() { kubectl get events --field-selector "involvedObject.name=$1,reason=PodSecurity,type=Warning" -o 'jsonpath={range .items[*]}{.count} {.message}{"\n"}{end}' | grep 'API server warns' || :; } # job
has_warning() { [ -n "$(warned "$1")" ]; }
await 60 "event about the warning" has_warning rdma
expect_equal "events about a warning for 4 pods" "$(warned rdma | wc -l)" 1
for pattern in '^1 the pods are admitted, but the API server warns: would violate PodSecurity "restricted:latest"' \
  'container "trainer" must not include "IPC_LOCK" in securityContext\.capabilities\.add' \
  "label pod-security\.kubernetes\.io/warn of namespace $scenario"; do
  expect_match "event" "$(warned rdma)" "$pattern"
done
expect_equal "reason of a gang that only was warned of" "$(scheduled rdma reason)" WaitingForNodes
# Our own pods keep to the level, so nothing is said of them.
own_job plain 'tty: true' | sed 's/, {name: side.*}\]/]/' | kubectl create -f - >/dev/null
await 60 "gang of our own pods" has_pods plain 3
sleep 1
expect_equal "events of our own pods" "$(warned plain)" ""
