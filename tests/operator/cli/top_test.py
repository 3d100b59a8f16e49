#!/usr/bin/env python3
"""lockstep top on a terminal and piped, on folders as runs leave them.   usage: top_test.py BIN_DIR"""
import fcntl
import json
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import time

from terminal import LOCKSTEP, PATIENCE_S, Terminal, expect


def lockstep(*arguments):
    return subprocess.run([LOCKSTEP, "top", *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)


def log_step(folder, step):
    with open(f"{folder}/metrics.jsonl", "a") as metrics:
        metrics.write(json.dumps({"step": step, "loss": 6 - step / 10, "tokens_per_second": 100 + step, "step_seconds": 1}) + "\n")


def run_folder(name):
    os.makedirs(f"runs/{name}/logs")
    with open(f"runs/{name}/run.json", "w") as run:
        run.write('{"run": "c53871de"}\n')
    with open(f"runs/{name}/logs/{name}-0.json", "w") as job:
        json.dump({"name": name, "ranks": 2, "train": {"steps": 40}}, job)
    log_step(f"runs/{name}", 1)
    return f"runs/{name}"


def on_a_terminal(end):
    """What is shown until `7/40` was, and what then brings the end."""
    child, fd = pty.fork()
    if child == 0:
        os.execv(LOCKSTEP, ["lockstep", "top", "--every", "0.1"])
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 100, 0, 0))
    shown, stepped, ended = "", False, False
    while True:
        if not select.select([fd], [], [], PATIENCE_S)[0]:
            expect(f"something new after: {shown}", False)
        try:
            text = os.read(fd, 65536).decode(errors="replace")
        except OSError:
            break
        if not text:
            break
        shown += text
        if not stepped and "1/40" in shown:
            log_step("runs/live", 7)
            stepped = True
        if stepped and not ended and "7/40" in shown:
            os.write(fd, end)
            ended = True
    os.close(fd)
    return shown, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def pausing():
    """Ctrl-Z, and `fg`."""
    terminal = Terminal("top", "--every", "0.1")
    while "1/40" not in terminal.shown:
        terminal.read()
    os.write(terminal.fd, b"\x1a")
    _, status = os.waitpid(terminal.child, os.WUNTRACED)
    expect("Ctrl-Z stops it", os.WIFSTOPPED(status))
    while not terminal.shown.endswith("\x1b[?1049l"):
        terminal.read()
    expect("with the terminal as it was", termios.tcgetattr(terminal.fd)[3] & (termios.ICANON | termios.ECHO) == termios.ICANON | termios.ECHO)
    before = terminal.shown.count("1/40")
    os.kill(terminal.child, signal.SIGCONT)
    while terminal.shown.count("1/40") == before:
        terminal.read()
    expect("fg shows it again on a screen of its own", terminal.shown.count("\x1b[?1049h") == 2)
    os.write(terminal.fd, b"q")
    expect("and it ends as ever", terminal.end() == 0 and terminal.shown.endswith("\x1b[?1049l"))


def kubeconfig(port, user):
    with open("config", "w") as config:
        config.write(f"""apiVersion: v1
kind: Config
clusters: [{{name: mute, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: me, user: {json.dumps(user)}}}]
contexts: [{{name: mute, context: {{cluster: mute, user: me}}}}]
current-context: mute
""")


def ends_at_once(what, key, begun):
    """Typed once begun() has returned, `key` ends a look at the cluster that would not end by itself."""
    terminal = Terminal("top", "--cluster", "--kubeconfig", "config")
    begun()
    began = time.monotonic()
    os.write(terminal.fd, key)
    status = terminal.end()
    took = time.monotonic() - began
    expect(f"{key} ends it at once while {what} hangs ({took:.1f} s)", status == 0 and took < 5)
    expect("with the terminal as it was", terminal.shown.endswith("\x1b[?1049l"))


def hanging():
    """A server that takes the request and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.settimeout(PATIENCE_S)
        kubeconfig(server.getsockname()[1], {})
        connections = []

        def asked():
            connections.append(server.accept()[0])
            connections[-1].settimeout(PATIENCE_S)
            expect("it asks", b"trainingjobs" in connections[-1].recv(65536))

        for key in b"q", b"\x03":
            ends_at_once("a request", key, asked)
        for connection in connections:
            connection.close()


def hanging_plugin():
    """A credential plugin that says that it runs and never ends: q takes its processes with it."""
    os.mkfifo("runs.fifo")
    script = "echo $$ > runs.fifo; sleep 600"
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "command": "sh", "args": ["-c", script]}
    kubeconfig(1, {"exec": plugin})
    plugins = []

    def started():
        with open("runs.fifo") as fifo:
            plugins.append(int(fifo.read()))

    ends_at_once("a credential plugin", b"q", started)
    expect("the plugin has ended too", not os.path.exists(f"/proc/{plugins[0]}"))


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    none = lockstep()
    expect("without runs it says what to do", none.returncode == 3 and "--cluster" in none.stderr)
    live = run_folder("live")
    lock = open(f"{live}/.lock", "w")
    run_folder("dead")
    os.mkdir("runs/other")
    once = lockstep()
    rows = {line.split()[0]: line.split()[1] for line in once.stdout.splitlines() if line.startswith("runs/")}
    expect("piped it is one table, of the folders that are runs", once.returncode == 0 and rows == {"runs/live": "Killed", "runs/dead": "Killed"})
    fcntl.flock(lock, fcntl.LOCK_EX)
    rows = {line.split()[0]: line.split()[1] for line in lockstep().stdout.splitlines() if line.startswith("runs/")}
    expect("a run that somebody is at work in runs", rows == {"runs/live": "Running", "runs/dead": "Killed"})
    expect("no escape sequences are piped", "\x1b" not in once.stdout)
    expect("a folder that is named and is no run is told", lockstep("runs/other").returncode == 3)
    for name, key in {"q": b"q", "Ctrl-C": b"\x03", "Ctrl-\\": b"\x1c"}.items():
        os.remove("runs/live/metrics.jsonl")
        log_step("runs/live", 1)
        shown, status = on_a_terminal(key)
        expect(f"on a terminal it follows, until {name}", status == 0 and "7/40" in shown)
        expect("on a screen of its own, which it leaves", shown.startswith("\x1b[?1049h") and shown.endswith("\x1b[?1049l"))
    os.remove("runs/live/metrics.jsonl")
    log_step("runs/live", 1)
    pausing()
    hanging()
    hanging_plugin()
    os.chdir("/")
