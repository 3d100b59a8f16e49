#!/usr/bin/env python3
"""lockstep init as a person uses it: on a terminal, by flags, broken off.   usage: init_test.py BIN_DIR"""
import os
import subprocess
import tempfile

from terminal import LOCKSTEP, Terminal, expect


def lockstep(*arguments):
    return subprocess.run([LOCKSTEP, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)


def whole_conversation():
    terminal = Terminal("init", stdout="stdout")
    terminal.answer("Name of the job [train]: ", "Not_A_Name\n")
    terminal.answer("Name of the job [train]: ", "mine\n")
    terminal.answer("(pretrain | sft | dpo | orpo | reward) [pretrain]: ", "\n")
    terminal.answer("[small]: ", "tiny\n")
    terminal.answer("texts/*.txt: ", b"caf\xe9.txt\n")
    terminal.answer("texts/*.txt: ", "missing.txt\n")
    terminal.answer("texts/*.txt [missing.txt]: ", "corpus.txt\n")
    terminal.answer("Tokens of a sequence [256]: ", "64\n")
    terminal.answer("[2]: ", "\n")
    terminal.answer("[8]: ", "7\n")
    terminal.answer("[8]: ", "\n")
    terminal.answer("Steps [200]: ", "20\n")
    terminal.answer("[runs]: ", "\n")
    expect("a conversation ends well", terminal.end() == 0)
    expect("it said what was wrong with a name", "lower-case" in terminal.shown)
    expect("and that bytes are no text", "these bytes are no UTF-8 text" in terminal.shown)
    expect("and that a file is not there", "nothing here matches 'missing.txt'" in terminal.shown)
    expect("and what is wrong with a batch", "cannot share evenly" in terminal.shown)
    expect("the file is told", open("stdout").read() == "job.yaml\n")
    checked = lockstep("validate", "job.yaml")
    expect("validate accepts it", checked.returncode == 0 and checked.stderr == "")
    expect("with the answers", "8 sequences = 2 ranks" in checked.stdout and "in 20 steps" in checked.stdout)


def replacing():
    before = open("job.yaml").read()
    terminal = Terminal("init", stdout="stdout")
    terminal.answer("Replace it (yes | no) [no]: ", "\n")
    expect("a file is not replaced unasked", terminal.end() == 130 and open("job.yaml").read() == before)
    terminal = Terminal("init", "--data", "corpus.txt", "--name", "again", "--task", "pretrain", "--model", "tiny", "--ranks", "1",
                        "--sequence-length", "64", "--batch", "4", "--claim", "runs", stdout="stdout")
    terminal.answer("Replace it (yes | no) [no]: ", "yes\n")
    terminal.answer("Steps [200]: ", "3\n")
    expect("it is if that was said, and flags are not asked", terminal.end() == 0 and "name: again" in open("job.yaml").read())
    refused = lockstep("init", "--data", "corpus.txt")
    expect("without a terminal it stays", refused.returncode == 1 and "--overwrite" in refused.stderr)
    expect("but for --overwrite", lockstep("init", "--data", "corpus.txt", "--overwrite").returncode == 0)


def breaking_off():
    os.mkdir("empty")
    for name, key in {"Ctrl-D": "\x04", "Ctrl-C": "\x03"}.items():
        for typed in ("", "half an answ"):
            terminal = Terminal("init", "empty/job.yaml", stdout="stdout")
            terminal.answer("[train]: ", "\n")
            # Ctrl-D behind text only hands the text over; the second one ends the input.
            terminal.answer("[pretrain]: ", typed + (key * 2 if typed else key))
            status = terminal.end()
            expect(f"{name} after '{typed}' breaks off", status == 130 and "nothing was written" in terminal.shown)
            expect("and leaves nothing", os.listdir("empty") == [] and open("stdout").read() == "")


def by_flags():
    made = lockstep("init", "flags.yaml", "--data", "corpus.txt", "--model", "tiny", "--ranks", "4", "--steps", "30")
    expect("flags alone make a manifest", made.returncode == 0 and made.stdout == "flags.yaml\n")
    expect("that validate accepts", lockstep("validate", "flags.yaml").returncode == 0)
    printed = lockstep("init", "-", "--data", "corpus.txt", "--model", "tiny", "--ranks", "4", "--steps", "30")
    expect("standard output has the same", printed.stdout == open("flags.yaml").read())
    lacking = lockstep("init", "lacking.yaml")
    expect("a missing answer is named by its flag", lacking.returncode == 2 and "--data" in lacking.stderr)
    wrong = lockstep("init", "wrong.yaml", "--data", "corpus.txt", "--ranks", "none", "--steps", "0")
    expect("all wrong answers are told", wrong.returncode == 3 and "spec.ranks" in wrong.stderr and "spec.train.steps" in wrong.stderr)
    idle = lockstep("init", "idle.yaml", "--data", "corpus.txt", "--weights", "random")
    expect("an answer without a question is refused", idle.returncode == 2 and "--weights" in idle.stderr)
    unwritable = lockstep("init", "/proc/none/job.yaml", "--data", "corpus.txt")
    expect("a file that cannot be written is named", unwritable.returncode == 1 and "/proc/none/job.yaml" in unwritable.stderr)
    expect("none of these left a file", not [name for name in os.listdir(".") if name.split(".")[0] in ("lacking", "wrong", "idle")])


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    with open("corpus.txt", "w") as corpus:
        corpus.write("a corpus\n")
    whole_conversation()
    replacing()
    breaking_off()
    by_flags()
    os.chdir("/")
