"""Holds our decoder against Transformers, every family, on the same weights.

    model_parity.py MODEL_DUMP [CASE...]

Bounds, all on max|ours - theirs| / max|theirs|: logits (fp32 and fp64 reference), every gradient
(fp64), the losses of 10 AdamW steps with clipping (fp64): 1e-5, the rounding of fp32.
In bf16 the losses of the same steps, against PyTorch's autocast to bf16: 1e-2. Autocast rounds at other places
(rotary embedding, what an operation returns), so each loss differs by about the rounding of bf16, 2^-9.
Where tokens choose experts, rounding changes some choices, and a choice is no small change: autocast itself, with only
its router computed in fp32, chooses otherwise in 67 of mixtral's 2442 cases, and its losses change by 1.4e-2; with the
same choices forced on both they change by 3.5e-3. So of these models only the first loss has this bound, those after it
have 5e-2; where all experts are taken nothing can be chosen otherwise, and every loss has it.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging

BOUND = 1e-5
BF16_BOUND = 1e-2
CHOICES_BOUND = 5e-2
STEPS = 10
# As in model_dump.cc. The rate is one at which the loss falls at every step: where it oscillates (3e-3
# in the last case), each step multiplies the rounding of either side by ten.
ADAMW = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
WEIGHT_DECAY, CLIP = 0.1, 1.0

# A large initializer range makes attention and activations leave their linear range.
COMMON = dict(bos_token_id=None, eos_token_id=None, pad_token_id=None)
ODD = dict(vocab_size=61, hidden_size=48, intermediate_size=40, num_hidden_layers=3, num_attention_heads=6,
           num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.2)
HEAD_8 = dict(ODD, head_dim=8)
GEMMA = dict(ODD, head_dim=12, query_pre_attn_scalar=20, sliding_window=13, final_logit_softcapping=2.0,
             attn_logit_softcapping=1.5)


def rope(kind, **fields):
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=10000.0, **fields))


# Name: model_type, fields, batch, tokens of a sequence, lengths of documents (None: a sequence is one).
CASES = {
    "llama, odd sizes": ("llama", HEAD_8, 2, 37, None),
    "llama, heads of 32": ("llama", dict(vocab_size=256, hidden_size=96, intermediate_size=176, num_hidden_layers=2,
                                         num_attention_heads=4, num_key_value_heads=1, head_dim=32,
                                         max_position_embeddings=256, initializer_range=0.1,
                                         rope_parameters=dict(rope_type="default", rope_theta=50000.0)), 2, 100, None),
    "llama, tied embeddings": ("llama", dict(HEAD_8, tie_word_embeddings=True), 2, 37, None),
    "llama, quickstart-like": ("llama", dict(vocab_size=256, hidden_size=128, intermediate_size=352,
                                             num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=4,
                                             max_position_embeddings=128, initializer_range=0.02), 1, 64, None),
    "llama, biases, llama3 rope": ("llama", dict(HEAD_8, attention_bias=True, mlp_bias=True,
                                                 **rope("llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                                        original_max_position_embeddings=32)), 2, 37, None),
    "llama, linear rope": ("llama", dict(HEAD_8, **rope("linear", factor=3.0)), 2, 37, None),
    "llama, yarn rope": ("llama", dict(HEAD_8, **rope("yarn", factor=4.0, original_max_position_embeddings=16)), 2, 37,
                         None),
    "mistral, documents": ("mistral", dict(HEAD_8, sliding_window=11), 1, 67, [5, 30, 1, 31]),
    "mistral, wide window": ("mistral", dict(HEAD_8, sliding_window=70, max_position_embeddings=256), 2, 150, None),
    "qwen2": ("qwen2", ODD, 2, 37, None),
    "qwen2, window": ("qwen2", dict(ODD, use_sliding_window=True, sliding_window=9, max_window_layers=1), 2, 37, None),
    "qwen3": ("qwen3", dict(ODD, head_dim=20), 2, 37, None),
    "mixtral": ("mixtral", dict(HEAD_8, num_local_experts=5, num_experts_per_tok=2, sliding_window=11), 2, 37, None),
    "mixtral, all experts": ("mixtral", dict(HEAD_8, num_local_experts=5, num_experts_per_tok=5), 2, 37, None),
    "qwen3_moe": ("qwen3_moe", dict(ODD, head_dim=20, num_local_experts=7, num_experts_per_tok=3, attention_bias=True,
                                    moe_intermediate_size=24, norm_topk_prob=True), 2, 37, None),
    "qwen3_moe, plain weights": ("qwen3_moe", dict(ODD, num_local_experts=4, num_experts_per_tok=2, sliding_window=9,
                                                   use_sliding_window=True, moe_intermediate_size=24), 2, 37, None),
    "qwen3_moe, all experts": ("qwen3_moe", dict(ODD, num_local_experts=4, num_experts_per_tok=4,
                                                 moe_intermediate_size=24), 1, 61, [20, 41]),
    "granite": ("granite", dict(ODD, attention_multiplier=0.2, embedding_multiplier=3.0, residual_multiplier=0.6,
                                logits_scaling=1.7, tie_word_embeddings=True), 2, 37, None),
    "olmo2": ("olmo2", ODD, 2, 37, None),
    "phi3": ("phi3", dict(ODD, sliding_window=10, rope_parameters=dict(rope_type="default", rope_theta=10000.0,
                                                                       partial_rotary_factor=0.5)), 2, 37, None),
    "gpt2, documents": ("gpt2", dict(vocab_size=61, n_embd=48, n_inner=40, n_layer=3, n_head=4, n_positions=64,
                                     initializer_range=0.2, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0),
                        1, 61, [20, 41]),
    "gpt2, exact gelu": ("gpt2", dict(vocab_size=61, n_embd=48, n_inner=56, n_layer=2, n_head=4, n_positions=64, initializer_range=0.2,
                                      activation_function="gelu", attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0),
                         2, 37, None),
    "gemma2": ("gemma2", GEMMA, 2, 37, None),
    "gemma3, exact gelu": ("gemma3_text", dict({**GEMMA, "attn_logit_softcapping": None}, hidden_activation="gelu"), 2, 37,
                           None),
    "gemma3": ("gemma3_text", dict({**GEMMA, "attn_logit_softcapping": None}, num_hidden_layers=4, layer_types=["sliding_attention", "full_attention"] * 2,
                                   rope_parameters=dict(full_attention=dict(rope_type="linear", factor=2.0,
                                                                            rope_theta=50000.0),
                                                        sliding_attention=dict(rope_type="default",
                                                                               rope_theta=10000.0))), 2, 37, None),
}
# What a directory says of files, generation and versions, and not of the computation.
NOT_COMPARED = {"architectures", "dtype", "transformers_version", "_name_or_path", "max_window_layers", "head_dim",
                "use_cache", "bos_token_id", "eos_token_id", "pad_token_id", "sliding_window_pattern",
                "_sliding_window_pattern"}


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
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                       experts_implementation="eager", output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        report.require(f"no {kind}, found {info[kind]}", not info[kind])
    return model


def logits_of(model, batch):
    with torch.no_grad():
        return model(input_ids=batch.inputs, position_ids=batch.positions, use_cache=False).logits


def mean_loss(model, batch):
    logits = model(input_ids=batch.inputs, position_ids=batch.positions, use_cache=False).logits
    if logits.dtype == torch.bfloat16:
        logits = logits.float()  # as Transformers' own loss does
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.labels.flatten())


def train_losses(model, batch):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([dict(params=matrices, weight_decay=WEIGHT_DECAY),
                                   dict(params=vectors, weight_decay=0.0)], **ADAMW)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = mean_loss(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        losses.append(mean_loss(model, batch).item())
    return losses


def bf16_losses(folder, batch, report):
    """The same training by PyTorch: fp32 parameters, forward (and so backward) under autocast to bf16."""
    model = load(folder, report)
    # A context per forward: within one context autocast keeps the weights that it has rounded, updates or not.
    plain_forward = model.forward

    def forward(*args, **kwargs):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return plain_forward(*args, **kwargs)

    model.forward = forward
    return train_losses(model, batch)


class Batch:
    def __init__(self, vocab, rows, seq, documents):
        self.tokens = torch.randint(vocab, (rows, seq + 1), generator=torch.Generator().manual_seed(1))
        self.inputs, self.labels = self.tokens[:, :-1], self.tokens[:, 1:]
        self.starts = np.cumsum([0] + documents[:-1]).tolist() if documents else []
        # Without a mask, Transformers takes positions that begin again for documents of a packed sequence.
        self.positions = torch.cat([torch.arange(n) for n in documents])[None] if documents else None

    def write(self, path):
        lines = [" ".join(("| " if i in self.starts else "") + str(t) for i, t in enumerate(row))
                 for row in self.tokens.tolist()]
        path.write_text("\n".join(lines) + "\n")


def gradients_by_file(model):
    """Gradients by the names of tensors in files: in memory, Transformers keeps the experts of a layer in one tensor."""
    names = {"mixtral": ("block_sparse_moe", "w1", "w3", "w2")}
    stem, gate, up, down = names.get(model.config.model_type, ("mlp", "gate_proj", "up_proj", "down_proj"))
    gradients = {}
    for name, parameter in model.named_parameters():
        layer, _, rest = name.partition(".mlp.")
        if rest == "gate.weight":
            gradients[f"{layer}.{stem}.gate.weight"] = parameter.grad
        elif rest == "experts.gate_up_proj":
            for i, both in enumerate(parameter.grad):
                for part, gradient in zip((gate, up), both.chunk(2)):
                    gradients[f"{layer}.{stem}.experts.{i}.{part}.weight"] = gradient
        elif rest == "experts.down_proj":
            for i, gradient in enumerate(parameter.grad):
                gradients[f"{layer}.{stem}.experts.{i}.{down}.weight"] = gradient
        else:
            gradients[name] = parameter.grad
    return gradients


def compare(dump, work, case, report):
    model_type, fields, rows, seq, documents = case
    config = AutoConfig.for_model(model_type, **{**COMMON, **fields})
    config.save_pretrained(work)
    batch = Batch(config.vocab_size, rows, seq, documents)
    batch.write(work / "tokens.txt")
    subprocess.run([dump, work / "config.json", work / "tokens.txt", work], check=True)

    model = load(work / "model", report)
    theirs, ours = config.to_dict(), model.config.to_dict()
    changed = {k: (theirs[k], ours.get(k)) for k in theirs.keys() - NOT_COMPARED if theirs[k] != ours.get(k)}
    ignored = {"rope_parameters"} if "yarn" in str(theirs.get("rope_parameters")) else set()
    report.require(f"the config survives, found {changed}", not changed.keys() - ignored)
    report.require("no special tokens", model.config.eos_token_id is None)
    ours = np.fromfile(work / "logits.f32", np.float32).reshape(rows, seq, config.vocab_size)
    report.check("logits, fp32 reference", relative_error(ours, logits_of(model, batch)))

    model = model.double()
    report.check("logits, fp64 reference", relative_error(ours, logits_of(model, batch)))
    our_losses = [float(line) for line in (work / "losses.txt").read_text().split()]
    loss = mean_loss(model, batch)
    loss.backward()
    report.check("loss", abs(our_losses[0] / loss.item() - 1))
    gradients = load_file(work / "gradients.safetensors")
    expected = gradients_by_file(model)
    report.require("the same tensors", gradients.keys() == expected.keys())
    errors = {name: relative_error(gradients[name], gradient) for name, gradient in expected.items()}
    worst = max(errors, key=errors.get)
    report.check(f"gradients of {len(errors)} tensors, worst {worst}", errors[worst])
    reference = train_losses(model, batch)
    report.check(f"losses of {STEPS} AdamW steps, {reference[0]:.4f} to {reference[-1]:.4f}",
                 max(abs(a / b - 1) for a, b in zip(our_losses, reference, strict=True)))
    ours = [float(line) for line in (work / "losses_bf16.txt").read_text().split()]
    reference = bf16_losses(work / "model", batch, report)
    chooses = getattr(config, "num_experts_per_tok", 0) < getattr(config, "num_local_experts", 0)
    report.check("first loss in bf16", abs(ours[0] / reference[0] - 1), BF16_BOUND)
    report.check(f"losses of {STEPS} AdamW steps in bf16, {reference[0]:.4f} to {reference[-1]:.4f}",
                 max(abs(a / b - 1) for a, b in zip(ours, reference, strict=True)),
                 CHOICES_BOUND if chooses else BF16_BOUND)
    report.require("bf16 is another computation", ours != our_losses)


def main():
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    report = Report()
    wanted = sys.argv[2:] or CASES
    for name in wanted:
        print(name, flush=True)
        with tempfile.TemporaryDirectory() as work:
            compare(sys.argv[1], Path(work), CASES[name], report)
    if report.failed:
        sys.exit(f"failed: {report.failed}")


if __name__ == "__main__":
    main()
