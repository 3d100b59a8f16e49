#!/usr/bin/env bash
# usage: node_test.sh BIN_DIR SOURCE_DIR STATE_DIR
# From nothing to a cluster with one real node, the chart installed by the real Helm, and jobs in real containers: the quickstart, and
# the small job disturbed in every way that a node knows. Whatever happens, a job ends with the bits of `lockstep run`.
set -euo pipefail
bin=$1 source=$2
export CLUSTER_STATE=$3/node LOCKSTEP_BIN=$bin LOCKSTEP_SOURCE=$source API_PORT=18443 ETCD_PORT=14379
. "$source/tests/cluster/lib.sh"
. "$source/tests/cluster/small_job.sh"
namespace=training
kubectl() { "$BIN/kubectl" --namespace $namespace "$@"; }
fail() {
  echo "FAILED: $*" >&2
  kubectl get trainingjobs,pods -o wide >&2 || :
  kubectl get events --sort-by=.lastTimestamp 2>/dev/null | tail -n 20 >&2 || :
  "$BIN/kubectl" -n lockstep-system logs --all-containers --prefix -l app.kubernetes.io/name=lockstep --tail 20 >&2 || :
  exit 1
}
. "$source/tests/cluster/checks.sh"

down() { "$source/tests/cluster/node/down.sh"; }
trap down EXIT
down
images=$CLUSTER_STATE/images version=$(sed -n 's/^appVersion: "*\([^"]*\)"*$/\1/p' "$source/helm/lockstep/Chart.yaml")
mkdir -p "$images" "$CLUSTER_STATE/pause"
gcc -Os -static -s -o "$CLUSTER_STATE/pause/pause" "$source/tests/cluster/node/pause.c"
printf 'FROM scratch\nENTRYPOINT ["/pause"]\nUSER 0\n' >"$CLUSTER_STATE/pause.Dockerfile"
"$source/tests/cluster/node/image.sh" localhost/pause:1 "$CLUSTER_STATE/pause" "$images/pause.tar" "$CLUSTER_STATE/pause.Dockerfile"
for image in operator runtime-cpu; do
  folder=$CLUSTER_STATE/image-$image file=$source/docker/$image.Dockerfile
  "$source/tests/support/image_folder.sh" "$file" "$bin" "$source" "$folder" | tail -n 1
  "$source/tests/cluster/node/image.sh" "localhost/lockstep/$image:$version" "$folder" "$images/$image.tar" "$file"
  compressed=$(gzip -c "$images/$image.tar" | wc -c)
  echo "$image: $(awk "BEGIN { printf \"%.1f MB\", $compressed / 1000000 }") compressed"
  [ "$compressed" -lt 170000000 ] || fail "$image has $compressed bytes compressed, promised: 170 MB"
done

began=$SECONDS
"$source/tests/cluster/node/up.sh" "$images"
echo "node ready after $((SECONDS - began)) s"

# What disturbs no job: the same manifests by `lockstep run`, in the folder that the image has.
(cd "$CLUSTER_STATE/image-runtime-cpu/opt/lockstep" && mkdir -p "$REFERENCE" &&
  small_job reference 1 "$REFERENCE_STEPS" ddp >"$REFERENCE/job.yaml" &&
  "$bin/lockstep" run "$REFERENCE/job.yaml" --output "$REFERENCE/output" >"$REFERENCE/log" 2>&1 &&
  began=$SECONDS && "$bin/lockstep" run examples/quickstart.yaml --output "$REFERENCE/quickstart" >>"$REFERENCE/log" 2>&1 &&
  echo $((SECONDS - began)) >"$REFERENCE/quickstart-seconds") || fail "$(tail -n 5 "$REFERENCE/log")"

# A volume of the node for a claim, that ranks can write by their group.
volume() { # claim
  mkdir -p "$CLUSTER_STATE/volumes/$1"
  kubectl apply -f - >/dev/null <<Y
apiVersion: v1
kind: PersistentVolume
metadata: {name: $1}
spec:
  accessModes: [ReadWriteMany]
  capacity: {storage: 1Gi}
  claimRef: {namespace: $namespace, name: $1}
  local: {path: $CLUSTER_STATE/volumes/$1}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node1]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $1}
spec: {accessModes: [ReadWriteMany], storageClassName: "", volumeName: $1, resources: {requests: {storage: 1Gi}}}
Y
}
output_of() { echo "$CLUSTER_STATE/volumes/$1"; }
has_checkpoint() { compgen -G "$(output_of "$1")/checkpoints/step-*/manifest.json" >/dev/null; }
expect_reference() { # job [reference]
  local reference=${2:-$REFERENCE/output}
  cmp "$reference/model/model.safetensors" "$(output_of "$1")/model/model.safetensors" || fail "the model of $1 differs"
  [ "$(losses "$reference")" = "$(losses "$(output_of "$1")")" ] || fail "the losses of $1 differ"
  echo "ok: model and losses of $1 equal those of lockstep run"
}
submit() { # job [sed script]: the small job, two ranks in two pods
  volume "$1"
  small_job "$1" 2 "$REFERENCE_STEPS" zero3 | sed "${2:-}" | kubectl apply -f - >/dev/null
}
no_pods() { local out; out=$(kubectl get pods -l "lockstep.dev/job-name=$1" -o name) && [ -z "$out" ]; }

"$BIN/kubectl" create namespace $namespace >/dev/null
"$BIN/kubectl" label namespace $namespace pod-security.kubernetes.io/enforce=restricted >/dev/null

began=$SECONDS
"$BIN/helm" install lockstep "$source/helm/lockstep" -n lockstep-system --create-namespace --set image.registry=localhost --wait --timeout 120s \
  >"$CLUSTER_STATE/notes" || fail "helm install"
installed=$((SECONDS - began))
volume quickstart
sed '/^---/,$d' "$source/examples/quickstart.yaml" | kubectl apply -f - >/dev/null
kubectl wait --for=condition=Running tjob/quickstart --timeout=180s >/dev/null || fail "quickstart does not run"
running=$((SECONDS - began))
await_success quickstart
# Promised: 60 s on a machine that does nothing else. What it trains depends on the machine, so the same by `lockstep run` stands beside it.
echo "from helm install to Succeeded of the quickstart: $((SECONDS - began)) s (operators ready after $installed s, ranks running after $running s;" \
  "lockstep run of the same took $(cat "$REFERENCE/quickstart-seconds") s here)"
expect_reference quickstart "$REFERENCE/quickstart"
"$BIN/kubectl" -n lockstep-system get pods -o wide
"$BIN/helm" test lockstep -n lockstep-system >"$CLUSTER_STATE/helm-test" 2>&1 || fail "helm test: $(cat "$CLUSTER_STATE/helm-test")"
echo "ok: helm test"

# Every example is taken as it stands, objects that belong to it included, where none of them is yet.
for example in "$source"/examples/*.yaml; do
  "$BIN/kubectl" -n default apply --dry-run=server -f "$example" >"$CLUSTER_STATE/example" 2>&1 || fail "$example: $(cat "$CLUSTER_STATE/example")"
done
echo "ok: $(ls "$source"/examples/*.yaml | wc -l) examples"

# A container killed by the node's own hand.
submit killed
await 120 "checkpoint of killed" has_checkpoint killed
container=$(kubectl get pod killed-0-1 -o 'jsonpath={.status.containerStatuses[0].containerID}')
"$BIN/ctr" -a "$CLUSTER_STATE/kubelet-node/containerd.sock" -n k8s.io tasks kill -s KILL "${container#containerd://}"
await_success killed
expect_equal "restarts of killed" "$(status killed restarts)" 1
expect_equal "first failing rank of killed" "$(status killed firstFailure.rank)" 1
expect_reference killed

# A pod deleted by somebody, with time to save.
submit deleted
await 120 "checkpoint of deleted" has_checkpoint deleted
kubectl delete pod deleted-0-0 --wait=false >/dev/null
await_success deleted
expect_reference deleted

# The leading operator dies in mid-run, and its pod with it.
submit led
await 120 "checkpoint of led" has_checkpoint led
"$BIN/kubectl" -n lockstep-system delete pods --all --force --grace-period 0 >/dev/null 2>&1
await_success led
expect_equal "restarts of led" "$(status led restarts)" 0
expect_reference led

# A node is drained for its upkeep, and comes back.
submit drained
await 120 "checkpoint of drained" has_checkpoint drained
"$BIN/kubectl" drain node1 --pod-selector lockstep.dev/job-name=drained --force --delete-emptydir-data --timeout 120s >/dev/null 2>&1 || fail "drain"
sleep 3  # the next gang waits for a node
"$BIN/kubectl" uncordon node1 >/dev/null
await_success drained
expect_reference drained

# Suspended: SIGTERM, a checkpoint within the grace period, no pod; resumed on one rank.
submit paused
await 120 "checkpoint of paused" has_checkpoint paused
kubectl patch tjob paused --type merge -p '{"spec": {"suspend": true}}' >/dev/null
kubectl wait --for=condition=Suspended tjob/paused --timeout=180s >/dev/null
await 60 "end of the pods of paused" no_pods paused
kubectl patch tjob paused --type merge -p '{"spec": {"suspend": false, "ranks": 1}}' >/dev/null
await_success paused
expect_equal "restarts of paused" "$(status paused restarts)" 0
expect_reference paused

# More memory than the limit: the kernel's verdict reaches the status.
submit starved 's/^  ranks:/  resources: {limits: {memory: 48Mi}}\n  failurePolicy: {maxRestarts: 0}\n  ranks:/'
kubectl wait --for=condition=Failed tjob/starved --timeout=180s >/dev/null || fail "starved did not fail"
expect_equal "reason of starved" "$(status starved firstFailure.reason)" OOMKilled

"$BIN/helm" uninstall lockstep -n lockstep-system --wait >/dev/null || fail "helm uninstall"
expect_equal "jobs after helm uninstall" "$(kubectl get trainingjobs -o name | wc -l)" 7
echo "ok"
