"""Trains small models in every way torch distributes them: `on_devices.py nccl cuda` or `gloo cpu`; rank 0 and the
last rank print numbers, which are to be the same.

An ordinary program: nothing in it knows of FakeGPU.
"""

import contextlib
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

BACKEND, KIND = sys.argv[1], sys.argv[2]
LOCAL = int(os.environ["LOCAL_RANK"])
DEVICE = torch.device(KIND, LOCAL) if KIND == "cuda" else torch.device("cpu")
if KIND == "cuda":
    torch.cuda.set_device(DEVICE)
dist.init_process_group(BACKEND)
RANK, SIZE = dist.get_rank(), dist.get_world_size()


def show(name, value):
    if RANK in (0, SIZE - 1):
        print("result", RANK, name, value, flush=True)


def model(seed=0, width=16):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 4)).to(DEVICE)


def data(step, rows=8):
    generator = torch.Generator().manual_seed(1000 * step + RANK)
    return torch.randn(rows, 8, generator=generator).to(DEVICE)


def trained(net, optimizer=None, steps=4):
    optimizer = optimizer or torch.optim.AdamW(net.parameters(), lr=0.01)
    losses = []
    for step in range(steps):
        loss = net(data(step)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 6))
    return losses


def ddp():
    net = DistributedDataParallel(model(), bucket_cap_mb=0.0005)
    losses = trained(net)
    return losses, round(sum(p.double().sum().item() for p in net.parameters()), 5)


def accumulated():
    net = DistributedDataParallel(model(1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(4):
        with contextlib.nullcontext() if step % 2 else net.no_sync():
            net(data(step)).square().mean().backward()
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()
    return round(net(data(9)).sum().item(), 5)


def uneven_inputs():
    net = DistributedDataParallel(model(2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with net.join():
        for step in range(2 + RANK):
            net(data(step)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    return round(sum(p.sum().item() for p in net.parameters()), 5)


def zero():
    net = DistributedDataParallel(model(3))
    return trained(net, ZeroRedundancyOptimizer(net.parameters(), torch.optim.Adam, lr=0.01))


def fsdp1():
    if KIND == "cpu":
        # Sharded over gloo it sums in another order; the numbers are those of DDP either way.
        return trained(DistributedDataParallel(model(4)))
    return trained(FullyShardedDataParallel(model(4), device_id=DEVICE))


def fsdp2():
    net = model(5)
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(net)
    return trained(net)


def hsdp():
    if SIZE < 4:
        return "one node"
    mesh = init_device_mesh(KIND, (2, SIZE // 2), mesh_dim_names=("replicate", "shard"))
    net = model(6)
    fully_shard(net, mesh=mesh)
    return trained(net)


def tensor_parallel():
    mesh = init_device_mesh(KIND, (SIZE,))
    net = parallelize_module(model(7), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    generator = torch.Generator().manual_seed(5)
    result = net(torch.randn(4, 8, generator=generator).to(DEVICE))
    result.sum().backward()
    whole = distribute_tensor(torch.arange(8.0 * SIZE).reshape(8, SIZE).to(DEVICE), mesh, [Shard(1)])
    return round(result.sum().item(), 5), whole.sum().full_tensor().item(), isinstance(whole, DTensor)


def pipeline(schedule):
    torch.manual_seed(8)
    layers = [nn.Linear(8, 8) for _ in range(SIZE)]
    stage = PipelineStage(layers[RANK].to(DEVICE), RANK, SIZE, DEVICE)
    run = schedule(stage, n_microbatches=4, loss_fn=lambda out, wanted: (out - wanted).square().mean())
    generator = torch.Generator().manual_seed(9)
    inputs, wanted = torch.randn(8, 8, generator=generator).to(DEVICE), torch.zeros(8, 8, device=DEVICE)
    losses = []
    if RANK == 0:
        run.step(inputs)
    elif RANK == SIZE - 1:
        run.step(target=wanted, losses=losses)
    else:
        run.step()
    grad = layers[RANK].weight.grad.sum().item()
    return [round(loss.item(), 6) for loss in losses], round(grad, 5)


def mixed_precision():
    net = DistributedDataParallel(model(10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    losses = []
    for step in range(3):
        with torch.autocast(KIND, dtype=torch.bfloat16):
            loss = net(data(step)).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 3))
    return losses


def checkpoint():
    net = model(11)
    fully_shard(net)
    names = [tempfile.mkdtemp() if RANK == 0 else None]
    dist.broadcast_object_list(names)
    dcp.save({"net": net.state_dict()}, checkpoint_id=names[0])
    before = round(net(data(0)).sum().item(), 5)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
    state = {"net": net.state_dict()}
    dcp.load(state, checkpoint_id=names[0])
    net.load_state_dict(state["net"])
    return before == round(net(data(0)).sum().item(), 5)


def collectives():
    mine = torch.full((4,), float(RANK + 1), device=DEVICE)
    total = mine.clone()
    work = dist.all_reduce(total, async_op=True)
    product = mine @ mine
    work.wait()
    gathered = torch.empty(4 * SIZE, device=DEVICE)
    dist.all_gather_into_tensor(gathered, mine)
    rows = torch.arange(float(SIZE), device=DEVICE) + 10 * RANK
    swapped = torch.empty_like(rows)
    dist.all_to_all_single(swapped, rows)
    right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    got = torch.empty(4, device=DEVICE)
    ops = [dist.P2POp(dist.isend, mine, right), dist.P2POp(dist.irecv, got, left)]
    for pending in dist.batch_isend_irecv(ops):
        pending.wait()
    dist.barrier()
    return total[0].item(), product.item(), gathered.sum().item(), swapped.tolist(), got[0].item()


def groups():
    pair = dist.new_group(list(range(0, SIZE, 2)))
    value = torch.ones(3, device=DEVICE)
    if RANK % 2 == 0:
        dist.all_reduce(value, group=pair)
    objects = [None] * SIZE
    dist.all_gather_object(objects, {"rank": RANK})
    over_gloo = dist.new_group(backend="gloo")
    dist.monitored_barrier(over_gloo)
    return value.sum().item(), [each["rank"] for each in objects]


show("ddp", ddp())
show("accumulated", accumulated())
show("uneven inputs", uneven_inputs())
show("zero", zero())
show("fsdp1", fsdp1())
show("fsdp2", fsdp2())
show("hsdp", hsdp())
show("tensor parallel", tensor_parallel())
show("gpipe", pipeline(ScheduleGPipe))
show("1f1b", pipeline(Schedule1F1B))
show("mixed precision", mixed_precision())
show("checkpoint", checkpoint())
show("collectives", collectives())
show("groups", groups())
dist.destroy_process_group()
