#!/usr/bin/env python3
"""From nothing to a model that speaks, on a terminal: init, validate, run, report, export, generate.   usage: journey_test.py BIN_DIR"""
import json
import os
import tempfile

from terminal import Terminal, expect


def shows(what, *arguments):
    """What `lockstep ARGUMENTS` shows on a terminal, if it ends well."""
    terminal = Terminal(*arguments)
    status = terminal.end()
    if status != 0:
        print(terminal.shown)
    expect(what, status == 0)
    return terminal.shown


def journey():
    terminal = Terminal("init")
    terminal.answer("Name of the job [train]: ", "first\n")
    terminal.answer("(pretrain | sft | dpo | orpo | reward) [pretrain]: ", "\n")
    terminal.answer("[small]: ", "tiny\n")
    terminal.answer("texts/*.txt: ", "corpus.txt\n")
    terminal.answer("Tokens of a sequence [256]: ", "64\n")
    terminal.answer("[2]: ", "\n")
    terminal.answer("[8]: ", "\n")
    terminal.answer("Steps [200]: ", "30\n")
    terminal.answer("[runs]: ", "\n")
    expect("init asks and ends well", terminal.end() == 0)
    expect("and names its file", terminal.shown.endswith("job.yaml\r\n"))

    checked = shows("validate accepts what init wrote", "validate", "job.yaml")
    expect("with the answers", "8 sequences = 2 ranks" in checked and "in 30 steps" in checked)

    ran = shows("run ends well", "run", "job.yaml")
    expect("it shows a line of progress that it overwrites", "/30" in ran and "\r" in ran.replace("\r\n", ""))
    expect("and where the model is", "runs/first/model" in ran)
    with open("runs/first/metrics.jsonl") as metrics:
        losses = [json.loads(line)["loss"] for line in metrics]
    expect("the loss falls", losses[-1] < losses[0])
    expect("the curve's end is what was shown", f"{losses[-1]:.4f} (step 30)" in ran)

    shows("report ends well", "report", "runs/first", "--prompt", "line 7 ")
    with open("runs/first/report.html") as report:
        page = report.read()
    expect("the page is of this run and finished", "<title>first - finished</title>" in page)
    expect("with what the model says", "<pre>line 7 " in page)

    shows("export ends well", "export", "runs/first", "--output", "exported")
    with open("runs/first/model/model.safetensors", "rb") as model, open("exported/model.safetensors", "rb") as exported:
        expect("the last checkpoint is the run's model, to the byte", model.read() == exported.read())

    told = ["--prompt", "line 7 ", "--tokens", "40", "--temperature", "0"]
    said = shows("generate ends well", "generate", "--model", "exported", *told)
    expect("it goes on from the prompt", said.startswith("line 7 ") and len(said) > len("line 7 "))
    expect("and says the same again", said == shows("generate ends well again", "generate", "--model", "runs/first/model", *told))


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    with open("corpus.txt", "w") as corpus:
        corpus.writelines(f"line {i} of a corpus that a small model can learn, again and again\n" for i in range(400))
    journey()
    os.chdir("/")
