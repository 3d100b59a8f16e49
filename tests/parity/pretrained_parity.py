"""Holds training that begins with a directory of Transformers against Transformers itself.

    pretrained_parity.py LOCKSTEP MODEL_DUMP [CASE...]

Every family is saved by save_pretrained (some sharded, in 16 bits or tied), read by us, trained for some steps, and
exported. Bounds, relative to the largest: logits of the weights as read and the losses of the steps 1e-5 (fp64
reference). An export after a step with a rate of 0 has the bytes that were read, and training goes on from our own
export with the digits of the run that wrote it. `export` makes the same files of the last checkpoint.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging

from model_parity import ADAMW, CASES, CLIP, COMMON, WEIGHT_DECAY, Batch, Report, load, logits_of, relative_error

STEPS, ROWS = 3, 2  # optimizer steps, sequences of each
# Name: case of model_parity, type of the weights, most bytes of a file.
DIRECTORIES = {
    "llama": ("llama, biases, llama3 rope", "float32", "40KB"),
    "llama, tied": ("llama, tied embeddings", "bfloat16", "5GB"),
    "mistral": ("mistral, documents", "bfloat16", "20KB"),
    "qwen2": ("qwen2, window", "float32", "5GB"),
    "qwen3": ("qwen3", "float16", "5GB"),
    "mixtral": ("mixtral", "bfloat16", "40KB"),
    "qwen3_moe": ("qwen3_moe", "float32", "5GB"),
    "granite": ("granite", "float32", "5GB"),
    "olmo2": ("olmo2", "bfloat16", "5GB"),
    "phi3": ("phi3", "float32", "30KB"),
    "gpt2": ("gpt2, documents", "float32", "5GB"),
    "gemma2": ("gemma2", "float32", "5GB"),
    "gemma3": ("gemma3", "bfloat16", "5GB"),
}


def save_directory(folder, case, dtype, shard_size):
    model_type, fields, _, seq, _ = case
    config = AutoConfig.for_model(model_type, **{**COMMON, **fields, "eos_token_id": 7})
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases away from ones and zeros
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    model.to(getattr(torch, dtype)).save_pretrained(folder, max_shard_size=shard_size)
    (folder / "tokenizer.json").write_text("{}")  # its data comes as tokens
    return config.vocab_size, min(seq, config.max_position_embeddings)


def run(lockstep, work, name, model, seq, **train):
    """Trains from the directory `model` on work/rows.jsonl; returns the lines of metrics.jsonl."""
    rows = str(work / "rows.jsonl")
    job = dict(model=dict(path=str(model)),
               data=dict(train=rows, validation=rows, format="tokens", sequenceLength=seq, shuffle=False,
                         packing=False),
               batch=dict(globalBatchSize=ROWS, microBatchSize=1), steps=STEPS, precision="fp32",
               parallelism=dict(strategy="zero3"), schedule=dict(name="constant"), logging=dict(everySteps=1),
               optimizer=dict(lr=ADAMW["lr"], betas=ADAMW["betas"], eps=ADAMW["eps"], weightDecay=WEIGHT_DECAY,
                              gradientClip=CLIP))
    for key, value in train.items():
        job[key] = {**job[key], **value} if isinstance(value, dict) and key in job else value
    (work / "job.json").write_text(json.dumps(job))
    subprocess.run([lockstep, "run", work / "job.json", "--output", work / name, "--set", "ranks=2"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return [json.loads(line) for line in (work / name / "metrics.jsonl").read_text().splitlines()]


def reference_losses(model, tokens):
    """Losses of the steps, and of all rows after them."""
    optimizer = torch.optim.AdamW([dict(params=[p for p in model.parameters() if p.dim() > 1],
                                        weight_decay=WEIGHT_DECAY),
                                   dict(params=[p for p in model.parameters() if p.dim() == 1], weight_decay=0.0)],
                                  **ADAMW)
    losses = []
    for batch in tokens.split(ROWS):
        optimizer.zero_grad()
        loss = model(input_ids=batch, labels=batch, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        return losses, model(input_ids=tokens, labels=tokens, use_cache=False).loss.item()


def tensors_of(folder):
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        tensors.update(load_file(path))
    return tensors


def compare_logits(dump, work, vocab, seq, report):
    batch = Batch(vocab, ROWS, seq, None)
    batch.write(work / "tokens.txt")
    (work / "dump").mkdir()
    subprocess.run([dump, work / "theirs" / "config.json", work / "tokens.txt", work / "dump", work / "theirs"],
                   check=True)
    ours = np.fromfile(work / "dump" / "logits.f32", np.float32).reshape(ROWS, seq, vocab)
    report.check("logits", relative_error(ours, logits_of(load(work / "theirs", report).double(), batch)))


def compare_exports(lockstep, work, report):
    """`export` of the last checkpoint, beside what the run itself has left."""
    own = work / "trained" / "model"
    for name, flags in {"whole": [], "rounded": ["--dtype", "bf16", "--step", str(STEPS)]}.items():
        subprocess.run([lockstep, "export", work / "trained", "--output", work / name, *flags], check=True,
                       stdout=subprocess.DEVNULL)
        load(work / name, report)
    for file in own.iterdir():
        report.require(f"export has the run's {file.name}", (work / "whole" / file.name).read_bytes() == file.read_bytes())
    whole, rounded = tensors_of(work / "whole"), tensors_of(work / "rounded")
    report.require("bf16 is rounded as torch rounds", rounded.keys() == whole.keys() and all(
        torch.equal(rounded[name], whole[name].to(torch.bfloat16)) for name in whole))


def compare(lockstep, dump, work, directory, report):
    case, dtype, shard_size = directory
    theirs = work / "theirs"
    vocab, seq = save_directory(theirs, CASES[case], dtype, shard_size)
    report.require("sharded as asked", len(list(theirs.glob("*.safetensors"))) > 1 or shard_size == "5GB")
    compare_logits(dump, work, vocab, seq, report)

    tokens = torch.randint(vocab, (STEPS * ROWS, seq), generator=torch.Generator().manual_seed(2))
    (work / "rows.jsonl").write_text("".join(json.dumps(dict(input_ids=row)) + "\n" for row in tokens.tolist()))
    lines = run(lockstep, work, "trained", theirs, seq)
    losses, last = reference_losses(load(theirs, report).double(), tokens)
    ours = [line["loss"] for line in lines if "loss" in line]
    report.check(f"losses of {STEPS} steps, {losses[0]:.4f} to {losses[-1]:.4f}",
                 max(abs(a / b - 1) for a, b in zip(ours, losses, strict=True)))
    validation = [line["validation_loss"] for line in lines if "validation_loss" in line][-1]
    report.check("loss after them", abs(validation / last - 1))

    compare_exports(lockstep, work, report)

    short = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}[dtype]
    run(lockstep, work, "still", theirs, seq, steps=1, optimizer=dict(lr=0.0), export=dict(dtype=short))
    before, after = tensors_of(theirs), tensors_of(work / "still" / "model")
    report.require(f"the same tensors, found {before.keys() ^ after.keys()}", before.keys() == after.keys())
    changed = [name for name in before if name in after and (before[name].dtype != after[name].dtype or
               before[name].view(torch.uint8).ne(after[name].view(torch.uint8)).any())]
    report.require(f"the same bytes, changed {changed}", not changed)
    exported = load(work / "still" / "model", report)
    report.require("the special ids survive", exported.config.eos_token_id == 7)

    again = run(lockstep, work, "again", work / "trained" / "model", seq, steps=1, optimizer=dict(lr=0.0))
    report.require("our export goes on with the same digits", again[-1]["validation_loss"] == validation)


def main():
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    report = Report()
    for name in sys.argv[3:] or DIRECTORIES:
        print(name, flush=True)
        with tempfile.TemporaryDirectory() as work:
            compare(sys.argv[1], sys.argv[2], Path(work), DIRECTORIES[name], report)
    if report.failed:
        sys.exit(f"failed: {report.failed}")


if __name__ == "__main__":
    main()
