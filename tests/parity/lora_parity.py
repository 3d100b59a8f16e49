"""Holds training of adapters against PEFT and torch.optim.

    lora_parity.py LOCKSTEP MODEL_DUMP [CASE...]

PEFT puts adapters beside a directory of Transformers, every one away from zero, and saves them. We go on from them
(`lora.path`) for 15 AdamW steps. Compared, relative to the largest: our logits of PEFT's adapter with PEFT's (fp64),
the losses of the steps with a plain loop over PEFT's model (fp64), every tensor that we export with what the loop leaves, and the
logits of our export in PEFT with ours: 1e-5, the tensors 1e-4. DDP and ZeRO-3 export the same bytes, and a merge is what
merge_and_unload() makes.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers.utils import logging

from model_parity import ADAMW, CASES, CLIP, WEIGHT_DECAY, Batch, Report, load, logits_of, relative_error
from pretrained_parity import run, save_directory

STEPS, ROWS = 15, 2  # optimizer steps, sequences of each
TENSOR_BOUND = 1e-4  # 15 updates, each divided by the root of a second moment
# Case of model_parity, our settings, PEFT's.
ADAPTERS = {
    "llama, biases, llama3 rope": (dict(rank=4, alpha=10), dict(r=4, lora_alpha=10, target_modules="all-linear")),
    "llama, tied embeddings": (dict(rank=3, alpha=4, useRslora=True, targets=["q_proj", "v_proj", "down_proj"]),
                               dict(r=3, lora_alpha=4, use_rslora=True,
                                    target_modules=["q_proj", "v_proj", "down_proj"])),
    "phi3": (dict(rank=4, alpha=8), dict(r=4, lora_alpha=8, target_modules="all-linear")),
    "gpt2, documents": (dict(rank=4, alpha=8), dict(r=4, lora_alpha=8, target_modules="all-linear",
                                                    fan_in_fan_out=True)),
    "gemma2": (dict(rank=2, alpha=2, targets=["mlp.up_proj", "o_proj"]),
               dict(r=2, lora_alpha=2, target_modules=["mlp.up_proj", "o_proj"])),
    "mixtral, all experts": (dict(rank=4, alpha=8), dict(r=4, lora_alpha=8, target_modules=["q_proj", "k_proj",
                                                                                          "v_proj", "o_proj"])),
}


def save_adapter(base, folder, settings):
    torch.manual_seed(1)
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.0, **settings))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:  # zeros
                parameter.add_(0.05 * torch.randn_like(parameter))
    model.save_pretrained(folder)


def reference_losses(model, tokens):
    model.double()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, weight_decay=WEIGHT_DECAY, **ADAMW)
    losses = []
    for batch in tokens.split(ROWS):
        optimizer.zero_grad()
        loss = model(input_ids=batch, labels=batch, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, CLIP)
        optimizer.step()
        losses.append(loss.item())
    return losses


def our_logits(dump, work, name, base, adapter, batch, vocab, seq):
    batch.write(work / "tokens.txt")
    (work / name).mkdir()
    subprocess.run([dump, base / "config.json", work / "tokens.txt", work / name, base, *([adapter] if adapter else [])],
                   check=True)
    return np.fromfile(work / name / "logits.f32", np.float32).reshape(ROWS, seq, vocab)


def peft_logits(base, adapter, batch, report):
    return logits_of(PeftModel.from_pretrained(load(base, report), adapter).double().eval(), batch)


def compare(lockstep, dump, work, case, report):
    ours, theirs = ADAPTERS[case]
    base, adapter = work / "base", work / "adapter"
    vocab, seq = save_directory(base, CASES[case], "float32", "5GB")
    save_adapter(load(base, report), adapter, theirs)
    batch = Batch(vocab, ROWS, seq, None)
    report.check("our logits of PEFT's adapter", relative_error(
        our_logits(dump, work, "given", base, adapter, batch, vocab, seq), peft_logits(base, adapter, batch, report)))

    tokens = torch.randint(vocab, (STEPS * ROWS, seq), generator=torch.Generator().manual_seed(2))
    (work / "rows.jsonl").write_text("".join(json.dumps(dict(input_ids=row)) + "\n" for row in tokens.tolist()))
    lora = dict(ours, dropout=0.0, path=str(adapter))
    lines = run(lockstep, work, "zero3", base, seq, steps=STEPS, lora=lora)
    run(lockstep, work, "ddp", base, seq, steps=STEPS, lora=lora, parallelism=dict(strategy="ddp"))
    run(lockstep, work, "merged", base, seq, steps=STEPS, lora=dict(lora, merge=True))
    peft = PeftModel.from_pretrained(load(base, report), adapter, is_trainable=True)
    losses = reference_losses(peft, tokens)
    found = [line["loss"] for line in lines if "loss" in line]
    report.check(f"losses of {STEPS} steps, {losses[0]:.4f} to {losses[-1]:.4f}",
                 max(abs(a / b - 1) for a, b in zip(found, losses, strict=True)))

    name = "adapter_model.safetensors"
    exported = load_file(work / "zero3" / "model" / name)
    trained = {key.replace(".default", ""): value for key, value in peft.state_dict().items() if "lora_" in key}
    report.require(f"the same tensors, found {exported.keys() ^ trained.keys()}", exported.keys() == trained.keys())
    report.check("exported tensors", max(relative_error(exported[key], trained[key]) for key in trained), TENSOR_BOUND)
    report.require("DDP exports the same bytes",
                   (work / "ddp" / "model" / name).read_bytes() == (work / "zero3" / "model" / name).read_bytes())
    report.check("PEFT's logits of our adapter", relative_error(
        our_logits(dump, work, "exported", base, work / "zero3" / "model", batch, vocab, seq),
        peft_logits(base, work / "zero3" / "model", batch, report)))
    merged = PeftModel.from_pretrained(load(base, report), work / "zero3" / "model").double().merge_and_unload()
    report.check("our merge", relative_error(logits_of(load(work / "merged" / "model", report).double(), batch),
                                             logits_of(merged, batch)))


def main():
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    report = Report()
    for case in sys.argv[3:] or ADAPTERS:
        print(case, flush=True)
        with tempfile.TemporaryDirectory() as work:
            compare(sys.argv[1], sys.argv[2], Path(work), case, report)
    if report.failed:
        sys.exit(f"failed: {report.failed}")


if __name__ == "__main__":
    main()
