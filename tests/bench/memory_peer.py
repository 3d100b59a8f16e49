"""One rank of a PyTorch training, set up as an expert would for little memory: the peer of memory.sh.

    memory_peer.py ddp | fsdp2 | accelerate | zero1 | zero2 | zero3 | import  MODEL_FOLDER ROWS STEPS MICRO_BATCH RATE

RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun sets them, LOCAL_RANK and LOCAL_SIZE as deepspeed does. ROWS has
one list of token ids a line; a step takes the next WORLD_SIZE * MICRO_BATCH of them, rank by rank. Prints as its last line
{"losses": [..], "peak": bytes}. `import` only imports torch. Transformers, which Accelerate and DeepSpeed import where
it is installed, is hidden from them: it would add about 170 MiB.
"""
import json
import os
import sys

import torch


def peak_bytes():
    """VmHWM: ru_maxrss survives exec, so a rank would report its parent's."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


class Layer(torch.nn.Module):
    def __init__(self, hidden, ff, heads, eps):
        super().__init__()
        linear = lambda n, m: torch.nn.Linear(n, m, bias=False)
        self.heads = heads
        self.self_attn = torch.nn.ModuleDict({f"{name}_proj": linear(hidden, hidden) for name in "qkvo"})
        self.mlp = torch.nn.ModuleDict({"gate_proj": linear(hidden, ff), "up_proj": linear(hidden, ff),
                                        "down_proj": linear(ff, hidden)})
        self.input_layernorm = torch.nn.RMSNorm(hidden, eps=eps)
        self.post_attention_layernorm = torch.nn.RMSNorm(hidden, eps=eps)

    def forward(self, x, cos, sin):
        y = self.input_layernorm(x)
        q, k, v = (self.self_attn[f"{name}_proj"](y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for name in "qkv")
        turn = lambda t: t * cos + torch.cat((-t[..., t.shape[-1] // 2:], t[..., :t.shape[-1] // 2]), -1) * sin
        y = torch.nn.functional.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True)
        x = x + self.self_attn["o_proj"](y.transpose(1, 2).flatten(2))
        y = self.post_attention_layernorm(x)
        return x + self.mlp["down_proj"](torch.nn.functional.silu(self.mlp["gate_proj"](y)) * self.mlp["up_proj"](y))


class Llama(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden, heads = config["hidden_size"], config["num_attention_heads"]
        layers = [Layer(hidden, config["intermediate_size"], heads, config["rms_norm_eps"])
                  for _ in range(config["num_hidden_layers"])]
        self.model = torch.nn.ModuleDict({"embed_tokens": torch.nn.Embedding(config["vocab_size"], hidden),
                                          "layers": torch.nn.ModuleList(layers),
                                          "norm": torch.nn.RMSNorm(hidden, eps=config["rms_norm_eps"])})
        self.lm_head = torch.nn.Linear(hidden, config["vocab_size"], bias=False)
        self.width, self.theta = hidden // heads, config["theta"]

    def forward(self, ids):
        half = torch.arange(0, self.width, 2) / self.width
        angles = torch.outer(torch.arange(ids.shape[1]), self.theta ** -half)
        angles = torch.cat((angles, angles), -1)
        cos, sin = angles.cos(), angles.sin()
        x = self.model["embed_tokens"](ids)
        for layer in self.model["layers"]:
            x = layer(x, cos, sin)
        logits = self.lm_head(self.model["norm"](x))
        return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def train(kind, folder, rows, steps, micro_batch, rate):
    import peer_setups
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    with open(folder + "/config.json") as file:
        config = json.load(file)
    config["theta"] = config.get("rope_theta") or config["rope_parameters"]["rope_theta"]
    setup = peer_setups.SETUPS[kind]
    forward, update = setup(lambda: Llama(config), folder + "/model.safetensors", micro_batch, rate)
    losses = []
    with open(rows) as file:
        for _ in range(steps):
            batch = [json.loads(file.readline())["input_ids"] for _ in range(world_size * micro_batch)]
            loss = forward(torch.tensor(batch[rank * micro_batch:(rank + 1) * micro_batch]))
            update(loss)
            mean = loss.detach() / world_size
            torch.distributed.all_reduce(mean)
            losses.append(mean.item())
    return losses


if __name__ == "__main__":
    torch.set_num_threads(1)
    losses = []
    if sys.argv[1] != "import":
        sys.modules["transformers"] = None
        losses = train(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6]))
    print(json.dumps({"losses": losses, "peak": peak_bytes()}))
    sys.stdout.flush()
    os._exit(0)  # without the group's teardown, which says nothing here
