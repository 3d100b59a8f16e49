"""usage: panels.py SOURCE_DIR PROMETHEUS_URL NAMESPACE TRAININGJOB
Executes the query of every panel against a real Prometheus: each must return data. Exits 1 and names those that do not.
"""
import json
import pathlib
import sys
import urllib.parse
import urllib.request

source, server, namespace, job = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
# What a machine without a GPU, and a job in fp32, cannot have.
ABSENT = ("lockstep_gpu_utilization_ratio", "DCGM_FI_", "lockstep_loss_scale")
VARIABLES = {"$__rate_interval": "30s", "$__range": "10m", "$job": ".+", "$instance": ".+", "$namespace": namespace, "$trainingjob": job}


def count(query):
    with urllib.request.urlopen(f"{server}/api/v1/query?" + urllib.parse.urlencode({"query": query})) as answer:
        return len(json.load(answer)["data"]["result"])


executed, empty = 0, []
for file in sorted((source / "helm/lockstep/dashboards").glob("*.json")):
    for panel in json.loads(file.read_text())["panels"]:
        for target in panel.get("targets", []):
            query = target["expr"]
            for name, value in VARIABLES.items():
                query = query.replace(name, value)
            if query.endswith(" > 0") and ("_restarts{" in query or "_stalled{" in query or "_straggling{" in query):
                query = query.removesuffix(" > 0")  # a healthy job has none: that the series is there is what can be seen
            found = count(query)
            executed += 1
            if not found and not any(name in query for name in ABSENT):
                empty.append(f"{file.name}, {panel['title']}: {query}")
print(f"{executed} queries, {len(empty)} without data")
print("\n".join(empty))
sys.exit(1 if empty else 0)
