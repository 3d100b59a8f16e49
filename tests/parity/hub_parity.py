"""What lockstep fetches, huggingface_hub finds, and the other way around: one cache, one protocol.

usage: hub_parity.py LOCKSTEP HUB_SERVER
"""
import os
import pathlib
import subprocess
import sys
import tempfile

lockstep, hub_server = sys.argv[1:]
work = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-hub-"))

FILES = {
    "models/org/base/config.json": b'{"model_type": "llama"}',
    "models/org/base/model.safetensors": bytes(range(256)) * 3000,
    "models/org/base/tokenizer.json": b'{"version": "1.0"}',
    "models/org/base/pytorch_model.bin": b"never",
    "datasets/org/talks/data/train.jsonl": b'{"text": "one"}\n' * 100,
}
for name, data in FILES.items():
    path = work / "hub" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)

server = subprocess.Popen([hub_server, work / "hub"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
endpoint = server.stdout.readline().strip()
for variable in ("HF_TOKEN", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
    os.environ.pop(variable, None)
os.environ.update(HF_ENDPOINT=endpoint, HF_HOME=str(work / "home"), HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_TELEMETRY="1")

import huggingface_hub  # noqa: E402: reads the environment when it is imported


def fetch(*words, **environment):
    said = subprocess.run([lockstep, "fetch", *words], env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True)
    assert said.returncode == 0, (words, said.returncode)
    return said.stdout.strip()


def check(what, found, expected):
    assert found == expected, f"{what}: found {found!r}, expected {expected!r}"
    print(f"ok: {what}")


# Ours first.
model = pathlib.Path(fetch("hf://org/base"))
talks = pathlib.Path(fetch("--data", "hf://org/talks"))
for name in ("config.json", "model.safetensors", "tokenizer.json"):
    path = huggingface_hub.hf_hub_download("org/base", name, local_files_only=True)
    check(f"huggingface_hub finds our {name}", pathlib.Path(path), model / name)
    check(f"{name} is whole", pathlib.Path(path).read_bytes(), FILES[f"models/org/base/{name}"])
path = huggingface_hub.hf_hub_download("org/talks", "data/train.jsonl", repo_type="dataset", local_files_only=True)
check("huggingface_hub finds our data", pathlib.Path(path), talks)
check("huggingface_hub knows our cache", {repo.repo_id for repo in huggingface_hub.scan_cache_dir().repos}, {"org/base", "org/talks"})
check("without a warning", huggingface_hub.scan_cache_dir().warnings, [])

# Then theirs.
other = str(work / "theirs")
huggingface_hub.snapshot_download("org/base", cache_dir=other, ignore_patterns=["*.bin"])
huggingface_hub.snapshot_download("org/talks", cache_dir=other, repo_type="dataset")
offline = {"HF_HUB_CACHE": other, "HF_HUB_OFFLINE": "1"}
found = pathlib.Path(fetch("hf://org/base", **offline))
check("we find what huggingface_hub fetched", (found / "model.safetensors").read_bytes(), FILES["models/org/base/model.safetensors"])
check("at the same commit", found.name, model.name)
check("and its data", pathlib.Path(fetch("--data", "hf://org/talks", **offline)).read_bytes(), FILES["datasets/org/talks/data/train.jsonl"])

server.stdin.close()
server.wait()
print("ok: huggingface_hub", huggingface_hub.__version__)
