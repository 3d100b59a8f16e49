"""How memory_peer.py's kinds of training are set up: `SETUPS[kind](make_model, weights, micro_batch, rate)`.

    make_model  makes the module that maps token ids to a mean loss; its parameters have Llama's names
    weights     the safetensors file of its initial weights
    returns     forward(ids) -> loss, and update(loss): backward, clip to norm 1, step of AdamW, gradients set free

All meet over Gloo, start from the same weights and step by torch's fused AdamW. Modules and weights are made so that
the peak is not theirs: no second copy of the weights, and what is sharded is never whole on a rank.
"""
import json
import os
import struct
from functools import partial

import torch


def fill(model, path, write):
    """Calls write(parameter, tensor) with the weights of a safetensors file, one at a time, in the order of parameters."""
    with open(path, "rb") as file, torch.no_grad():
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        begin = file.tell()
        for name, parameter in model.named_parameters():
            first, last = header[name]["data_offsets"]
            file.seek(begin + first)
            whole = torch.frombuffer(bytearray(file.read(last - first)), dtype=torch.float32)
            write(parameter, whole.view(header[name]["shape"]))


def adamw(model, rate):
    return torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)


def plain_update(model, optimizer):
    def update(loss):
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return update


def ddp(make_model, weights, micro_batch, rate):
    torch.distributed.init_process_group("gloo")
    model = make_model()
    fill(model, weights, lambda parameter, whole: parameter.copy_(whole))
    model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True)
    return model, plain_update(model, adamw(model, rate))


def fsdp2(make_model, weights, micro_batch, rate):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    torch.distributed.init_process_group("gloo")
    rank, world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    mesh = init_device_mesh("cpu", (world_size,))
    with torch.device("meta"):
        model = make_model()
    for layer in model.model["layers"]:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    model.to_empty(device="cpu")
    fill(model, weights, lambda parameter, whole: parameter.to_local().copy_(whole.chunk(world_size)[rank]))
    return model, plain_update(model, adamw(model, rate))


def accelerate(make_model, weights, micro_batch, rate):
    from accelerate import Accelerator, DistributedDataParallelKwargs
    accelerator = Accelerator(cpu=True, kwargs_handlers=[
        DistributedDataParallelKwargs(gradient_as_bucket_view=True, static_graph=True)])
    model = make_model()
    fill(model, weights, lambda parameter, whole: parameter.copy_(whole))
    model, optimizer = accelerator.prepare(model, adamw(model, rate))

    def update(loss):
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return model, update


def deepspeed(stage, make_model, weights, micro_batch, rate):
    os.environ["DS_ACCELERATOR"] = "cpu"
    import deepspeed
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    # Buckets of 4 MiB: by default they have half a billion elements, of which stage 2 makes a buffer.
    elems = 1 << 20
    zero = {"stage": stage, "reduce_bucket_size": elems, "allgather_bucket_size": elems, "overlap_comm": False}
    if stage == 3:  # by default parameters under 100,000 elements stay whole on every rank
        zero |= {"stage3_param_persistence_threshold": 0, "stage3_prefetch_bucket_size": elems,
                 "stage3_max_live_parameters": elems, "stage3_max_reuse_distance": elems}
    config = {"train_micro_batch_size_per_gpu": micro_batch, "gradient_clipping": 1.0, "zero_optimization": zero}
    if stage < 3:
        model = make_model()
        fill(model, weights, lambda parameter, whole: parameter.copy_(whole))
    else:
        with deepspeed.zero.Init(config_dict_or_path=config):
            model = make_model()
        fill(model, weights, write_sharded)
    engine, _, _, _ = deepspeed.initialize(model=model, optimizer=adamw(model, rate), config=config)

    def update(loss):
        engine.backward(loss)
        engine.step()
    return engine, update


def write_sharded(parameter, whole):
    import deepspeed
    with deepspeed.zero.GatheredParameters([parameter], modifier_rank=0):
        if torch.distributed.get_rank() == 0:
            parameter.copy_(whole)


SETUPS = {"ddp": ddp, "fsdp2": fsdp2, "accelerate": accelerate,
          "zero1": partial(deepspeed, 1), "zero2": partial(deepspeed, 2), "zero3": partial(deepspeed, 3)}
