"""Ranks on `nccl` and CUDA that disagree in the way that is named; each prints what it is told, and when.

    disagreeing.py count|batch|raises
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WAY = sys.argv[1]
LOCAL = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(LOCAL)
dist.init_process_group("nccl")
RANK = dist.get_rank()


def disagree():
    if WAY == "count":
        dist.all_reduce(torch.ones(3 + 4 * RANK, device="cuda"))
        torch.cuda.synchronize()
        return
    torch.manual_seed(0)
    net = DistributedDataParallel(nn.Linear(4, 4).cuda())
    for step in range(3):
        if step == 2 and RANK == 1 and WAY == "raises":
            raise RuntimeError("rank 1 has had enough")
        if step == 2 and RANK == 1 and WAY == "batch":
            break
        net(torch.ones(2, 4, device="cuda")).sum().backward()
    dist.all_reduce(torch.ones(1, device="cuda"))
    torch.cuda.synchronize()


begun = time.monotonic()
try:
    disagree()
except Exception as error:
    print(f"told {RANK} {error}".replace("\n", " "), flush=True)
    print(f"after {time.monotonic() - begun:.1f}", flush=True)
    os._exit(3)
