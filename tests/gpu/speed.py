"""Tokens/s of training on one GPU beside PyTorch's, with the same weights, rows, batch and optimizer.

    speed.py RUNTIME [--models SIZE,...] [--precisions fp32,bf16] [--peers eager,compile] [--steps N]

RUNTIME is lockstep-runtime, with liblockstep-cuda.so beside it. The peer is Transformers' Llama under torch, as an expert sets it up: fp32 weights,
autocast for bf16, scaled_dot_product_attention, fused AdamW, no TF32 in fp32, since ours has none. It reads the first
weights that ours exports. Prints a table and the losses' largest difference; fails if the losses do not agree. MFU is of an H100.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

#         hidden layers heads kv  ff    vocab length micro-batch
SIZES = {
    "10M": (256, 6, 4, 4, 704, 8192, 512, 16),
    "120M": (768, 12, 12, 12, 2048, 32000, 1024, 8),
    "350M": (1024, 24, 16, 8, 2816, 32000, 1024, 8),
    "1B": (2048, 20, 32, 8, 5632, 32000, 2048, 4),
}
PEAK = {"fp32": 67e12, "bf16": 989e12}  # NVIDIA H100 SXM, dense: the data sheet


def config_of(size):
    hidden, layers, heads, kv, ff, vocab, length, _ = SIZES[size]
    return {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": vocab, "hidden_size": hidden,
            "intermediate_size": ff, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv, "max_position_embeddings": length, "tie_word_embeddings": False}


def job_of(size, precision, rows, steps, **train):
    length, micro_batch = SIZES[size][6:]
    job = {"model": {"init": "random", "config": config_of(size)},
           "data": {"train": rows, "sequenceLength": length, "packing": False, "shuffle": False},
           "batch": {"globalBatchSize": micro_batch, "microBatchSize": micro_batch},
           "steps": steps, "precision": precision,
           "optimizer": {"name": "adamw", "lr": 1e-4, "weightDecayOn": "all"},
           "schedule": {"name": "constant"}, "logging": {"everySteps": 1, "peakFlopsPerRank": PEAK[precision]}}
    job.update(train)
    return {"name": "speed", "ranks": 1, "train": job}


def run_ours(runtime, folder, job):
    os.makedirs(folder)
    path = os.path.join(folder, "job.json")
    with open(path, "w") as file:
        json.dump(job, file)
    output = os.path.join(folder, "out")
    env = dict(os.environ, LOCKSTEP_DEVICE="cuda", RANK="0", WORLD_SIZE="1", LOCKSTEP_JOB=path, LOCKSTEP_OUTPUT=output,
               LOCKSTEP_METRICS_PORT="0", LOCKSTEP_LISTEN_ADDRESS="127.0.0.1",
               LOCKSTEP_TERMINATION_MESSAGE=os.path.join(folder, "end"))
    ended = subprocess.run([runtime], env=env, capture_output=True, text=True)
    if ended.returncode != 0:
        sys.exit(f"speed.py: the runtime ended with {ended.returncode}:\n{ended.stdout[-2000:]}{ended.stderr[-3000:]}")
    with open(os.path.join(output, "metrics.jsonl")) as file:
        return [json.loads(line) for line in file], output


def run_peer(kind, precision, folder, rows, micro_batch, steps):
    import torch
    from transformers import AutoModelForCausalLM
    torch.backends.cuda.matmul.allow_tf32 = False
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa").cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)
    forward = torch.compile(model) if kind == "compile" else model
    with open(rows) as file:
        data = [json.loads(line)["input_ids"] for line in file]
    losses, seconds = [], []
    torch.cuda.synchronize()
    for step in range(steps):
        began = time.perf_counter()
        ids = torch.tensor(data[step * micro_batch:(step + 1) * micro_batch]).cuda()
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            logits = forward(input_ids=ids, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - began)
    return {"losses": losses, "seconds": seconds, "peak": torch.cuda.max_memory_allocated()}


def compare(arguments, size, precision, work):
    length, micro_batch = SIZES[size][6:]
    steps = arguments.steps
    rows = os.path.join(work, "rows.jsonl")
    random.seed(1)
    with open(rows, "w") as file:
        for _ in range(micro_batch * steps):
            ids = [random.randrange(32, 96) for _ in range(length)]
            file.write(json.dumps({"input_ids": ids}) + "\n")
    frozen = {"optimizer": {"name": "adamw", "lr": 0, "weightDecayOn": "all"}}
    _, first = run_ours(arguments.runtime, os.path.join(work, f"{size}-{precision}-first"),
                        job_of(size, precision, rows, 1, **frozen))
    lines, _ = run_ours(arguments.runtime, os.path.join(work, f"{size}-{precision}"),
                        job_of(size, precision, rows, steps, export={"atEnd": False}))
    half = lines[steps // 2:]
    tokens = micro_batch * length
    ours = tokens / statistics.median(line["step_seconds"] for line in half)
    share = statistics.median(line.get("mfu", 0) for line in half)
    tflops = statistics.median(line["flops_per_second"] for line in half) / 1e12
    parts = {key[:-8]: round(1e3 * statistics.median(line[key] for line in half), 2) for key in half[0]
             if key in ("data_seconds", "forward_seconds", "backward_seconds", "communication_seconds", "optimizer_seconds")}
    print(f"{size:>5} {precision} lockstep {ours:10.0f} tokens/s {tflops:7.1f} TFLOP/s MFU {share:.3f} "
          f"peak {half[-1]['buffer_peak_bytes'] / 2**30:.2f} GiB  ms {parts}", flush=True)
    for kind in arguments.peers.split(",") if arguments.peers else []:
        code = ("import json,sys; sys.path.insert(0, %r); import speed; print(json.dumps(speed.run_peer(*%r)))"
                % (os.path.dirname(os.path.abspath(__file__)), (kind, precision, first + "/model", rows, micro_batch, steps)))
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        if ended.returncode != 0:
            print(f"{size:>5} {precision} {kind}: failed: {ended.stderr[-600:]}", flush=True)
            continue
        peer = json.loads(ended.stdout.strip().splitlines()[-1])
        theirs = tokens / statistics.median(peer["seconds"][steps // 2:])
        apart = max(abs(line["loss"] - loss) for line, loss in zip(lines, peer["losses"])) / max(peer["losses"])
        print(f"{size:>5} {precision} {kind:>8} {theirs:10.0f} tokens/s {tflops * theirs / ours:7.1f} TFLOP/s "
              f"peak {peer['peak'] / 2**30:.2f} GiB  ratio {ours / theirs:.2f}  losses apart {apart:.1e}", flush=True)
        if apart > (2e-4 if precision == "fp32" else 2e-2):
            sys.exit("speed.py: the losses do not agree: nothing is compared")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("runtime")
    parser.add_argument("--models", default="10M,120M,350M")
    parser.add_argument("--precisions", default="bf16,fp32")
    parser.add_argument("--peers", default="eager")
    parser.add_argument("--steps", type=int, default=12)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        for size in arguments.models.split(","):
            for precision in arguments.precisions.split(","):
                compare(arguments, size, precision, work)


if __name__ == "__main__":
    main()
