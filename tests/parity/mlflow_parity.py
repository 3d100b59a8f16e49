"""The real MLflow server has what runs told it, in the eyes of MLflow's own client.

usage: mlflow_parity.py LOCKSTEP
"""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import ways_to_server

lockstep = sys.argv[1]
work = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-mlflow-"))
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{free.getsockname()[1]}"
for variable in [name for name in os.environ if name.startswith("MLFLOW_")]:
    del os.environ[variable]
os.environ.update(MLFLOW_DISABLE_TELEMETRY="true", MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false", MLFLOW_SERVER_ALLOWED_HOSTS="*", NO_PROXY="127.0.0.1")


def start_server():
    log = open(work / "server.log", "a")
    server = subprocess.Popen(
        [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", address.rsplit(":", 1)[1], "--workers", "1",
         "--backend-store-uri", f"sqlite:///{work}/mlflow.db", "--default-artifact-root", str(work / "artifacts")],
        stdout=log, stderr=log, start_new_session=True)
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        try:
            if urllib.request.urlopen(address + "/health", timeout=5).status == 200:
                return server
        except OSError:
            assert server.poll() is None, (work / "server.log").read_text()[-3000:]
        time.sleep(0.3)
    raise AssertionError("the server does not answer")


def stop_server(server):
    os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def check(what, found, expected):
    assert found == expected, f"{what}: found {found!r}, expected {expected!r}"
    print(f"ok: {what}")


(work / "corpus.txt").write_text("".join(f"Rank {i} keeps slice {i} of every unit, and no other rank does.\n" for i in range(300)))
(work / "job.yaml").write_text(f"""
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {{name: told}}
spec:
  ranks: 2
  train:
    model:
      config: {{vocab_size: 256, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 2}}
    data: {{train: corpus.txt, validation: corpus.txt, sequenceLength: 64}}
    batch: {{globalBatchSize: 8}}
    steps: 12
    evaluation: {{everySteps: 6}}
    checkpoint: {{everySteps: 4}}
    parallelism: {{strategy: zero3}}
    logging: {{everySteps: 1, mlflow: {{trackingUri: "{address}", experiment: proof, runName: first}}}}
""")


def run(output, *words, status=0, **variables):
    said = subprocess.run([lockstep, "run", "job.yaml", "--output", output, *words], cwd=work, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, env={**os.environ, **variables})
    assert said.returncode == status, (said.returncode, said.stdout[-3000:])


def lines(output):
    return [json.loads(line) for line in (work / output / "metrics.jsonl").read_text().splitlines()]


def told_run(output):
    return client.get_run(json.loads((work / output / "mlflow.json").read_text())["runId"])


def history(run_id, key):
    return [(point.step, point.value) for point in sorted(client.get_metric_history(run_id, key), key=lambda point: point.step)]


def check_metrics(what, output):
    run_id = told_run(output).info.run_id
    for key in ("loss", "grad_norm", "learning_rate", "tokens", "resident_bytes", "validation_loss"):
        expected = [(line["step"], float(line[key])) for line in lines(output) if key in line]
        assert expected, key
        check(f"{what}: {key} of {len(expected)} steps, once each, all digits", history(run_id, key), expected)


server = start_server()
from mlflow.tracking import MlflowClient  # noqa: E402: reads the environment when it is imported

client = MlflowClient(tracking_uri=address)

run("first")
first = told_run("first")
check("name", first.info.run_name, "first")
check("experiment", client.get_experiment(first.info.experiment_id).name, "proof")
check("a run that is done is FINISHED", first.info.status, "FINISHED")
assert 0 < first.info.end_time - first.info.start_time < 600_000, first.info
check_metrics("a run", "first")
check("params", {key: first.data.params[key] for key in ("ranks", "train.batch.globalBatchSize", "train.optimizer.betas")},
      {"ranks": "2", "train.batch.globalBatchSize": "8", "train.optimizer.betas": "[0.9,0.95]"})
check("tags", {key: first.data.tags[key] for key in ("lockstep.job", "lockstep.strategy", "lockstep.ranks")},
      {"lockstep.job": "told", "lockstep.strategy": "zero3", "lockstep.ranks": "2"})

# A run that is stopped, and goes on.
stopping = subprocess.Popen([lockstep, "run", "job.yaml", "--output", "stopped", "--set", "train.steps=4000"], cwd=work,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
deadline = time.monotonic() + 120
while not (work / "stopped/checkpoints/step-8/manifest.json").exists():
    assert time.monotonic() < deadline and stopping.poll() is None
    time.sleep(0.02)
stopping.send_signal(signal.SIGINT)
check("Ctrl-C suspends", stopping.wait(), 130)
stopped = told_run("stopped")
check("a run that is stopped is KILLED", stopped.info.status, "KILLED")
last = lines("stopped")[-1]["step"]
run("stopped", "--set", f"train.steps={last + 5}")
resumed = told_run("stopped")
check("a resume goes on with the same run", resumed.info.run_id, stopped.info.run_id)
check("and finishes it", resumed.info.status, "FINISHED")
check_metrics("a run in two attempts", "stopped")

# A server that dies before a run, and is back for the next attempt.
stop_server(server)
began = time.monotonic()
run("away")
print(f"ok: a run without its server takes {time.monotonic() - began:.1f} s")
assert "mlflow is away" in (work / "away/logs/attempt-0/rank-0.log").read_text()
server = start_server()
run("away", "--resume", "--set", "train.steps=14")
check_metrics("what an attempt could not tell", "away")
check("runs of the experiment", len(client.search_runs([first.info.experiment_id])), 3)

# Through TLS, and through a proxy that alone knows the server's name.
NAME = "mlflow.test"
(work / "tls").mkdir()
authority, certificate, key = ways_to_server.make_certificate(work / "tls", NAME)
plain = int(address.rsplit(":", 1)[1])
secure = ways_to_server.serve_tls(certificate, key, plain)
asked = []
proxy = f"http://127.0.0.1:{ways_to_server.serve_proxy(NAME, asked)}"


def tell(output, uri, **variables):
    run(output, "--set", f'train.logging.mlflow={{trackingUri: "{uri}", experiment: ways}}', "--set", "train.steps=4", **variables)


tell("untrusted", f"https://localhost:{secure}")
assert not (work / "untrusted/mlflow.json").exists()
assert "mlflow is away" in (work / "untrusted/logs/attempt-0/rank-0.log").read_text()
print("ok: a certificate of nobody who is trusted is told nothing, and costs no run")
tell("tls", f"https://localhost:{secure}", SSL_CERT_FILE=str(authority))
check_metrics("through TLS", "tls")
tell("proxy", f"http://{NAME}:{plain}", HTTP_PROXY=proxy)
check_metrics("through a proxy", "proxy")
assert asked and all(one.split(" ")[1].startswith(f"http://{NAME}:{plain}/api/2.0/mlflow/") for one in asked), asked
asked.clear()
tell("tunnel", f"https://{NAME}:{secure}", HTTPS_PROXY=proxy, SSL_CERT_FILE=str(authority))
check_metrics("through a proxy's tunnel with TLS in it", "tunnel")
check("all of it through the tunnel", set(asked), {f"CONNECT {NAME}:{secure}"})

stop_server(server)
print("ok")
