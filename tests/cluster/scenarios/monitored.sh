#!/usr/bin/env bash
# The real Prometheus scrapes operator and ranks as the chart's monitors say: every panel of the dashboards has data, alerts fire from real
# jobs and clear, and a job has as many series as the documents say.
. "$LOCKSTEP_SOURCE/tests/cluster/scenario.sh"
tools=$LOCKSTEP_CACHE/debian/prometheus/usr/bin
python=$("$LOCKSTEP_SOURCE/tools/setup.sh" print-python)
trap 'stop "prometheus-$scenario" KILL; cleanup' EXIT

small_job watched 2 100000 zero3 | sed 's/^    logging:.*/    logging: {everySteps: 1, peakFlopsPerRank: 1e12}\n    evaluation: {everySteps: 5}/
  s/checkpoint: {everySteps: 50}/checkpoint: {everySteps: 5}/
  s/data: {train: operator,/data: {train: operator, validation: tests\/cluster\/lib.sh,/' | kubectl apply -f - >/dev/null
# Fails at once, for a reason that no restart mends.
small_job lost 1 10 ddp | sed 's/train: operator/train: nowhere/' | kubectl apply -f - >/dev/null
# Weight decay at this rate multiplies the weights by -999 in every step, until they overflow; then every step is skipped.
small_job diverging 1 100000 ddp | sed 's/^    steps:/    nonFinite: {maxConsecutiveSkips: 100000}\n    optimizer: {lr: 1000, weightDecay: 1, gradientClip: 0}\n    schedule: {name: constant}\n    steps:/' |
  kubectl apply -f - >/dev/null
running() { kubectl wait --for=condition=Running "tjob/$1" --timeout=60s; }
await 200 "running job" running watched
await 200 "diverging job" running diverging

# What the PodMonitor and the ServiceMonitor make of it, and the documents' own scrape configuration.
targets() { # job
  local ip pod node
  kubectl get pods -l "lockstep.dev/job-name=$1" --no-headers -o custom-columns=:.status.podIP,:.metadata.name,:.spec.nodeName |
    while read -r ip pod node; do
      echo "      - {targets: ['$ip:9400'], labels: {namespace: $scenario, trainingjob: $1, pod: $pod, node: $node}}"
    done
}
port=$(sed -nE 's/.*port=([0-9]+).*/\1/p' "$LOG/operator-$scenario.log" | tail -n 1)
address=$(kubectl get pod watched-0-0 -o 'jsonpath={.status.podIP}')
server=http://127.0.0.1:$((API_PORT + 20))
cat >"$work/prometheus.yaml" <<Y
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: ["$LOCKSTEP_SOURCE/helm/lockstep/files/rules.yaml"]
scrape_configs:
  - job_name: lockstep-operator
    honor_labels: true
    static_configs: [{targets: ["127.0.0.1:$port"]}]
  - job_name: lockstep-ranks
    static_configs:
$(targets watched)
$(targets diverging)
  - job_name: distributed-training
    static_configs: [{targets: ["$address:9400"]}]
    relabel_configs: [{source_labels: [__address__], regex: "([^:]+):.*", target_label: node}]
Y
"$tools/promtool" check config "$work/prometheus.yaml" >/dev/null || fail "promtool check config"
for page in "127.0.0.1:$port" "$address:9400"; do
  curl -fsS "http://$page/metrics" >"$work/page" || fail "no answer from $page"
  "$tools/promtool" check metrics <"$work/page" >"$work/lint" 2>&1 || fail "promtool check metrics $page: $(cat "$work/lint")"
done
start "prometheus-$scenario" "$tools/prometheus" --config.file "$work/prometheus.yaml" --storage.tsdb.path "$work/tsdb" \
  --web.listen-address "${server#http://}"
await 200 "ready Prometheus" curl -fsS "$server/-/ready"
value() { # query: of the first result
  curl -fsS "$server/api/v1/query" --data-urlencode "query=$1" | "$python" -c 'import json, sys
print(next((r["value"][1] for r in json.load(sys.stdin)["data"]["result"]), ""))'
}
has_value() { [ "$(value "$1")" = "$2" ]; }
fires() { [ -n "$(value "ALERTS{alertname=\"$1\", alertstate=\"firing\", trainingjob=\"$2\"}")" ]; } # alert job
clear() { curl -fsS "$server/-/ready" && ! fires "$@"; }  # silence of a server that is gone is no proof

await 200 "all targets up" has_value 'count(up == 1)' 5
await 200 "the documents' scrape" has_value "count(lockstep_step{job=\"distributed-training\", node=\"$address\", rank=\"0\"})" 1
await 400 "LockstepLossNotFinite" fires LockstepLossNotFinite diverging
kubectl delete tjob diverging >/dev/null

panels() { "$python" "$LOCKSTEP_SOURCE/tests/cluster/panels.py" "$LOCKSTEP_SOURCE" "$server" "$scenario" watched >"$work/panels"; }
wait_for 400 "data in every panel" panels || fail "$(cat "$work/panels")"
echo "ok: $(cat "$work/panels")"
expect_equal "series of a job, told by the operator" "$(value "count({job=\"lockstep-operator\", trainingjob=\"watched\"})")" 25
expect_equal "series of a finished job" "$(value "count({job=\"lockstep-operator\", trainingjob=\"lost\"})")" 1
of_a_rank=$(value "count({job=\"lockstep-ranks\", trainingjob=\"watched\", rank=\"1\"})")
[ "$of_a_rank" -gt 30 ] && [ "$of_a_rank" -le 50 ] || fail "a rank has $of_a_rank series"
echo "ok: $of_a_rank series of a rank"

await 200 "LockstepJobFailed" fires LockstepJobFailed lost
expect_equal "reason" "$(value 'count(ALERTS{alertname="LockstepJobFailed", trainingjob="lost", reason="InputNotFound"})')" 1
clear LockstepJobFailed watched && clear LockstepLossNotFinite watched || fail "a healthy job has an alert"
kubectl delete tjob lost >/dev/null
await 200 "end of LockstepJobFailed" clear LockstepJobFailed lost
echo "ok: alerts fire from real jobs, and LockstepJobFailed ends with its job"
