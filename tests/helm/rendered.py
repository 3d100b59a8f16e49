"""usage: rendered.py SOURCE_DIR MANIFESTS RUNBOOK_URL
What a chart rendered with everything switched on must hold, where it comes from another file: the CRD, the rules, the dashboards.
"""
import json
import pathlib
import sys

import yaml

source, manifests, runbooks = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
chart = source / "helm/lockstep"
objects = [o for o in yaml.safe_load_all(pathlib.Path(manifests).read_text()) if o]


def kind(name):
    return [o for o in objects if o["kind"] == name]


(crd,) = kind("CustomResourceDefinition")
assert crd["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
assert crd["metadata"].pop("labels")["app.kubernetes.io/name"] == "lockstep"
assert crd == yaml.safe_load((source / "crds/trainingjobs.yaml").read_text()), "the chart's CRD is not crds/trainingjobs.yaml"

(rules,) = kind("PrometheusRule")
text = (chart / "files/rules.yaml").read_text().replace("RUNBOOKS", runbooks)
assert rules["spec"] == yaml.safe_load(text), "the PrometheusRule is not files/rules.yaml"

shown = {name: text for o in kind("ConfigMap") for name, text in o["data"].items()}
files = {f.name: f.read_text() for f in (chart / "dashboards").glob("*.json")}
assert shown.keys() == files.keys(), f"dashboards {sorted(shown)}, files {sorted(files)}"
for name, text in files.items():
    assert json.loads(shown[name]) == json.loads(text), f"{name} was changed on the way"

# Restricted: what Pod Security asks of every pod of that level.
for o in objects:
    spec = o["spec"] if o["kind"] == "Pod" else o["spec"]["template"]["spec"] if o["kind"] == "Deployment" else None
    if spec is None:
        continue
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in spec["containers"]:
        limits = container["securityContext"]
        assert limits["allowPrivilegeEscalation"] is False and limits["readOnlyRootFilesystem"] is True
        assert limits["capabilities"] == {"drop": ["ALL"]}

# Nothing beyond what the operator calls: no wildcard, no secrets, no way into a pod.
for o in kind("ClusterRole") + kind("Role"):
    for rule in o["rules"]:
        words = rule["apiGroups"] + rule["resources"] + rule["verbs"]
        assert not {"*", "secrets", "pods/exec", "pods/attach", "escalate", "bind", "impersonate"} & set(words), rule
print(f"ok: {len(objects)} objects, {len(files)} dashboards")
