"""Holds our optimizers against torch.optim on the same weights and gradients.

    optimizer_parity.py OPTIMIZER_DUMP

Every case runs STEPS steps with changing rates and clip factors; a third of the weights do not
decay. Bound, on max|ours - theirs| / max|theirs| of the weights after every step: 1e-6, the
rounding of fp32 weights of size 1 against torch's optimizer in float64. Beside it stands what
torch's own fp32 differs from its float64.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

BOUND = 1e-6
STEPS, ELEMS, DECAY_BEGIN = 30, 3001, 1000

ADAM = dict(betas=(0.8, 0.99), eps=1e-6)
CASES = {
    "AdamW": (torch.optim.AdamW, dict(ADAM, weight_decay=0.1)),
    "Adam": (torch.optim.Adam, dict(ADAM)),
    "Adam, L2": (torch.optim.Adam, dict(ADAM, weight_decay=0.1)),
    "SGD": (torch.optim.SGD, dict()),
    "SGD, L2": (torch.optim.SGD, dict(weight_decay=0.1)),
    "SGD, momentum": (torch.optim.SGD, dict(momentum=0.9, weight_decay=0.1)),
    "SGD, Nesterov": (torch.optim.SGD, dict(momentum=0.9, weight_decay=0.1, nesterov=True)),
}
FIELDS = dict(weight_decay="weightDecay")  # torch's name -> ours, where they differ


def our_fields(kind, settings):
    fields = {FIELDS.get(name, name): value for name, value in settings.items()}
    return dict(fields, name=kind.__name__.lower(), weightDecayOn="all")


def run_torch(kind, settings, dtype, weights, gradients, rates, scales):
    """Weights after each step: [STEPS, ELEMS]."""
    plain = torch.nn.Parameter(weights[:DECAY_BEGIN].to(dtype, copy=True))
    decaying = torch.nn.Parameter(weights[DECAY_BEGIN:].to(dtype, copy=True))
    optimizer = kind([dict(params=[plain], weight_decay=0.0), dict(params=[decaying])],
                     lr=1.0, **settings)
    results = []
    for gradient, rate, scale in zip(gradients, rates, scales, strict=True):
        scaled = gradient.to(dtype) * scale
        plain.grad, decaying.grad = scaled[:DECAY_BEGIN].clone(), scaled[DECAY_BEGIN:].clone()
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        results.append(torch.cat([plain.detach(), decaying.detach()]).double())
    return torch.stack(results)


def relative_error(ours, theirs):
    return ((ours - theirs).abs().amax(dim=1) / theirs.abs().amax(dim=1)).max().item()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    weights = torch.randn(ELEMS)
    gradients = torch.randn(STEPS, ELEMS) * torch.logspace(-4, 1, ELEMS)
    rates = [1e-3 * (step % 7 + 1) for step in range(STEPS)]
    # Exact in fp32, so that both sides scale by the same factor.
    scales = [1.0 / (1 << step % 3) for step in range(STEPS)]
    failed = []
    for name, (kind, settings) in CASES.items():
        theirs = run_torch(kind, settings, torch.float64, weights, gradients, rates, scales)
        torch32 = run_torch(kind, settings, torch.float32, weights, gradients, rates, scales)
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            weights.numpy().tofile(work / "weights.f32")
            gradients.numpy().tofile(work / "gradients.f32")
            (work / "case.json").write_text(json.dumps(dict(
                optimizer=our_fields(kind, settings), steps=STEPS, elems=ELEMS,
                decay_begin=DECAY_BEGIN, lr=rates, gradient_scale=scales)))
            subprocess.run([sys.argv[1], folder], check=True)
            result = np.fromfile(work / "result.f32", np.float32).reshape(STEPS, ELEMS)
        ours = torch.from_numpy(result).double()
        error = relative_error(ours, theirs)
        print(f"  {name}: {error:.2e} (bound {BOUND:.0e}; torch in fp32 "
              f"{relative_error(torch32, theirs):.2e}, ours against it "
              f"{relative_error(ours, torch32):.2e})")
        moved = relative_error(weights.double()[None], theirs[-1:])
        if not error < BOUND or not moved > 1000 * BOUND:
            failed.append(name)
    if failed:
        sys.exit(f"failed: {failed}")


if __name__ == "__main__":
    main()
