#!/usr/bin/env bash
# The real Prometheus scrapes operator and ranks as the chart's monitors say: every panel of the dashboards has data, and a job has as many
# series as the documents say.
. "$LOCKSTEP_SOURCE/tests/cluster/scenario.sh"
. "$LOCKSTEP_SOURCE/tests/cluster/prometheus.sh"

small_job watched 2 100000 zero3 | sed 's/^    logging:.*/    logging: {everySteps: 1, peakFlopsPerRank: 1e12}\n    evaluation: {everySteps: 5}/
  s/checkpoint: {everySteps: 50}/checkpoint: {everySteps: 5}/
  s/data: {train: operator,/data: {train: operator, validation: tests\/cluster\/lib.sh,/' | kubectl apply -f - >/dev/null
# Fails at once, for a reason that no restart mends.
small_job absent 1 10 ddp | sed 's/train: operator/train: nowhere/' | kubectl apply -f - >/dev/null
running() { kubectl wait --for=condition=Running "tjob/$1" --timeout=60s; }
await 200 "running job" running watched

# What the PodMonitor and the ServiceMonitor make of it, and the documents' own scrape configuration.
port=$(operator_port)
address=$(kubectl get pod watched-0-0 -o 'jsonpath={.status.podIP}')
cat >"$work/prometheus.yaml" <<Y
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: ["$LOCKSTEP_SOURCE/helm/lockstep/files/rules.yaml"]
scrape_configs:
  - job_name: lockstep-operator
    honor_labels: true
    static_configs: [{targets: ["127.0.0.1:$port"]}]
  - job_name: lockstep-ranks
    static_configs:
$(targets watched | sed 's/^/      /')
  - job_name: distributed-training
    static_configs: [{targets: ["$address:9400"]}]
    relabel_configs: [{source_labels: [__address__], regex: "([^:]+):.*", target_label: node}]
Y
for page in "127.0.0.1:$port" "$address:9400"; do
  curl -fsS "http://$page/metrics" >"$work/page" || fail "no answer from $page"
  "$tools/promtool" check metrics <"$work/page" >"$work/lint" 2>&1 || fail "promtool check metrics $page: $(cat "$work/lint")"
done
start_prometheus $((API_PORT + 20))
await 200 "all targets up" has_value 'count(up == 1)' 4
await 200 "the documents' scrape" has_value "count(lockstep_step{job=\"distributed-training\", node=\"$address\", rank=\"0\"})" 1

panels() { "$python" "$LOCKSTEP_SOURCE/tests/cluster/panels.py" "$LOCKSTEP_SOURCE" "$server" "$scenario" watched >"$work/panels"; }
wait_for 400 "data in every panel" panels || fail "$(cat "$work/panels")"
echo "ok: $(cat "$work/panels")"
expect_equal "series of a job, told by the operator" "$(value "count({job=\"lockstep-operator\", trainingjob=\"watched\"})")" 26
await 200 "series of a finished job" has_value "count({job=\"lockstep-operator\", trainingjob=\"absent\"})" 1
of_a_rank=$(value "count({job=\"lockstep-ranks\", trainingjob=\"watched\", rank=\"1\"})")
[ "$of_a_rank" -gt 30 ] && [ "$of_a_rank" -le 50 ] || fail "a rank has $of_a_rank series"
echo "ok: $of_a_rank series of a rank"
