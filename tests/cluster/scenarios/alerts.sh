#!/usr/bin/env bash
# Every alert of the chart fires from a real job, or from an operator that is gone, in a real Prometheus, and clears again once what its
# runbook says is done. Times are the chart's own values, shorter: the conditions are those that ship.
. "$LOCKSTEP_SOURCE/tests/cluster/scenario.sh"
. "$LOCKSTEP_SOURCE/tests/cluster/prometheus.sh"

cat >"$work/values.yaml" <<'Y'
metrics:
  rules:
    enabled: true
    alerts:
      LockstepJobStalled: {window: 20s}
      LockstepLossNotFinite: {window: 30s}
      LockstepStraggler: {for: 3s}
      LockstepJobPendingTooLong: {for: 3s}
      LockstepCheckpointStale: {window: 40s, for: 3s}
      LockstepRestartLoop: {window: 5m}
      LockstepOperatorDown: {for: 3s}
Y
chart template "$scenario" --values "$work/values.yaml" --show-only templates/prometheusrule.yaml >"$work/rule.yaml"
"$python" -c 'import sys, yaml
yaml.safe_dump(yaml.safe_load(sys.stdin)["spec"], sys.stdout)' <"$work/rule.yaml" >"$work/rules.yaml"
num_alerts=$(grep -c 'alert:' "$LOCKSTEP_SOURCE/helm/lockstep/files/rules.yaml")
cat >"$work/prometheus.yaml" <<Y
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: ["$work/rules.yaml"]
scrape_configs:
  - {job_name: lockstep-operator, honor_labels: true, file_sd_configs: [{files: ["$work/operator.yaml"], refresh_interval: 1s}]}
  - {job_name: lockstep-ranks, file_sd_configs: [{files: ["$work/ranks.yaml"], refresh_interval: 1s}]}
Y
watch_operator() {
  await 60 "port of the operator" grep -qE 'port=[0-9]+' "$LOG/operator-$scenario.log"
  echo "- {targets: ['127.0.0.1:$(operator_port)']}" >"$work/operator.yaml.new"
  mv "$work/operator.yaml.new" "$work/operator.yaml"
}
watch_ranks() { targets "$@" >"$work/ranks.yaml.new" && mv "$work/ranks.yaml.new" "$work/ranks.yaml"; } # job...
echo "[]" >"$work/ranks.yaml"
watch_operator
start_prometheus $((API_PORT + 21))
await 200 "operator scraped" has_value 'count(up{job="lockstep-operator"} == 1)' 1

fired=()
must_fire() { # alert [job]
  await 900 "$*" fires "$@"
  echo "ok: $1 fires${2:+ for $2}"
  fired+=("$1")
}
must_clear() { # alert [job]
  await 900 "end of $*" is_quiet "$@"
  echo "ok: $1 is clear${2:+ of $2}"
}
state_is() { [ "$(status "$1" state)" = "$2" ]; } # job state
delete() { kubectl delete tjob "$1" --wait=false >/dev/null; }

# A scheduler that does not come.
small_job unplaced 2 100000 ddp | sed 's/^  ranks:/  template: {spec: {schedulerName: nobody}}\n  ranks:/' | kubectl apply -f - >/dev/null
# No such data.
small_job unfed 1 10 ddp | sed 's/train: operator/train: nowhere/' | kubectl apply -f - >/dev/null
# Weight decay at this rate multiplies the weights by -999 in every step, until they overflow; then every step is skipped.
small_job diverging 1 100000 ddp | sed 's/^    steps:/    nonFinite: {maxConsecutiveSkips: 100000}\n    optimizer: {lr: 1000, weightDecay: 1, gradientClip: 0}\n    schedule: {name: constant}\n    steps:/' |
  kubectl apply -f - >/dev/null
must_fire LockstepJobFailed unfed
expect_equal "reason" "$(value 'count(ALERTS{alertname="LockstepJobFailed", trainingjob="unfed", reason="InputNotFound"})')" 1
delete unfed
must_clear LockstepJobFailed unfed
await 200 "diverging job" state_is diverging Running
watch_ranks diverging
must_fire LockstepLossNotFinite diverging
delete diverging
must_clear LockstepLossNotFinite diverging

must_fire LockstepJobPendingTooLong unplaced
for pod in unplaced-0-0 unplaced-0-1; do
  "$BIN/kubectl" create --raw "/api/v1/namespaces/$scenario/pods/$pod/binding" -f - >/dev/null <<J
{"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "$pod"}, "target": {"apiVersion": "v1", "kind": "Node", "name": "process-node"}}
J
done
await 200 "job that has its nodes" state_is unplaced Running
must_clear LockstepJobPendingTooLong unplaced
delete unplaced

# A rank that stands still; the operator starts the gang over.
small_job standing 2 100000 ddp | sed 's/^  ranks: 2/  ranks: 2\n  failurePolicy: {stallTimeoutSeconds: 8}/' | kubectl apply -f - >/dev/null
await 200 "checkpoint of standing" has_checkpoint standing
kill -STOP "$(pod_pid standing-0-1)"
must_fire LockstepJobStalled standing
begun_anew() { [ "$(status standing attempt) $(status standing state)" = "1 Running" ]; }
await 200 "standing runs again" begun_anew
must_clear LockstepJobStalled standing
expect_equal "restarts of standing" "$(status standing restarts)" 1
delete standing

# A rank on a bad node: five sixths of the time it stands still, in every step.
small_job lame 2 100000 ddp | sed 's/sequenceLength: 64/sequenceLength: 128/; s/globalBatchSize: 8/globalBatchSize: 256/' | kubectl apply -f - >/dev/null
await 200 "lame runs" state_is lame Running
lame=$(pod_pid lame-0-1)
(while kill -STOP "$lame" 2>/dev/null; do sleep 0.1; kill -CONT "$lame" 2>/dev/null; sleep 0.02; done) &
limp=$!
trap 'rc=$?; kill "$limp" 2>/dev/null || :; stop "prometheus-$scenario" KILL; cleanup $rc' EXIT
must_fire LockstepStraggler lame
expect_equal "rank that straggles" "$(status lame straggler.rank)" 1
kill "$limp"
kill -CONT "$lame"
must_clear LockstepStraggler lame
delete lame

# Checkpoints that are too far apart; the runbook's way out: suspend, which saves, change, resume.
small_job unsaved 1 100000000 ddp | sed 's/checkpoint: {everySteps: 50}/checkpoint: {everySteps: 100000000}/' | kubectl apply -f - >/dev/null
must_fire LockstepCheckpointStale unsaved
kubectl patch tjob unsaved --type merge -p '{"spec": {"suspend": true}}' >/dev/null
await 200 "unsaved is suspended" state_is unsaved Suspended
kubectl patch tjob unsaved --type merge -p '{"spec": {"suspend": false, "train": {"checkpoint": {"everySteps": 50}}}}' >/dev/null
saves() { [ -n "$(value 'changes(lockstep_job_checkpoint_step{trainingjob="unsaved"}[40s]) > 1 and changes(lockstep_job_step{trainingjob="unsaved"}[40s]) > 1')" ]; }
await 300 "checkpoints of unsaved" saves
must_clear LockstepCheckpointStale unsaved

# A rank that dies again and again, until somebody mends it.
small_job dying 1 100000000 ddp | sed 's/^  ranks:/  failurePolicy: {maxRestarts: 100}\n  ranks:/' | kubectl apply -f - >/dev/null
killed=
kill_again() { # the rank of every attempt, once
  local attempt
  if fires LockstepRestartLoop dying; then return 0; fi
  attempt=$(status dying attempt)
  if [ "$attempt" != "$killed" ] && state_is dying Running; then
    kill -KILL "$(pod_pid "dying-$attempt-0")" && killed=$attempt
  fi
  return 1
}
await 600 "alert about restarts" kill_again
must_fire LockstepRestartLoop dying
must_clear LockstepRestartLoop dying
await 200 "dying lives" state_is dying Running

for alert in $(sed -n 's/ *- alert: //p' "$LOCKSTEP_SOURCE/helm/lockstep/files/rules.yaml"); do
  [ "$alert" = LockstepOperatorDown ] || is_quiet "$alert" unsaved || fail "$alert for a job that is well"
done
stop "operator-$scenario" KILL
must_fire LockstepOperatorDown
start_operator
await 60 "next operator" bash -c "[ \$(grep -c 'started server=' '$LOG/operator-$scenario.log') -ge 2 ]"
watch_operator
must_clear LockstepOperatorDown
expect_equal "alerts that fired" "$(printf '%s\n' "${fired[@]}" | sort -u | wc -l)" "$num_alerts"
