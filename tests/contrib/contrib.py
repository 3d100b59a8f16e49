"""usage: contrib.py SOURCE_DIR LUA KREW_MANIFEST ARCHIVE EXAMPLE_OUT
Argo CD's health script on every case of its own test, in plain Lua 5.1 as Argo CD embeds it; its copy in argocd-cm.yaml; k9s's views and plugins
against the CRD; krew's manifest against the archive that it names; the chart's annotations against what Artifact Hub knows. The example
that they hold goes to EXAMPLE_OUT.
"""
import hashlib
import json
import pathlib
import subprocess
import sys
import tarfile

import yaml

source, lua = pathlib.Path(sys.argv[1]), sys.argv[2]
manifest, archive, example_out = map(pathlib.Path, sys.argv[3:])
problems = []


def expect(what, found, wanted):
    if found != wanted:
        problems.append(f"{what}: expected {wanted!r}, found {found!r}")


def as_lua(value):
    if value is None:
        return "nil"
    if isinstance(value, dict):
        return "{" + ", ".join(f"[{json.dumps(k)}] = {as_lua(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "{" + ", ".join(map(as_lua, value)) + "}"
    return json.dumps(value)


def schema_at(path):
    node = schema
    for name in path.split("."):
        node = node.get("properties", {}).get(name)
        if node is None:
            return None
    return node


crd = yaml.safe_load((source / "crds/trainingjobs.yaml").read_text())
schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]

# --- Argo CD
folder = source / "contrib/argocd/resource_customizations/lockstep.dev/TrainingJob"
script = (folder / "health.lua").read_text()
cases = yaml.safe_load((folder / "health_test.yaml").read_text())["tests"]
for case in cases:
    job = yaml.safe_load((folder / case["inputPath"]).read_text())
    for field in job.get("status", {}):
        if schema_at(f"status.{field}") is None:
            problems.append(f"{case['inputPath']}: the CRD has no status.{field}")
    # Argo CD gives the script no library of files or processes.
    program = ("local env = {obj = " + as_lua(job) + ", ipairs = ipairs, pairs = pairs, string = string}\n"
               "local run = assert(loadstring(io.read('*a')))\nsetfenv(run, env)\nlocal h = run()\nprint(h.status)\nprint(h.message)")
    ran = subprocess.run([lua, "-e", program], input=script, capture_output=True, text=True)
    expect(case["inputPath"], ran.stdout.splitlines() or ran.stderr, [case["healthStatus"]["status"], case["healthStatus"]["message"]])
expect("health statuses that are tested", {c["healthStatus"]["status"] for c in cases}, {"Healthy", "Progressing", "Degraded", "Suspended"})
expect("inputs", {c["inputPath"] for c in cases}, {f"testdata/{f.name}" for f in (folder / "testdata").iterdir()})
patch = yaml.safe_load((source / "contrib/argocd/argocd-cm.yaml").read_text())
expect("argocd-cm.yaml", patch["data"], {"resource.customizations.health.lockstep.dev_TrainingJob": script})

# --- k9s
views = yaml.safe_load((source / "contrib/k9s/views.yaml").read_text())["views"]
version = crd["spec"]["versions"][0]["name"]
expect("k9s views", list(views), [f"lockstep.dev/{version}/trainingjobs"])
for column in views[f"lockstep.dev/{version}/trainingjobs"]["columns"]:
    name, _, rest = column.partition(":")
    path, _, attributes = rest.partition("|")
    if path and schema_at(path.removeprefix(".")) is None:
        problems.append(f"k9s column {name}: the CRD has no {path}")
    if not set(attributes) <= set("TNWSHLR"):
        problems.append(f"k9s column {name}: attributes {attributes}")
shown = {c["name"].upper() for c in crd["spec"]["versions"][0]["additionalPrinterColumns"]}
columns = {c.partition(":")[0] for c in views[f"lockstep.dev/{version}/trainingjobs"]["columns"]}
expect("columns of kubectl that k9s lacks", shown - columns, set())
plugins = yaml.safe_load((source / "contrib/k9s/plugins.yaml").read_text())["plugins"]
expect("shortcuts", len({p["shortCut"] for p in plugins.values()}), len(plugins))
for name, plugin in plugins.items():
    expect(f"{name}: scopes", plugin["scopes"], ["trainingjobs"])
    text = " ".join(map(str, plugin["args"]))
    expect(f"{name} acts on the chosen line", all(v in text for v in ("$NAME", "$NAMESPACE", "$CONTEXT")), True)
    if "patch" in plugin["args"]:
        expect(f"{name} asks first", (plugin["confirm"], plugin["dangerous"]), (True, True))
        (field,) = json.loads(plugin["args"][-1])["spec"]
        if schema_at(f"spec.{field}") is None:
            problems.append(f"{name}: the CRD has no spec.{field}")

# --- krew
plugin = yaml.safe_load(manifest.read_text())
expect("krew", (plugin["apiVersion"], plugin["kind"], plugin["metadata"]), ("krew.googlecontainertools.github.com/v1alpha2", "Plugin", {"name": "lockstep"}))
(platform,) = plugin["spec"]["platforms"]
expect("krew platform", platform["selector"]["matchLabels"], {"os": "linux", "arch": "amd64"})
expect("krew sha256", platform["sha256"], hashlib.sha256(archive.read_bytes()).hexdigest())
expect("krew uri", platform["uri"], f"https://releases.invalid/v0.1.0/{archive.name}")
expect("krew files", {f["from"] for f in platform["files"]}, set(tarfile.open(archive).getnames()))
expect("krew bin", platform["bin"] in tarfile.open(archive).getnames(), True)
if len(plugin["spec"]["shortDescription"]) > 50:
    problems.append("krew: shortDescription has over 50 characters")

# --- Artifact Hub: its own names and values. Source: artifacthub/hub docs/helm_annotations.md
hub = {name.removeprefix("artifacthub.io/"): value for name, value in yaml.safe_load((source / "helm/lockstep/Chart.yaml").read_text())["annotations"].items()}
expect("Artifact Hub annotations", set(hub) - {"category", "changes", "crds", "crdsExamples", "images", "license", "links", "operator", "operatorCapabilities", "screenshots"}, set())
capabilities = {"basic install", "seamless upgrades", "full lifecycle", "deep insights", "auto pilot"}
expect("operatorCapabilities is known", hub["operatorCapabilities"].lower() in capabilities, True)
expect("category", hub["category"], "ai-machine-learning")
(told,) = yaml.safe_load(hub["crds"])
expect("crds", (told["kind"], told["version"], told["name"]), ("TrainingJob", crd["spec"]["versions"][0]["name"], crd["metadata"]["name"]))
for change in yaml.safe_load(hub["changes"]):
    expect(f"kind of the change {change['description']!r} is known", change["kind"] in {"added", "changed", "deprecated", "removed", "fixed", "security"}, True)
(example,) = yaml.safe_load(hub["crdsExamples"])
example_out.write_text(yaml.safe_dump(example))

for problem in problems:
    print("FAILED:", problem)
print(f"{len(cases)} cases of health, {len(columns)} columns, {len(plugins)} plugins")
sys.exit(1 if problems else 0)
