"""usage: observability.py SOURCE_DIR QUERIES_OUT
Checks rules, runbooks and dashboards against each other, against the rules of Grafana's dashboard-linter, and every metric that they name
against the metrics that operator and runtime expose. Writes each panel's query as a recording rule to QUERIES_OUT, for promtool to parse.
"""
import json
import pathlib
import re
import sys

import yaml

source, queries_out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
chart = source / "helm/lockstep"
problems = []


def expect(holds, problem):
    if not holds:
        problems.append(problem)


# --- What is exposed: the names in the sources that make series, histograms with their three suffixes.
exposed = set()
for folder in ("runtime/train", "runtime/launch", "operator/controller"):
    for file in (source / folder).glob("*.cc"):
        text = file.read_text()
        names = set(re.findall(r'"(?:# HELP )?((?:lockstep|workqueue|rest_client|controller_runtime|process)_[a-z0-9_]+)[" ]', text))
        exposed |= names
        if "histogram(" in text:
            exposed |= {n + suffix for n in names if n.endswith("_seconds") for suffix in ("_bucket", "_sum", "_count")}
expect("lockstep_loss" in exposed and "lockstep_rank_up" in exposed and "workqueue_depth" in exposed, f"cannot read the names in the sources: {sorted(exposed)}")
FOREIGN = {"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_TEMP"}  # the DCGM exporter's

WORDS = {"by", "without", "on", "ignoring", "group_left", "group_right", "offset", "bool", "and", "or", "unless", "inf", "nan"}


def metrics_of(query):
    """Names in an expression that are neither functions, nor labels, nor words of the language."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', query)
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]", "", bare)
    bare = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", "", bare)
    found = re.findall(r"(?<![\w:.$])([a-zA-Z_:][\w:]*)\b(?!\s*\()", bare)
    return {name for name in found if name.lower() not in WORDS and not re.fullmatch(r"\d+[smhd]", name)}


# --- Rules and runbooks.
groups = yaml.safe_load((chart / "files/rules.yaml").read_text())["groups"]
rules = [rule for group in groups for rule in group["rules"]]
recorded = {rule["record"] for rule in rules if "record" in rule}
tests = yaml.safe_load((source / "tests/helm/rules_test.yaml").read_text())["tests"]
for rule in rules:
    name = rule.get("alert") or rule["record"]
    unknown = metrics_of(rule["expr"]) - exposed - recorded
    expect(not unknown, f"{name} asks for {unknown}, which nothing exposes")
    if "record" in rule:
        expect(re.fullmatch(r"[a-z_]+:[a-z_]+:[a-z0-9]+", name), f"{name} is not level:metric:operations")
        continue
    expect(re.fullmatch(r"Lockstep([A-Z][a-z]+)+", name), f"{name}: an alert's name begins with Lockstep")
    expect(rule["labels"].get("severity") in ("warning", "critical"), f"{name}: severity")
    expect(set(rule["annotations"]) == {"summary", "description", "runbook_url"}, f"{name}: annotations")
    expect(rule["annotations"].get("runbook_url") == f"RUNBOOKS/{name.lower()}.md", f"{name}: runbook_url")
    page = source / f"docs/runbooks/{name.lower()}.md"
    text = page.read_text() if page.exists() else ""
    heads = re.findall(r"^##? (.*)$", text, re.M)
    expect(heads == [name, "Meaning", "Impact", "Diagnosis", "Action"], f"{page.name}: headings {heads}")
    unknown = {m for m in re.findall(r"`(lockstep_\w+)`", text)} - exposed
    expect(not unknown, f"{page.name} names {unknown}, which nothing exposes")
    seen = [bool(case["exp_alerts"]) for test in tests for case in test.get("alert_rule_test", []) if case["alertname"] == name]
    expect(True in seen and False in seen[seen.index(True):], f"{name}: no test makes it fire and clear again")
schema = json.loads((chart / "values.schema.json").read_text())
tunable = set(schema["properties"]["metrics"]["properties"]["rules"]["properties"]["alerts"]["properties"])
expect(tunable == {rule["alert"] for rule in rules if "alert" in rule}, f"values.schema.json knows the alerts {tunable}")
pages = {page.stem for page in (source / "docs/runbooks").glob("*.md")}
alerts = {rule["alert"].lower() for rule in rules if "alert" in rule}
expect(pages == alerts, f"runbooks without an alert, or the other way round: {pages ^ alerts}")

# --- Dashboards: the linter's rules. Left out: target-job and target-instance of the DCGM exporter's series, which other jobs scrape.
UNITS = {"short", "none", "s", "h", "bytes", "mbytes", "percentunit", "ops", "reqps", "flops", "watt", "celsius"}
parsed, uids = [], set()
for file in sorted((chart / "dashboards").glob("*.json")):
    board = json.loads(file.read_text())
    uids.add(board["uid"])
    expect(board["editable"] is False, f"{file.name} is editable")
    expect(board["title"] and board["description"], f"{file.name}: title and description")
    variables = {v["name"]: v for v in board["templating"]["list"]}
    sources = [v for v in variables.values() if v["type"] == "datasource"]
    expect([(v["name"], v["label"], v["query"]) for v in sources] == [("datasource", "Data Source", "prometheus")], f"{file.name}: datasource variable")
    for name in ("job", "instance"):
        v = variables.get(name, {})
        expect(v.get("multi") and v.get("allValue") == ".+", f"{file.name}: variable {name} is not multi-select with allValue .+")
    for v in variables.values():
        if v["type"] == "query":
            expect(v["refresh"] == 2 and v["datasource"]["uid"] == "${datasource}", f"{file.name}: {v['name']} is not reloaded with the time range")
            expect(re.fullmatch(r"label_values\(\{.*\}, \w+\)|label_values\(\w+\{.*\}, \w+\)", v["query"]), f"{file.name}: {v['query']}")
    ids = [panel["id"] for panel in board["panels"]]
    expect(len(ids) == len(set(ids)), f"{file.name}: ids of panels repeat")
    taken = set()
    for panel in board["panels"]:
        where = f"{file.name}, {panel['title']}"
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        expect(not cells & taken and at["x"] + at["w"] <= 24, f"{where}: lies on another panel")
        taken |= cells
        if panel["type"] == "row":
            continue
        expect(panel["title"] and panel["description"].endswith("."), f"{where}: title and description")
        expect(panel["fieldConfig"]["defaults"]["unit"] in UNITS, f"{where}: unit")
        expect(panel["datasource"]["uid"] == "${datasource}", f"{where}: data source")
        expect(panel["targets"], f"{where}: no query")
        for target in panel["targets"]:
            query = target["expr"]
            names = metrics_of(query)
            expect(names and not names - exposed - FOREIGN, f"{where} asks for {names - exposed - FOREIGN}, which nothing exposes")
            own = re.findall(r"([a-z_]+)\{([^}]*)\}", query)
            expect(own, f"{where}: no selector")
            for name, matchers in own:
                expect('job=~"$job"' in matchers and 'instance=~"$instance"' in matchers, f"{where}: {name} without job and instance")
            for name in names:
                if name.endswith(("_total", "_bucket")):
                    expect(re.search(rf"(rate|increase)\({name}\{{[^}}]*\}}\[\$__rate_interval\]\)", query), f"{where}: {name} without rate over $__rate_interval")
            used = set(re.findall(r"\$(\w+)", query)) - {"__rate_interval", "__range", "1"}
            expect(used <= set(variables), f"{where}: variables {used - set(variables)}")
            parsed.append((where, query))
expect(uids == {"lockstep-jobs", "lockstep-job", "lockstep-operator"}, f"dashboards {uids}")

for variable, value in (("$__rate_interval", "5m"), ("$__range", "1h")):
    parsed = [(where, query.replace(variable, value)) for where, query in parsed]
queries_out.write_text(json.dumps({"groups": [{"name": "panels", "rules": [
    {"record": f"panel_{i}", "expr": query} for i, (_, query) in enumerate(parsed)]}]}))
for problem in problems:
    print("FAILED:", problem)
print(f"{len(alerts)} alerts, {len(recorded)} recording rules, {len(parsed)} queries, {len(exposed)} names exposed")
sys.exit(1 if problems else 0)
