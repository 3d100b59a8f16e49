"""Holds distillation against TRL and torch.

    distill_parity.py LOCKSTEP SOURCE_TREE

A small model learns conversations from a larger one of another family for 20 steps, both directories of Transformers
with a tokenizer trained here. With the teacher alone at temperature 1 that is what TRL's GKDTrainer does off-policy with
its beta at 0 (the divergence of the student from the teacher), over the tokens and labels of our token file; a mix with
the labels at another temperature TRL does not have, so that is held against a plain loop of Transformers and torch.
Compared (fp32; the loop in fp64): losses of the steps, max|a - b| / max|b| < 1e-4; the lines of metrics.jsonl and the
weights of DDP and ZeRO-3, by equality.
"""
import contextlib
import io
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow
import torch
from datasets import Dataset
from torch.nn import functional as F
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging
from trl.experimental.gkd import GKDConfig, GKDTrainer

from model_parity import ADAMW, CLIP, COMMON, WEIGHT_DECAY, Report
from preference_parity import said
from sft_parity import rows_of_token_file
from text_parity import HERE, save, split_bytes, strings
from trl_recorder import recorder, settings_of

STEPS, ROWS = 20, 4  # optimizer steps, conversations of each
BOUND = 1e-4
LENGTH = 160
IGNORED = -100
SIZES = dict(num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=LENGTH, initializer_range=0.1)
STUDENT = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, **SIZES)
TEACHER = dict(hidden_size=48, intermediate_size=64, num_hidden_layers=3, tie_word_embeddings=True, **SIZES)


def make_model(family, tokenizer, sizes, seed, folder):
    torch.manual_seed(seed)
    AutoModelForCausalLM.from_config(
        AutoConfig.for_model(family, **{**COMMON, "vocab_size": len(tokenizer), **sizes})).save_pretrained(folder)


def load(folder, dtype):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager")


def conversations(tokenizer, lines, rng):
    def some():
        return " ".join(rng.choice(lines).split()[:rng.randint(1, 9)]).replace("<", "").strip() or "yes"
    rows = []
    while len(rows) < STEPS * ROWS:
        row = dict(prompt=[said("user", some())], completion=[said("assistant", some())])
        if len(tokenizer(json.dumps(row))["input_ids"]) < LENGTH:
            rows.append(row)
    return rows


def run(lockstep, work, name, strategy, ranks, distill):
    job = dict(task="distill", model=dict(path=str(work / "model")), tokenizer=dict(type="hf"),
               data=dict(train=str(work / "chats.jsonl"), sequenceLength=LENGTH, shuffle=False),
               batch=dict(globalBatchSize=ROWS, microBatchSize=1), steps=STEPS, precision="fp32",
               distill=dict(teacher=str(work / "teacher"), **distill), parallelism=dict(strategy=strategy),
               schedule=dict(name="constant"), logging=dict(everySteps=1),
               optimizer=dict(lr=ADAMW["lr"], betas=ADAMW["betas"], eps=ADAMW["eps"], weightDecay=WEIGHT_DECAY,
                              gradientClip=CLIP))
    (work / "job.json").write_text(json.dumps(job))
    subprocess.run([lockstep, "run", work / "job.json", "--output", work / name, "--set", f"ranks={ranks}"], check=True,
                   stdout=subprocess.DEVNULL)
    return [line.split(', "tokens_per_second"')[0] for line in (work / name / "metrics.jsonl").read_text().splitlines()]


def batch_of(rows):
    longest = max(len(row["input_ids"]) for row in rows)

    def filled(key, value):
        return torch.tensor([row[key] + [value] * (longest - len(row[key])) for row in rows])
    masks = torch.tensor([[1] * len(row["input_ids"]) + [0] * (longest - len(row["input_ids"])) for row in rows])
    return dict(input_ids=filled("input_ids", 0), labels=filled("labels", IGNORED), attention_mask=masks)


def losses_of_trl(rows, tokenizer, work):
    arguments = GKDConfig(**settings_of(work, STEPS, ROWS), logging_steps=1, max_length=LENGTH, lmbda=0.0, beta=0.0,
                          temperature=1.0, seq_kd=False)
    trainer = recorder(GKDTrainer)(model=load(work / "model", torch.float32), args=arguments, data_collator=batch_of,
                                   teacher_model=load(work / "teacher", torch.float32), processing_class=tokenizer,
                                   train_dataset=Dataset(pyarrow.Table.from_pylist(rows), fingerprint="rows"))
    trainer.losses = []
    with contextlib.redirect_stdout(io.StringIO()):  # every step
        trainer.train()
    return np.array(trainer.losses)


def losses_of_torch(rows, work, alpha, temperature):
    model, teacher = (load(work / name, torch.float64) for name in ("model", "teacher"))
    teacher.eval()
    optimizer = torch.optim.AdamW([dict(params=[p for p in model.parameters() if p.dim() > 1],
                                        weight_decay=WEIGHT_DECAY),
                                   dict(params=[p for p in model.parameters() if p.dim() == 1], weight_decay=0.0)],
                                  **ADAMW)
    losses = []
    for first in range(0, len(rows), ROWS):
        batch = batch_of(rows[first:first + ROWS])
        labels = batch.pop("labels")[:, 1:]
        learned = labels != IGNORED
        own = model(**batch, use_cache=False).logits[:, :-1][learned]
        with torch.no_grad():
            told = teacher(**batch, use_cache=False).logits[:, :-1][learned]
        divergence = F.kl_div(F.log_softmax(own / temperature, -1), F.log_softmax(told / temperature, -1),
                              reduction="batchmean", log_target=True)
        loss = (1 - alpha) * F.cross_entropy(own, labels[learned]) + alpha * temperature ** 2 * divergence
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def compare(lockstep, work, lines, rng, report):
    for name in ("model", "teacher"):
        save(split_bytes, lines, work / name)
        (work / name / "chat_template.jinja").write_text((HERE / "templates" / "llama3.jinja").read_text())
    tokenizer = AutoTokenizer.from_pretrained(work / "model")
    tokenizer.pad_token = "<|end|>"
    (work / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in conversations(tokenizer, lines, rng)))
    make_model("llama", tokenizer, STUDENT, 0, work / "model")
    make_model("qwen2", tokenizer, TEACHER, 1, work / "teacher")

    def check(what, lines, losses):
        ours = np.array([json.loads(line + "}")["loss"] for line in lines])
        report.check(f"{what}, {losses[0]:.4f} to {losses[-1]:.4f}", np.abs(ours - losses).max() / np.abs(losses).max(), BOUND)

    alone = run(lockstep, work, "alone", "zero3", 2, dict(alpha=1, temperature=1))
    made = rows_of_token_file(next((work / "alone" / "tokens").glob("*.tokens")))
    rows = [dict(input_ids=ids, labels=labels) for ids, labels in made]
    report.require("every conversation is a row", len(rows) == STEPS * ROWS)
    check("the teacher alone, beside TRL's GKD", alone, losses_of_trl(rows, tokenizer, work))

    mixed = dict(alpha=0.7, temperature=3)
    ddp = run(lockstep, work, "ddp", "ddp", 2, mixed)
    check("mixed, beside a plain loop", ddp, losses_of_torch(rows, work, **mixed))
    report.require("ZeRO-3 on 4 ranks says the same", run(lockstep, work, "zero3", "zero3", 4, mixed) == ddp)
    exported = [(work / name / "model" / "model.safetensors").read_bytes() for name in ("ddp", "zero3")]
    report.require("ZeRO-3 leaves the same weights", exported[0] == exported[1])


def main(lockstep, tree):
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    report, rng = Report(), random.Random(11)
    lines, _ = strings(Path(tree), rng)
    with tempfile.TemporaryDirectory() as work:
        compare(lockstep, Path(work), lines, rng, report)
    if report.failed:
        sys.exit(f"failed: {report.failed}")


if __name__ == "__main__":
    main(*sys.argv[1:])
