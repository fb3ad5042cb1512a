"""One process drives two GPUs by torch.cuda.nccl, many calls ahead of its streams, and prints how long that took."""

import time

import torch
from torch.cuda import nccl

tensors = [torch.ones(256, device=f"cuda:{device}") for device in range(2)]
begun = time.monotonic()
for _ in range(100):
    nccl.all_reduce(tensors)
    for tensor in tensors:
        tensor.div_(2)
for _ in range(20):
    nccl.all_reduce(tensors)
for device in range(2):
    torch.cuda.synchronize(device)
print("result", tensors[0][0].item(), tensors[1][-1].item(), flush=True)
print("took", time.monotonic() - begun, flush=True)
