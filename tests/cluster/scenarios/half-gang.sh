#!/usr/bin/env bash
# A scheduler that gives a node to one pod of two: the node is given back after gangTimeoutSeconds, free of charge, and the gang that comes
# again is whole once there is room.
. "$LOCKSTEP_SOURCE/tests/cluster/scenario.sh"
scheduled() { kubectl get tjob half -o "jsonpath={.status.conditions[?(@.type==\"Scheduled\")].$1}"; } # field
pods() { kubectl get pods -l lockstep.dev/job-name=half -o 'jsonpath={.items[*].metadata.name}'; }
has_pods() { [ "$(pods)" = "$1" ]; }                                 # names
is_status() { [ "$(status half "$1")" = "$2" ]; }                    # field value
bind() { # pod: what a scheduler does
  "$BIN/kubectl" create --raw "/api/v1/namespaces/$scenario/pods/$1/binding" -f - >/dev/null <<J
{"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "$1"}, "target": {"apiVersion": "v1", "kind": "Node", "name": "process-node"}}
J
}

kubectl apply -f - <<'Y'
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: half}
spec:
  ranks: 2
  image: example.invalid/none:1
  command: [sleep, "600"]
  scheduling: {gangTimeoutSeconds: 3}
  template: {spec: {schedulerName: nobody}}
Y
await 60 "gang" has_pods "half-0-0 half-0-1"
bind half-0-0
await 60 "release" is_status gangReleases 1
expect_equal "attempt" "$(status half attempt)" 1
expect_equal "restarts" "$(status half restarts)" 0
expect_equal "failures" "$(status half firstFailure)" ""
await 60 "node given back" has_pods ""
expect_equal "why it waits" "$(scheduled reason)" GangReleased
expect_match "event" "$(kubectl get events --field-selector reason=GangReleased -o 'jsonpath={.items[*].message}')" \
  '^1 of 2 pods had nodes while the others got none; the gang gives them back and tries again in [12][0-9] s$'
expect_match "description" "$("$LOCKSTEP_BIN/lockstep" describe half -n "$scenario")" 'half a gang gave its nodes back once'

# Now there is a scheduler with room for both.
kubectl patch tjob half --type merge -p '{"spec":{"template":{"spec":{"schedulerName":"default-scheduler"}}}}' >/dev/null
await 90 "whole gang" is_status state Running
expect_equal "attempt" "$(status half attempt)" 1
expect_equal "restarts" "$(status half restarts)" 0
expect_equal "releases of a gang that is whole" "$(status half gangReleases)" ""
