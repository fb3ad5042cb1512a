"""A feed-forward block with tensor and sequence parallelism under data parallelism, on a mesh of two dimensions: what
torch's tensor parallel tutorial shows."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)


class FeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.w1 = nn.Linear(width, 4 * width, bias=False)
        self.w2 = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.w2(nn.functional.silu(self.w1(self.norm(x))))


def main() -> None:
    cuda = torch.cuda.is_available()
    kind = "cuda" if cuda else "cpu"
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if cuda else "gloo")
    mesh = init_device_mesh(kind, (2, dist.get_world_size() // 2), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(0)
    model = nn.Sequential(FeedForward(8), FeedForward(8)).to(kind)
    plan = {}
    for at in range(2):
        plan[f"{at}"] = PrepareModuleInput(
            input_layouts=(Replicate() if at == 0 else Shard(1),), desired_input_layouts=(Shard(1),)
        )
        plan[f"{at}.norm"] = SequenceParallel()
        plan[f"{at}.w1"] = ColwiseParallel(input_layouts=Shard(1))
        plan[f"{at}.w2"] = RowwiseParallel(output_layouts=Shard(1) if at == 0 else Replicate())
    model = parallelize_module(model, mesh["tp"], plan)
    fully_shard(model, mesh=mesh["dp"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=True)
    for step in range(4):
        generator = torch.Generator().manual_seed(10 * step + mesh["dp"].get_local_rank())
        rows = torch.randn(4, 8, 8, generator=generator).to(kind)
        loss = model(rows).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"result {dist.get_rank()} step {step} loss {loss.item():.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
