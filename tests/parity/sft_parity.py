"""Holds fine-tuning on conversations against Transformers, torch.optim and TRL.

    sft_parity.py LOCKSTEP SOURCE_TREE

A directory of Transformers with a tokenizer trained here and a chat template of templates/ learns conversations for 20
steps. Compared: the tokens and labels that training made of every conversation, with what Transformers' chat template
and its mask of {% generation %} make, by equality; the losses of the steps, with a plain loop over the same batches
(fp64) and with TRL's SFTTrainer (fp32), max|a - b| / max|b| < 1e-4; and the lines of metrics.jsonl and the weights of DDP and ZeRO-3, by equality.
"""
import json
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow
import torch
from datasets import Dataset
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging
from trl import SFTConfig, SFTTrainer

from model_parity import ADAMW, CLIP, COMMON, WEIGHT_DECAY, Report, load
from text_parity import HERE, NOW, TOOLS, FixedTime, chat_template_utils, conversation, save, split_bytes, strings
from trl_recorder import recorder, settings_of

STEPS, ROWS = 20, 4  # optimizer steps, conversations of each
BOUND = 1e-4
IGNORED = -100
LONGEST = 300  # tokens of a conversation: what takes the time


def conversations(tokenizer, texts, rng):
    """Rows that the template takes, with the tokens and labels that Transformers makes of them."""
    found = []
    while len(found) < STEPS * ROWS:
        row = dict(messages=conversation(rng, texts))
        if rng.random() < 0.3:
            row["tools"] = TOOLS
        try:
            made = tokenizer.apply_chat_template(row["messages"], tools=row.get("tools"), tokenize=True, return_dict=True,
                                                 return_assistant_tokens_mask=True)
        except Exception:  # whatever Jinja or Python raises, a template has refused
            continue
        ids, mask = made["input_ids"], made["assistant_masks"]
        if len(ids) <= LONGEST and any(mask[1:]):
            found.append((row, ids, [token if marked else IGNORED for token, marked in zip(ids, mask, strict=True)]))
    return found


def rows_of_token_file(path):
    """Tokens and labels of every document: Note [The token file] in runtime/data/token_file_format.h."""
    data = path.read_bytes()
    width, = struct.unpack_from("<I", data, 12)
    num_tokens, num_documents = struct.unpack_from("<qq", data, 16)
    has_labels, = struct.unpack_from("<I", data, 48)
    assert data[:8] == b"LOCKTOK\n" and has_labels == 1
    labels_at = -(-(4096 + num_tokens * width) // 8) * 8
    documents_at = -(-(labels_at + num_tokens * 4) // 8) * 8
    tokens = np.frombuffer(data, {1: "u1", 2: "<u2", 4: "<u4"}[width], num_tokens, 4096).astype(int)
    labels = np.frombuffer(data, "<i4", num_tokens, labels_at)
    begins = np.frombuffer(data, "<u8", num_documents + 1, documents_at).astype(int)
    return [(tokens[a:b].tolist(), np.where(labels[a:b] < 0, IGNORED, labels[a:b]).tolist())
            for a, b in zip(begins[:-1], begins[1:])]


def run(lockstep, work, strategy, ranks, length):
    job = dict(task="sft", model=dict(path=str(work / "model")), tokenizer=dict(type="hf"),
               data=dict(train=str(work / "chats.jsonl"), sequenceLength=length, shuffle=False),
               batch=dict(globalBatchSize=ROWS, microBatchSize=1), steps=STEPS, precision="fp32",
               parallelism=dict(strategy=strategy), schedule=dict(name="constant"), logging=dict(everySteps=1),
               optimizer=dict(lr=ADAMW["lr"], betas=ADAMW["betas"], eps=ADAMW["eps"], weightDecay=WEIGHT_DECAY,
                              gradientClip=CLIP))
    (work / "job.json").write_text(json.dumps(job))
    (work / strategy / "tokens").mkdir(parents=True)
    (work / strategy / "tokens" / "strftime_now").write_text(f"{NOW}\n")  # as an earlier attempt would have
    subprocess.run([lockstep, "run", work / "job.json", "--output", work / strategy, "--set", f"ranks={ranks}"], check=True,
                   stdout=subprocess.DEVNULL)
    return [line.split(', "tokens_per_second"')[0] for line in (work / strategy / "metrics.jsonl").read_text().splitlines()]


def reference_losses(model, rows):
    optimizer = torch.optim.AdamW([dict(params=[p for p in model.parameters() if p.dim() > 1],
                                        weight_decay=WEIGHT_DECAY),
                                   dict(params=[p for p in model.parameters() if p.dim() == 1], weight_decay=0.0)],
                                  **ADAMW)
    losses = []
    for first in range(0, len(rows), ROWS):
        batch = rows[first:first + ROWS]
        longest = max(len(ids) for _, ids, _ in batch)
        ids = torch.tensor([ids + [0] * (longest - len(ids)) for _, ids, _ in batch])
        labels = torch.tensor([labels + [IGNORED] * (longest - len(labels)) for _, _, labels in batch])
        optimizer.zero_grad()
        loss = model(input_ids=ids, labels=labels, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def trl_losses(model, tokenizer, rows, work):
    arguments = SFTConfig(**settings_of(work, STEPS, ROWS), logging_strategy="no", max_length=None)
    table = pyarrow.Table.from_pylist([dict(input_ids=ids, assistant_masks=[int(label != IGNORED) for label in labels])
                                       for _, ids, labels in rows])
    trained = recorder(SFTTrainer)(model=model, args=arguments, processing_class=tokenizer,
                                   train_dataset=Dataset(table, fingerprint="rows"))
    trained.losses = []
    trained.train()
    return np.array(trained.losses)


def compare(lockstep, work, template, lines, texts, rng, report):
    save(split_bytes, lines, work / "model")
    (work / "model" / "chat_template.jinja").write_text(template.read_text())
    tokenizer = AutoTokenizer.from_pretrained(work / "model")
    rows = conversations(tokenizer, texts, rng)
    (work / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row, _, _ in rows))
    length = max(len(ids) for _, ids, _ in rows)
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **{
        **COMMON, "vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": length,
        "initializer_range": 0.1})).save_pretrained(work / "model")

    ddp = run(lockstep, work, "ddp", 2, length)
    made = rows_of_token_file(next((work / "ddp" / "tokens").glob("*.tokens")))
    theirs = [(ids, labels) for _, ids, labels in rows]
    learned = sum(label != IGNORED for _, labels in theirs for label in labels)
    print(f"  {len(rows)} conversations of up to {length} tokens, {learned} of {sum(len(ids) for ids, _ in theirs)} learned")
    report.require("the tokens and labels of every conversation", made == theirs)
    losses = reference_losses(load(work / "model", report).double(), rows)
    ours = np.array([json.loads(line + "}")["loss"] for line in ddp])
    report.check(f"losses of {STEPS} steps, {losses[0]:.4f} to {losses[-1]:.4f}",
                 np.abs(ours - losses).max() / np.abs(losses).max(), BOUND)
    theirs = trl_losses(load(work / "model", report).float(), tokenizer, rows, work)
    report.check("losses of TRL's SFTTrainer", np.abs(ours - theirs).max() / np.abs(theirs).max(), BOUND)
    report.require("ZeRO-3 on 4 ranks says the same", run(lockstep, work, "zero3", 4, length) == ddp)
    weights = [(work / name / "model" / "model.safetensors").read_bytes() for name in ("ddp", "zero3")]
    report.require("ZeRO-3 leaves the same weights", weights[0] == weights[1])


def main(lockstep, tree):
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    chat_template_utils.datetime = FixedTime
    report, rng = Report(), random.Random(7)
    lines, texts = strings(Path(tree), rng)
    short = [text for text in texts if text.strip() and len(text) < 25]
    for name in ("qwen.jinja", "llama3.jinja"):
        print(name, flush=True)
        with tempfile.TemporaryDirectory() as work:
            compare(lockstep, Path(work), HERE / "templates" / name, lines, short, rng, report)
    if report.failed:
        sys.exit(f"failed: {report.failed}")


if __name__ == "__main__":
    main(*sys.argv[1:])
