"""Times one operation on this backend and on gloo, in one run and by turns; rank 0 prints a table."""

import statistics
import time

import torch
import torch.distributed as dist

dist.init_process_group("fakegpu")
GROUPS = {"fakegpu": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
RANK, SIZE = dist.get_rank(), dist.get_world_size()
ROUNDS = 5


def seconds(call, repeats):
    dist.barrier()
    begun = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - begun) / repeats


def all_reduce(tensor, group):
    return lambda: dist.all_reduce(tensor, group=group)


def all_reduce_async(tensor, group):
    return lambda: dist.all_reduce(tensor, group=group, async_op=True).wait()


def message(tensor, group):
    if RANK == 0:
        return lambda: (dist.send(tensor, 1, group=group), dist.recv(tensor, 1, group=group))
    if RANK == 1:
        return lambda: (dist.recv(tensor, 0, group=group), dist.send(tensor, 0, group=group))
    return lambda: None


for kind in (all_reduce, all_reduce_async, message):
    for count in (1, 1024, 1 << 20):
        tensor = torch.ones(count)
        repeats = 200 if count < 1 << 20 else 20
        times = {name: [] for name in GROUPS}
        for name, group in GROUPS.items():
            seconds(kind(tensor, group), 5)
        for _ in range(ROUNDS):
            for name, group in GROUPS.items():
                tensor.fill_(1.0)
                times[name].append(seconds(kind(tensor, group), repeats))
        ours, theirs = (statistics.median(times[name]) * 1e6 for name in ("fakegpu", "gloo"))
        if RANK == 0:
            print(f"{kind.__name__:16} {SIZE} ranks {count:8} x f32: fakegpu {ours:9.1f} us, gloo {theirs:9.1f} us, ratio {ours / theirs:.2f}", flush=True)
dist.destroy_process_group()
