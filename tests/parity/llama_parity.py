"""Holds our decoder against Transformers' Llama on the same weights.

    llama_parity.py LLAMA_DUMP

Bounds, all on max|ours - theirs| / max|theirs|: logits (fp32 and fp64 reference), every gradient
(fp64), the losses of 10 AdamW steps with clipping (fp64): 1e-5, the rounding of fp32.
In bf16 the losses of the same steps, against PyTorch's autocast to bf16: 1e-2. Autocast rounds at other places
(rotary embedding, what an operation returns), so each loss differs by about the rounding of bf16, 2^-9.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils import logging

BOUND = 1e-5
BF16_BOUND = 1e-2
STEPS = 10
# As in llama_dump.cc. The rate is one at which the loss falls at every step: where it oscillates (3e-3
# in the last case), each step multiplies the rounding of either side by ten.
ADAMW = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
WEIGHT_DECAY, CLIP = 0.1, 1.0

# A large initializer range makes attention and SwiGLU leave their linear range.
COMMON = dict(tie_word_embeddings=False, bos_token_id=None, eos_token_id=None)
CASES = {
    "odd sizes": (dict(vocab_size=61, hidden_size=48, intermediate_size=40, num_hidden_layers=3,
                       num_attention_heads=6, num_key_value_heads=2, head_dim=8,
                       max_position_embeddings=64, initializer_range=0.2), 2, 37),
    "heads of 32": (dict(vocab_size=256, hidden_size=96, intermediate_size=176, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=1, head_dim=32,
                         max_position_embeddings=256, initializer_range=0.1,
                         rope_parameters=dict(rope_type="default", rope_theta=50000.0)), 2, 100),
    "tied embeddings": (dict(vocab_size=61, hidden_size=48, intermediate_size=40, num_hidden_layers=2,
                             num_attention_heads=6, num_key_value_heads=2, head_dim=8,
                             max_position_embeddings=64, initializer_range=0.2,
                             tie_word_embeddings=True), 2, 37),
    "quickstart-like": (dict(vocab_size=256, hidden_size=128, intermediate_size=352,
                             num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=4,
                             max_position_embeddings=128, initializer_range=0.02), 1, 64),
}


def relative_error(ours, theirs):
    ours, theirs = torch.as_tensor(ours).double(), torch.as_tensor(theirs).detach().double()
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


class Report:
    """Prints each figure beside its bound and remembers whether all held."""

    def __init__(self):
        self.failed = []

    def check(self, what, error, bound=BOUND):
        print(f"  {what}: {error:.2e} (bound {bound:.0e})")
        if not error < bound:
            self.failed.append(what)

    def require(self, what, holds):
        if not holds:
            print(f"  {what}: FAILED")
            self.failed.append(what)


def load(folder, report):
    model, info = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                   output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        report.require(f"no {kind}, found {info[kind]}", not info[kind])
    return model


def logits_of(model, inputs):
    with torch.no_grad():
        return model(input_ids=inputs, use_cache=False).logits


def mean_loss(model, inputs, labels):
    logits = model(input_ids=inputs, use_cache=False).logits
    if logits.dtype == torch.bfloat16:
        logits = logits.float()  # as Transformers' own loss does
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def train_losses(model, inputs, labels):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([dict(params=matrices, weight_decay=WEIGHT_DECAY),
                                   dict(params=vectors, weight_decay=0.0)], **ADAMW)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = mean_loss(model, inputs, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        losses.append(mean_loss(model, inputs, labels).item())
    return losses


def bf16_losses(folder, inputs, labels, report):
    """The same training by PyTorch: fp32 parameters, forward (and so backward) under autocast to bf16."""
    model = load(folder, report)
    # A context per forward: within one context autocast keeps the weights that it has rounded, updates or not.
    plain_forward = model.forward

    def forward(*args, **kwargs):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return plain_forward(*args, **kwargs)

    model.forward = forward
    return train_losses(model, inputs, labels)


def compare(dump, work, fields, batch, seq, report):
    config = LlamaConfig(**{**COMMON, **fields})
    config.save_pretrained(work)
    tokens = torch.randint(config.vocab_size, (batch, seq + 1),
                           generator=torch.Generator().manual_seed(1))
    (work / "tokens.txt").write_text(
        "".join(" ".join(str(t) for t in row) + "\n" for row in tokens.tolist()))
    subprocess.run([dump, work / "config.json", work / "tokens.txt", work], check=True)

    model = load(work / "model", report)
    theta = config.rope_parameters["rope_theta"]
    report.require("rope_theta survives", model.config.rope_parameters["rope_theta"] == theta)
    report.require("no special tokens", model.config.eos_token_id is None)
    inputs, labels = tokens[:, :-1], tokens[:, 1:]
    ours = np.fromfile(work / "logits.f32", np.float32).reshape(batch, seq, config.vocab_size)
    report.check("logits, fp32 reference", relative_error(ours, logits_of(model, inputs)))

    model = model.double()
    report.check("logits, fp64 reference", relative_error(ours, logits_of(model, inputs)))
    our_losses = [float(line) for line in (work / "losses.txt").read_text().split()]
    loss = mean_loss(model, inputs, labels)
    loss.backward()
    report.check("loss", abs(our_losses[0] / loss.item() - 1))
    gradients = load_file(work / "gradients.safetensors")
    parameters = dict(model.named_parameters())
    report.require("the same tensors", gradients.keys() == parameters.keys())
    errors = {name: relative_error(gradients[name], p.grad) for name, p in parameters.items()}
    worst = max(errors, key=errors.get)
    report.check(f"gradients of {len(errors)} tensors, worst {worst}", errors[worst])
    reference = train_losses(model, inputs, labels)
    report.check(f"losses of {STEPS} AdamW steps, {reference[0]:.4f} to {reference[-1]:.4f}",
                 max(abs(a / b - 1) for a, b in zip(our_losses, reference, strict=True)))
    ours = [float(line) for line in (work / "losses_bf16.txt").read_text().split()]
    reference = bf16_losses(work / "model", inputs, labels, report)
    report.check(f"losses of {STEPS} AdamW steps in bf16, {reference[0]:.4f} to {reference[-1]:.4f}",
                 max(abs(a / b - 1) for a, b in zip(ours, reference, strict=True)), BF16_BOUND)
    report.require("bf16 is another computation", ours != our_losses)


def main():
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    report = Report()
    for name, (fields, batch, seq) in CASES.items():
        print(name)
        with tempfile.TemporaryDirectory() as work:
            compare(sys.argv[1], Path(work), fields, batch, seq, report)
    if report.failed:
        sys.exit(f"failed: {report.failed}")


if __name__ == "__main__":
    main()
