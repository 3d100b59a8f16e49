"""Holds tasks that learn from pairs of answers against TRL.

    preference_parity.py LOCKSTEP SOURCE_TREE [CASE...]

A directory of Transformers with a tokenizer trained here learns pairs for 20 steps, and so it does in TRL's trainers
(fp32). Compared: the tokens and labels of every answer by equality, losses and log-probabilities of the steps,
max|a - b| / max|b| < 1e-4, rewards 1e-3, and the lines of metrics.jsonl and the weights of DDP and ZeRO-3, by equality.
The rows are in the shapes that data have: with a prompt or without one, as texts and as messages.
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
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging
from trl import DPOConfig, DPOTrainer
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

from model_parity import ADAMW, CLIP, COMMON, WEIGHT_DECAY, Report
from sft_parity import rows_of_token_file
from text_parity import HERE, save, split_bytes, strings
from trl_recorder import recorder, settings_of

STEPS, PAIRS = 20, 4  # optimizer steps, pairs of each
BOUND = 1e-4
REWARD_BOUND = 1e-3  # differences, below one, of log-probabilities of a hundred in fp32
LENGTH = 160  # tokens of a prompt and an answer, at most
IGNORED = -100
LORA = dict(rank=4, alpha=8, dropout=0.0)
# Name: shape of the rows, our task and preference, TRL's settings; with adapters or without.
CASES = {
    "dpo": ("messages, no prompt", "dpo", dict(beta=0.3), dict(beta=0.3, loss_type=["sigmoid"]), False),
    "dpo, ipo": ("texts", "dpo", dict(beta=0.5, lossType="ipo"), dict(beta=0.5, loss_type=["ipo"]), False),
    "dpo, hinge": ("messages", "dpo", dict(beta=0.2, lossType="hinge"), dict(beta=0.2, loss_type=["hinge"]), False),
    "dpo, adapters": ("texts, no prompt", "dpo", {}, dict(beta=0.1), True),
    "orpo": ("texts, spaced answers", "orpo", dict(beta=0.4), dict(beta=0.4), False),
}
OURS = ("loss", "reward_chosen", "reward_rejected", "reward_accuracy", "reward_margin", "logps_chosen", "logps_rejected")
THEIRS = ("loss", "rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins", "logps/chosen",
          "logps/rejected")


def said(role, text):
    return dict(role=role, content=text)


def pair(shape, asked, chosen, rejected):
    if shape == "texts":
        return dict(prompt=asked + " ", chosen=chosen, rejected=rejected)
    if shape == "texts, spaced answers":  # TRL's ORPO labels the token of a space as the answer's in one of both only
        return dict(prompt=asked, chosen=" " + chosen, rejected=" " + rejected)
    if shape == "texts, no prompt":
        return dict(chosen=f"\n\nHuman: {asked}\n\nAssistant: {chosen}",
                    rejected=f"\n\nHuman: {asked}\n\nAssistant: {rejected}")
    question, answers = [said("user", asked)], [[said("assistant", text)] for text in (chosen, rejected)]
    if shape == "messages":
        return dict(prompt=question, chosen=answers[0], rejected=answers[1])
    return dict(chosen=question + answers[0], rejected=question + answers[1])


def make_pairs(shape, tokenizer, lines, rng):
    def some():
        return " ".join(rng.choice(lines).split()[:rng.randint(1, 9)]).replace("<", "").strip() or "yes"
    rows = []
    while len(rows) < STEPS * PAIRS:
        row = pair(shape, some(), some(), some())
        if row["chosen"] != row["rejected"] and len(tokenizer(json.dumps(row))["input_ids"]) < LENGTH:
            rows.append(row)
    return rows


def their_lines(task, settings, model, tokenizer, rows, work):
    trainer, config = {"dpo": (DPOTrainer, DPOConfig), "orpo": (ORPOTrainer, ORPOConfig)}[task]
    arguments = config(**settings_of(work, STEPS, PAIRS), logging_steps=1, max_length=LENGTH, **settings)
    trained = recorder(trainer)(model=model, args=arguments, processing_class=tokenizer,
                                train_dataset=Dataset(pyarrow.Table.from_pylist(rows), fingerprint="rows"))
    trained.losses = []
    with contextlib.redirect_stdout(io.StringIO()):  # every step
        trained.train()
    lines = [line for line in trained.state.log_history if "rewards/chosen" in line]
    return trained.train_dataset, [dict(line, loss=loss) for line, loss in zip(lines, trained.losses, strict=True)]


def tokens_and_labels(row):
    """Of TRL's row, as rows of a token file."""
    if "prompt_ids" in row:
        return [(row["prompt_ids"] + answer, [IGNORED] * len(row["prompt_ids"]) + answer)
                for answer in (row["chosen_ids"], row["rejected_ids"])]
    return [(row[f"{name}_input_ids"], row[f"{name}_labels"]) for name in ("chosen", "rejected")]


def run(lockstep, work, strategy, ranks, task, preference, lora):
    job = dict(task=task, model=dict(path=str(work / "model")), tokenizer=dict(type="hf"),
               data=dict(train=str(work / "pairs.jsonl"), sequenceLength=LENGTH, shuffle=False),
               batch=dict(globalBatchSize=PAIRS, microBatchSize=1), steps=STEPS, precision="fp32",
               parallelism=dict(strategy=strategy), schedule=dict(name="constant"), logging=dict(everySteps=1),
               optimizer=dict(lr=ADAMW["lr"], betas=ADAMW["betas"], eps=ADAMW["eps"], weightDecay=WEIGHT_DECAY,
                              gradientClip=CLIP))
    if preference:
        job["preference"] = preference
    if lora:
        job["lora"] = dict(LORA, path=str(work / "adapter"))
    (work / "job.json").write_text(json.dumps(job))
    subprocess.run([lockstep, "run", work / "job.json", "--output", work / strategy, "--set", f"ranks={ranks}"], check=True,
                   stdout=subprocess.DEVNULL)
    return [line.split(', "tokens_per_second"')[0] for line in (work / strategy / "metrics.jsonl").read_text().splitlines()]


def make_model(tokenizer, folder):
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **{
        **COMMON, "vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": LENGTH,
        "initializer_range": 0.1})).save_pretrained(folder)


def save_adapter(work):
    """An adapter that changes the model: it is part of the reference."""
    base = AutoModelForCausalLM.from_pretrained(work / "model", dtype=torch.float32)
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", r=LORA["rank"], lora_alpha=LORA["alpha"],
                                            lora_dropout=0.0, target_modules="all-linear"))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.add_(0.05 * torch.randn_like(parameter))
    model.save_pretrained(work / "adapter")


def compare(lockstep, work, case, lines, rng, report):
    shape, task, preference, settings, lora = CASES[case]
    save(split_bytes, lines, work / "model")
    (work / "model" / "chat_template.jinja").write_text((HERE / "templates" / "llama3.jinja").read_text())
    tokenizer = AutoTokenizer.from_pretrained(work / "model")
    tokenizer.pad_token = "<|end|>"
    rows = make_pairs(shape, tokenizer, lines, rng)
    (work / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    make_model(tokenizer, work / "model")
    if lora:
        save_adapter(work)

    ddp = run(lockstep, work, "ddp", 2, task, preference, lora)
    model = AutoModelForCausalLM.from_pretrained(work / "model", dtype=torch.float32, attn_implementation="eager")
    if lora:
        model = PeftModel.from_pretrained(model, work / "adapter", is_trainable=True)
    data, theirs = their_lines(task, settings, model, tokenizer, rows, work)
    made = rows_of_token_file(next((work / "ddp" / "tokens").glob("*.tokens")))
    report.require("the tokens and labels of every pair", made == [each for row in data for each in tokens_and_labels(row)])
    ours = [json.loads(line + "}") for line in ddp]
    for mine, name in zip(OURS, THEIRS, strict=True):
        a, b = (np.array([line[key] for line in some]) for some, key in ((ours, mine), (theirs, name)))
        report.check(f"{mine}, {b[0]:.4f} to {b[-1]:.4f}", np.abs(a - b).max() / np.abs(b).max(),
                     REWARD_BOUND if "reward" in mine else BOUND)
    report.require("ZeRO-3 on 4 ranks says the same", run(lockstep, work, "zero3", 4, task, preference, lora) == ddp)
    exported = [(work / name / "model" / f"{'adapter_' if lora else ''}model.safetensors").read_bytes()
                for name in ("ddp", "zero3")]
    report.require("ZeRO-3 leaves the same weights", exported[0] == exported[1])


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
    if report.failed:
        sys.exit(f"failed: {report.failed}")


if __name__ == "__main__":
    main(*sys.argv[1:])
