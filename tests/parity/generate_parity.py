"""Holds `lockstep generate` against Transformers' generate(), every family, on the same weights and prompts.

    generate_parity.py LOCKSTEP MODEL_DUMP [CASE...]

Greedy: the tokens of 50 prompts by equality, up to an end of text or 24 new ones; a word is a token, so that equal texts
are equal tokens. Sampling: which tokens are possible behind TemperatureLogitsWarper, TopKLogitsWarper and TopPLogitsWarper
by equality, their probabilities within 1e-6.
"""
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper
from transformers.utils import logging

from model_parity import CASES, Report, load
from pretrained_parity import DIRECTORIES, save_directory

PROMPTS, NEW_TOKENS = 50, 24
END = 7  # eos_token_id of save_directory()
PROBABILITY_BOUND = 1e-6
SAMPLINGS = [dict(temperature=temperature, top_k=top_k, top_p=top_p)
             for temperature in (0.3, 1.0, 2.5) for top_k in (0, 1, 5, 400) for top_p in (0.0, 0.2, 0.9, 1.0)]


def save_words(folder, vocab):
    words = {f"w{i}": i for i in range(vocab)}
    (folder / "tokenizer.json").write_text(json.dumps(dict(
        version="1.0", pre_tokenizer=dict(type="WhitespaceSplit"), model=dict(type="WordLevel", unk_token="w0", vocab=words))))


def compare_greedy(lockstep, work, name, report):
    case, dtype, shard_size = DIRECTORIES[name]
    vocab, _ = save_directory(work / "model", CASES[case], dtype, shard_size)
    save_words(work / "model", vocab)
    draw = random.Random(3)
    prompts = [[draw.randrange(vocab) for _ in range(draw.randint(1, 30))] for _ in range(PROMPTS)]
    (work / "prompts").write_text("".join(" ".join(f"w{i}" for i in prompt) + "\n" for prompt in prompts))
    said = subprocess.run([lockstep, "generate", "--model", work / "model", "--prompts", work / "prompts", "--temperature", "0",
                           "--max-new-tokens", str(NEW_TOKENS)], check=True, capture_output=True, text=True).stdout
    found = [[int(word[1:]) for word in json.loads(line)["text"].split()] for line in said.splitlines()]
    model = load(work / "model", report).double()
    differ, ended = [], 0
    for prompt, ours in zip(prompts, found, strict=True):
        theirs = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=NEW_TOKENS, pad_token_id=0,
                                attention_mask=torch.ones(1, len(prompt), dtype=torch.long))[0].tolist()
        if theirs[-1] == END and len(theirs) > len(prompt):
            theirs.pop()
            ended += 1
        differ += [prompt] if ours != theirs else []
    print(f"  {PROMPTS} prompts, {ended} of them to an end of text, {sum(map(len, found))} tokens: {len(differ)} differ")
    report.require(f"{name}: equal tokens", not differ)
    return ended


def compare_sampling(dump, work, report):
    torch.manual_seed(4)
    rows = [3 * torch.randn(300, dtype=torch.float32) for _ in range(20)]
    lines = [dict(sampling, logits=row.tolist()) for row in rows for sampling in SAMPLINGS]
    (work / "logits.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = subprocess.run([dump, "sampling", work / "logits.jsonl"], check=True, capture_output=True, text=True).stdout
    found = [json.loads(line) for line in said.splitlines()]
    same, error = True, 0.0
    for line, ours in zip(lines, found, strict=True):
        warpers = LogitsProcessorList([TemperatureLogitsWarper(line["temperature"])])
        if line["top_k"] > 0:
            warpers.append(TopKLogitsWarper(line["top_k"]))
        if line["top_p"] < 1:
            warpers.append(TopPLogitsWarper(line["top_p"]))
        theirs = torch.softmax(warpers(None, torch.tensor([line["logits"]], dtype=torch.float64)), -1)[0]
        ours = torch.tensor(ours, dtype=torch.float64)
        same = same and bool(((ours > 0) == (theirs > 0)).all())
        error = max(error, (ours - theirs).abs().max().item())
    report.require(f"the same {len(lines)} sets of possible tokens", same)
    report.check("probabilities", error, PROBABILITY_BOUND)


def main():
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    report = Report()
    with tempfile.TemporaryDirectory() as work:
        compare_sampling(sys.argv[2], Path(work), report)
    ended = 0
    for name in sys.argv[3:] or DIRECTORIES:
        print(name, flush=True)
        with tempfile.TemporaryDirectory() as work:
            ended += compare_greedy(sys.argv[1], Path(work), name, report)
    report.require("some texts end by themselves", ended > 0)
    if report.failed:
        sys.exit(f"failed: {report.failed}")


if __name__ == "__main__":
    main()
