"""Holds reward models against TRL and Transformers.

    reward_parity.py LOCKSTEP SOURCE_TREE [CASE...]

A model for sequence classification with a tokenizer trained here learns pairs for 20 steps, and so it does in TRL's
RewardTrainer (fp32). Compared: the tokens of every answer by equality; losses and rewards of the steps,
max|a - b| / max|b| < 1e-4; the lines of metrics.jsonl and the weights of DDP and ZeRO-3, by equality; and what we export,
which Transformers loads without a missing or an unexpected tensor: its scores of texts, alone and filled up, are those of
TRL's model within 1e-4. A model for text generation begins with a score of its own.
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
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging
from trl import RewardConfig, RewardTrainer

from model_parity import ADAMW, CLIP, COMMON, WEIGHT_DECAY, Report
from preference_parity import LENGTH, PAIRS, STEPS, make_pairs
from sft_parity import rows_of_token_file
from text_parity import HERE, save, split_bytes, strings
from trl_recorder import recorder, settings_of

BOUND = 1e-4
SIZES = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=LENGTH, initializer_range=0.1)
# Name: shape of the rows, family and its fields, our preference, TRL's settings, the token that texts are filled up with.
CASES = {
    "messages": ("messages", "llama", {}, {}, {}, "<|end|>"),
    "texts, centered": ("texts", "qwen2", dict(tie_word_embeddings=True), dict(centerCoefficient=0.1),
                        dict(center_rewards_coefficient=0.1), None),
    "messages, gpt2": ("messages, no prompt", "gpt2", {}, {}, {}, "<|end|>"),
}
OURS = ("loss", "reward_margin", "reward_accuracy")
THEIRS = ("loss", "margin", "accuracy")


def make_model(tokenizer, family, fields, folder, kind=AutoModelForSequenceClassification):
    torch.manual_seed(0)
    sizes = dict(SIZES, **fields)
    if family == "gpt2":
        sizes = dict(n_embd=32, n_inner=48, n_layer=2, n_head=4, n_positions=LENGTH, initializer_range=0.1, embd_pdrop=0.0,
                     resid_pdrop=0.0, attn_pdrop=0.0)
    labels = dict(num_labels=1) if kind is AutoModelForSequenceClassification else {}
    config = AutoConfig.for_model(family, vocab_size=len(tokenizer), **COMMON, **sizes, **labels)
    kind.from_config(config).save_pretrained(folder)


def train_theirs(settings, model, tokenizer, rows, work):
    arguments = RewardConfig(**settings_of(work, STEPS, PAIRS), logging_steps=1, max_length=LENGTH, **settings)
    trained = recorder(RewardTrainer)(model=model, args=arguments, processing_class=tokenizer,
                                      train_dataset=Dataset(pyarrow.Table.from_pylist(rows), fingerprint="rows"))
    trained.losses = []
    with contextlib.redirect_stdout(io.StringIO()):  # every step
        trained.train()
    lines = [line for line in trained.state.log_history if "margin" in line]
    return trained, [dict(line, loss=loss) for line, loss in zip(lines, trained.losses, strict=True)]


def run(lockstep, work, name, ranks, preference, model="model", more=()):
    job = dict(task="reward", model=dict(path=str(work / model)), tokenizer=dict(type="hf", path=str(work / "model")),
               data=dict(train=str(work / "pairs.jsonl"), sequenceLength=LENGTH, shuffle=False),
               batch=dict(globalBatchSize=PAIRS, microBatchSize=1), steps=STEPS, precision="fp32",
               parallelism=dict(strategy=name), schedule=dict(name="constant"), logging=dict(everySteps=1),
               optimizer=dict(lr=ADAMW["lr"], betas=ADAMW["betas"], eps=ADAMW["eps"], weightDecay=WEIGHT_DECAY,
                              gradientClip=CLIP))
    if preference:
        job["preference"] = preference
    (work / "job.json").write_text(json.dumps(job))
    output = work / f"{name}-{model}"
    subprocess.run([lockstep, "run", work / "job.json", "--output", output, "--set", f"ranks={ranks}", *more], check=True,
                   stdout=subprocess.DEVNULL)
    return [line.split(', "tokens_per_second"')[0] for line in (output / "metrics.jsonl").read_text().splitlines()]


def load(folder, report):
    model, told = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32, output_loading_info=True,
                                                                     attn_implementation="eager")
    report.require("Transformers misses no tensor, and finds none too many",
                   not any(told.get(key) for key in ("missing_keys", "unexpected_keys", "mismatched_keys")))
    return model.eval()


@torch.no_grad()
def scores(model, texts, pad):
    """Of texts one by one, then of all of them filled up to the longest."""
    longest = max(map(len, texts))
    alone = [model(input_ids=torch.tensor([text])).logits.item() for text in texts]
    filled = torch.tensor([text + [pad] * (longest - len(text)) for text in texts])
    mask = torch.tensor([[1] * len(text) + [0] * (longest - len(text)) for text in texts])
    return np.array([alone, model(input_ids=filled, attention_mask=mask).logits.squeeze(-1).tolist()])


def compare(lockstep, work, case, lines, rng, report):
    shape, family, fields, preference, settings, pad = CASES[case]
    save(split_bytes, lines, work / "model")
    (work / "model" / "chat_template.jinja").write_text((HERE / "templates" / "llama3.jinja").read_text())
    tokenizer = AutoTokenizer.from_pretrained(work / "model")
    if pad is not None:
        tokenizer.pad_token = pad
    tokenizer.save_pretrained(work / "model")
    rows = make_pairs(shape, tokenizer, lines, rng)
    (work / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    make_model(tokenizer, family, fields, work / "model")

    ddp = run(lockstep, work, "ddp", 2, preference)
    model = AutoModelForSequenceClassification.from_pretrained(work / "model", dtype=torch.float32, num_labels=1,
                                                               attn_implementation="eager")
    trained, theirs = train_theirs(settings, model, tokenizer, rows, work)
    data = trained.train_dataset
    made = rows_of_token_file(next((work / "ddp-model" / "tokens").glob("*.tokens")))
    texts = [ids for row in data for ids in (row["chosen_ids"], row["rejected_ids"])]
    report.require("the tokens of every pair", [ids for ids, _ in made] == texts)
    ours = [json.loads(line + "}") for line in ddp]
    for mine, name in zip(OURS, THEIRS, strict=True):
        a, b = (np.array([line[key] for line in some]) for some, key in ((ours, mine), (theirs, name)))
        report.check(f"{mine}, {b[0]:.4f} to {b[-1]:.4f}", np.abs(a - b).max() / np.abs(b).max(), BOUND)
    report.require("a reward has no log-probability", not any("logps_chosen" in line for line in ours))
    report.require("ZeRO-3 on 4 ranks says the same", run(lockstep, work, "zero3", 4, preference) == ddp)
    exported = [(work / name / "model" / "model.safetensors").read_bytes() for name in ("ddp-model", "zero3-model")]
    report.require("ZeRO-3 leaves the same weights", exported[0] == exported[1])

    loaded = load(work / "ddp-model" / "model", report)
    report.require("it knows the token that texts are filled up with", loaded.config.pad_token_id == tokenizer.pad_token_id)
    mine, other = (scores(each.eval(), texts[:12], tokenizer.pad_token_id) for each in (loaded, trained.model))
    if family == "gpt2":  # pairs tell nothing of the last norm's bias, whose gradient is 0 but for rounding
        mine, other = mine - mine.mean(), other - other.mean()
    report.check(f"scores, {other.min():.3f} to {other.max():.3f}", np.abs(mine - other).max() / np.abs(other).max(), BOUND)


def begin_with_a_text_model(lockstep, work, report):
    """Of the last case: its tokenizer and pairs."""
    tokenizer = AutoTokenizer.from_pretrained(work / "model")
    make_model(tokenizer, "llama", {}, work / "text", AutoModelForCausalLM)
    lines = run(lockstep, work, "zero3", 2, {}, model="text")
    losses = [json.loads(line + "}")["loss"] for line in lines]
    report.require("a model for text learns to tell pairs apart", np.mean(losses[-5:]) < np.mean(losses[:5]))
    load(work / "zero3-text" / "model", report)


def main(lockstep, tree, *cases):
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    report, rng = Report(), random.Random(11)
    lines, _ = strings(Path(tree), rng)
    for case in cases or CASES:
        print(case, flush=True)
        with tempfile.TemporaryDirectory() as work:
            compare(lockstep, Path(work), case, lines, rng, report)
            if case == "messages":
                begin_with_a_text_model(lockstep, Path(work), report)
    if report.failed:
        sys.exit(f"failed: {report.failed}")


if __name__ == "__main__":
    main(*sys.argv[1:])
