#!/usr/bin/env python3
"""lockstep chat as a person uses it: on a terminal, piped, refused.   usage: chat_test.py BIN_DIR"""
import json
import os
import pty
import select
import subprocess
import sys
import tempfile

BIN = os.path.abspath(sys.argv[1])
LOCKSTEP = os.path.join(BIN, "lockstep")
PATIENCE_S = 60
# Bytes of two- and three-byte characters, as byte-level BPE spells them: whatever the model says is rarely whole characters.
LETTERS = ["\u00c3", "\u00a4", "\u00ea", "\u00ae", "\u00ab", "a", "b", "\u0120"]


def expect(what, holds):
    if not holds:
        print("FAILED:", what)
        sys.exit(1)
    print("ok:", what)


def chat(*arguments, said=b""):
    return subprocess.run([LOCKSTEP, "chat", *arguments], input=said, capture_output=True)


def make_run(template):
    """A model that has learned nothing, and never ends its answer."""
    os.makedirs("tokenizer", exist_ok=True)
    with open("tokenizer/tokenizer.json", "w") as file:
        json.dump({"version": "1.0", "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
                   "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
                   "model": {"type": "BPE", "vocab": {letter: i for i, letter in enumerate(LETTERS)}, "merges": []}}, file)
    with open("tokenizer/chat_template.jinja", "w") as file:
        file.write(template)
    with open("corpus.txt", "w") as file:
        file.write("ab a b " * 200)
    job = {"model": {"config": {"vocab_size": 256, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
                                "num_attention_heads": 4, "max_position_embeddings": 65536}},
           "tokenizer": {"type": "hf", "path": "tokenizer"}, "data": {"train": "corpus.txt", "sequenceLength": 16},
           "batch": {"globalBatchSize": 1}, "steps": 1}
    with open("job.json", "w") as file:
        json.dump(job, file)
    subprocess.run([LOCKSTEP, "run", "job.json", "--output", "run"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Terminal:
    """lockstep chat on a terminal of its own."""

    def __init__(self, *arguments):
        self.child, self.fd = pty.fork()
        if self.child == 0:
            os.execv(LOCKSTEP, ["lockstep", "chat", *arguments])
        self.bytes = b""

    def read(self):
        if not select.select([self.fd], [], [], PATIENCE_S)[0]:
            expect(f"something new after: {self.bytes[-300:]}", False)
        try:
            more = os.read(self.fd, 65536)
        except OSError:  # EIO: nobody has the other end
            return False
        self.bytes += more
        return more != b""

    def type_at(self, shown, keys):
        """Types `keys` once `shown` has appeared since the last keys."""
        while shown not in self.bytes:
            if not self.read():
                expect(f"{shown} in {self.bytes[-300:]}", False)
        self.bytes = self.bytes.split(shown, 1)[1] if shown else b""
        os.write(self.fd, keys)

    def end(self):
        while self.read():
            pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])


def on_a_terminal():
    # More than a terminal holds unread, so that the answer cannot be over before it is stopped.
    terminal = Terminal("run", "--max-new-tokens", "60000", "--context", "65536", "--temperature", "1")
    terminal.type_at(b"Ctrl-D leaves.", b"")
    for _ in range(3):  # a write that Ctrl-C cuts short takes nothing from the next answer
        terminal.type_at(b"> ", b"a b\n")
        terminal.type_at(b"a b\r\n", b"")
        while len(terminal.bytes) < 40:  # of the answer
            if not terminal.read():
                expect("an answer", False)
        terminal.type_at(b"", b"\x03")
        terminal.type_at(b"(stopped)", b"")
    terminal.type_at(b"> ", b"half a line\x03")
    terminal.type_at(b"> ", b"not\xff\n")
    terminal.type_at(b"UTF-8", b"")
    terminal.type_at(b"> ", b"\x04")
    expect("Ctrl-C stops the answer or the line, a line that is not UTF-8 is refused, Ctrl-D leaves", terminal.end() == 0)


def piped():
    told = chat("run", "--max-new-tokens", "200", "--temperature", "1.5", said="a\n\nb a".encode())
    text = told.stdout.decode()  # throws if it is not UTF-8
    expect("piped it answers every line and ends with the input", told.returncode == 0 and text.count("\n") == 2)
    expect("characters are whole, those that never became complete are U+FFFD", "\u00e4" in text and "\ufffd" in text)
    expect("the same seed says the same", chat("run", "--max-new-tokens", "200", "--temperature", "1.5", said=b"a\n\nb a").stdout == told.stdout)
    expect("another seed does not", chat("run", "--max-new-tokens", "200", "--temperature", "1.5", "--seed", "1", said=b"a\n\nb a").stdout != told.stdout)
    expect("no prompts are piped", b"> " not in told.stderr and b"\x1b" not in told.stdout)
    first = chat("run", "--max-new-tokens", "20", "--temperature", "0", said=b"b\n").stdout
    expect("the system message is part of it", chat("run", "--max-new-tokens", "20", "--temperature", "0", "--system", "a a a a", said=b"b\n").stdout != first)
    full = chat("run", "--max-new-tokens", "5", "--context", "60", said=b"a a a a a\n" * 9)
    expect("so is what was said before", full.returncode == 78 and 1 < full.stdout.count(b"\n") < 9 and b"there is room for 60" in full.stderr)


def refused():
    broken = chat("run", said=b"not\xff\n")
    expect("a line that is not UTF-8 is refused", broken.returncode == 78 and "the message is not UTF-8: not\ufffd" in broken.stderr.decode())
    broken = chat("run", "--system", b"\xff")
    expect("so is such a system message", broken.returncode == 78 and b"the system message is not UTF-8" in broken.stderr)
    long = chat("run", "--context", "30", said=b"a " * 40 + b"\n")
    expect("a dialogue that has no room is refused", long.returncode == 78 and b"there is room for 30" in long.stderr)
    os.rename("run/model/chat_template.jinja", "template")
    bare = chat("run", said=b"a\n")
    expect("a model without a template is refused", bare.returncode == 78 and b"no chat template" in bare.stderr and b"hint: " in bare.stderr)
    os.rename("template", "run/model/chat_template.jinja")
    os.rename("run/model/tokenizer.json", "tokens")
    expect("so is one of bytes", b"no tokenizer.json" in chat("run").stderr)
    os.rename("tokens", "run/model/tokenizer.json")
    os.rename("run/model", "gone")
    expect("a run without a model is told to be exported", b"lockstep export run" in chat("run").stderr)
    os.rename("gone", "run/model")
    with open("run/model/chat_template.jinja", "w") as file:
        file.write("{{ raise_exception('only one question') }}")
    expect("a template's own words are told", b"only one question" in chat("run", said=b"a\n").stderr)


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    make_run("{% for m in messages %}{{ m.role[0] + m.content }} {% endfor %}{% if add_generation_prompt %}b{% endif %}")
    piped()
    on_a_terminal()
    refused()
    os.chdir("/")
