"""A program that torchrun starts: every rank checks its place and adds its number to the others' over Gloo."""

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
local, local_world = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
first = int(os.environ["POD_NAME"].rsplit("-", 1)[1])  # the pod is named after its first rank
assert rank == first + local, (rank, first, local)
total = torch.tensor([10.0**rank])
dist.all_reduce(total)
print(f"rank {rank} of {world}, {local} of {local_world} in {os.environ['POD_NAME']}: sum {int(total.item())}", flush=True)
dist.barrier()
dist.destroy_process_group()
