# Sourced by scenarios, after scenario.sh: the real Prometheus on a port of its own, and what it is asked.
tools=$LOCKSTEP_CACHE/debian/prometheus/usr/bin
python=$("$LOCKSTEP_SOURCE/tools/setup.sh" print-python)
trap 'rc=$?; stop "prometheus-$scenario" KILL; cleanup $rc' EXIT

operator_port() { sed -nE 's/.*port=([0-9]+).*/\1/p' "$LOG/operator-$scenario.log" | tail -n 1; }
# The ranks of jobs as targets, one a line, with the labels that the PodMonitor gives them.
targets() { # job...
  local job ip pod node
  for job; do
    kubectl get pods -l "lockstep.dev/job-name=$job" --no-headers -o custom-columns=:.status.podIP,:.metadata.name,:.spec.nodeName |
      while read -r ip pod node; do
        echo "- {targets: ['$ip:9400'], labels: {namespace: $scenario, trainingjob: $job, pod: $pod, node: $node}}"
      done
  done
}
start_prometheus() { # port, with $work/prometheus.yaml
  server=http://127.0.0.1:$1
  "$tools/promtool" check config "$work/prometheus.yaml" >"$work/config" 2>&1 || fail "promtool check config: $(cat "$work/config")"
  start "prometheus-$scenario" "$tools/prometheus" --config.file "$work/prometheus.yaml" --storage.tsdb.path "$work/tsdb" \
    --web.listen-address "${server#http://}"
  await 200 "ready Prometheus" curl -fsS "$server/-/ready"
}
value() { # query: of the first result
  curl -fsS "$server/api/v1/query" --data-urlencode "query=$1" | "$python" -c 'import json, sys
print(next((r["value"][1] for r in json.load(sys.stdin)["data"]["result"]), ""))'
}
has_value() { [ "$(value "$1")" = "$2" ]; }
fires() { [ -n "$(value "ALERTS{alertname=\"$1\", alertstate=\"firing\"${2:+, trainingjob=\"$2\"}}")" ]; } # alert [job]
is_quiet() { curl -fsS "$server/-/ready" >/dev/null && ! fires "$@"; }  # silence of a server that is gone is no proof
