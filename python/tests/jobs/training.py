"""Trains small models in every way torch distributes them, on the backend that is named; rank 0 and the last rank print numbers.

An ordinary program: nothing in it knows of FakeGPU but the backend's name.
"""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

BACKEND = sys.argv[1]
dist.init_process_group(BACKEND)
RANK, SIZE = dist.get_rank(), dist.get_world_size()


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.BatchNorm1d(16), nn.Linear(16, 4))


def trained(net, steps=4):
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    torch.manual_seed(100 + RANK)
    losses = []
    for _ in range(steps):
        loss = net(torch.randn(4, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 6))
    return losses


def ddp():
    net = DistributedDataParallel(model(), bucket_cap_mb=0.0005)
    losses = trained(net)
    return losses, round(sum(p.double().sum().item() for p in net.parameters()), 6)


def ddp_unused_and_join():
    """Unused parameters, and ranks with different numbers of batches."""

    class Forked(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(1)
            self.used, self.unused = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x, both):
            return self.used(x) + (self.unused(x) if both else 0)

    net = DistributedDataParallel(Forked(), find_unused_parameters=True)
    for step in range(3):
        net(torch.ones(2, 4) * (RANK + 1), both=step == 1).sum().backward()
    with net.join():
        for _ in range(2 + RANK):
            net(torch.ones(2, 4), both=True).sum().backward()
    return [round(p.grad.sum().item(), 5) for p in net.parameters()]


def fsdp2():
    net = model()
    mesh = init_device_mesh("cpu", (SIZE,))
    fully_shard(net[0], mesh=mesh)
    fully_shard(net, mesh=mesh)
    losses = trained(net)
    whole = net[3].weight.full_tensor() if isinstance(net[3].weight, DTensor) else net[3].weight
    return losses, round(whole.sum().item(), 6)


def hsdp():
    if SIZE % 2:
        return "needs an even number of ranks"
    net = model()
    fully_shard(net, mesh=init_device_mesh("cpu", (2, SIZE // 2), mesh_dim_names=("replicate", "shard")))
    return trained(net)


def dtensor():
    mesh = init_device_mesh("cpu", (SIZE,))
    rows = distribute_tensor(torch.arange(64.0).view(8, 8), mesh, [Shard(0)])
    product = rows @ rows.redistribute(mesh, [Replicate()])
    columns = rows.redistribute(mesh, [Shard(1)])
    return product.full_tensor().sum().item(), columns.to_local().sum().item()


def tensor_parallel():
    torch.manual_seed(3)
    width = 4 * SIZE
    net = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 8))
    net = parallelize_module(net, init_device_mesh("cpu", (SIZE,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        loss = net(torch.ones(4, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 5))
    return losses


def pipeline(schedule):
    torch.manual_seed(RANK)
    stage = PipelineStage(nn.Linear(8, 8), RANK, SIZE, torch.device("cpu"))
    steps = schedule(stage, 2 * SIZE, loss_fn=nn.MSELoss())
    torch.manual_seed(5)
    x, losses = torch.randn(4 * SIZE, 8), []
    for _ in range(2):
        if RANK == 0:
            steps.step(x)
        else:
            steps.step(target=torch.zeros(4 * SIZE, 8), losses=losses)
    gradient = round(stage.submod.weight.grad.sum().item(), 5)
    gradients = [None] * SIZE
    dist.all_gather_object(gradients, gradient)
    return gradients, [round(loss.item(), 5) for loss in losses] if RANK == SIZE - 1 else None


def gpipe():
    return pipeline(ScheduleGPipe)


def one_forward_one_backward():
    return pipeline(Schedule1F1B)


def functional():
    from torch.distributed._functional_collectives import all_gather_tensor, all_reduce, wait_tensor

    total = wait_tensor(all_reduce(torch.full((3,), float(RANK)), "sum", dist.group.WORLD))
    every = all_gather_tensor(torch.full((2,), float(RANK)), 0, dist.group.WORLD)
    return total.tolist(), every.tolist()


def main():
    jobs = (ddp, ddp_unused_and_join, fsdp2, hsdp, dtensor, tensor_parallel, gpipe, one_forward_one_backward, functional)
    chosen = [job for job in jobs if not sys.argv[2:] or job.__name__ in sys.argv[2:]]
    for job in chosen:
        numbers = job()
        if RANK == SIZE - 1:
            print(f"result {job.__name__} {numbers}", flush=True)
    dist.destroy_process_group()


main()
