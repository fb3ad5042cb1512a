"""Random schedules over streams, through torch: operations, copies, collectives and events in any order that their
dependencies allow, against the same schedule on the CPU in program order.

    fakegpu run --ranks-per-node 2 -- python schedules.py [--count N] [--first SEED]     1,000 from seed 0

Every rank runs the same schedule over three streams and its default stream. A step on a stream first waits for the event
of every tensor that it reads or writes, as a careful program would; what is left to the streams is all the rest. Prints the
seed of a schedule that differs, and ends with 1.
"""

from __future__ import annotations

import argparse
import os
import random
import sys

import torch
import torch.distributed as dist

TENSORS, STEPS, ELEMENTS = 6, 24, 64


class Plain:
    """A schedule on the CPU, one step after the other; collectives by what all ranks hold."""

    def __init__(self, size: int) -> None:
        self.values = [[start(rank, at) for at in range(TENSORS)] for rank in range(size)]

    def step(self, kind: str, to: int, source: int, factor: float) -> None:
        for tensors in self.values:
            if kind == "add":
                tensors[to] = tensors[to] + factor * tensors[source]
            elif kind == "copy":
                tensors[to] = tensors[source].clone()
            elif kind == "host":
                tensors[to] = tensors[source] * factor
        if kind == "sum":
            total = sum(tensors[to] for tensors in self.values)
            for tensors in self.values:
                tensors[to] = total / 4
        elif kind == "broadcast":
            root = source % len(self.values)
            for tensors in self.values:
                tensors[to] = self.values[root][to].clone()


def start(rank: int, at: int) -> torch.Tensor:
    return torch.arange(ELEMENTS, dtype=torch.float64) + 100 * at + rank


class Streamed:
    """The same by streams and events."""

    def __init__(self, rank: int, size: int) -> None:
        self.size = size
        self.streams = [torch.cuda.Stream() for _ in range(3)] + [torch.cuda.default_stream()]
        self.tensors = [start(rank, at).cuda() for at in range(TENSORS)]
        torch.cuda.synchronize()
        # What was last done with each tensor; a reader must not be overtaken by a writer either.
        self.marks = [torch.cuda.Event() for _ in range(TENSORS)]
        self.pending: list[dist.Work] = []

    def step(self, kind: str, to: int, source: int, factor: float, stream: int) -> None:
        with torch.cuda.stream(self.streams[stream]):
            for at in {to, source}:
                self.streams[stream].wait_event(self.marks[at])
            self.act(kind, to, source, factor)
            for at in {to, source}:
                self.marks[at].record(self.streams[stream])

    def act(self, kind: str, to: int, source: int, factor: float) -> None:
        tensors = self.tensors
        if kind == "add":
            tensors[to].add_(tensors[source] * factor)
        elif kind == "copy":
            tensors[to].copy_(tensors[source], non_blocking=True)
        elif kind == "host":
            pinned = torch.empty(ELEMENTS, dtype=torch.float64, pin_memory=True)
            pinned.copy_(tensors[source], non_blocking=True)
            torch.cuda.current_stream().synchronize()
            tensors[to].copy_(pinned * factor, non_blocking=True)
            torch.cuda.current_stream().synchronize()
        elif kind == "sum":
            work = dist.all_reduce(tensors[to], async_op=True)
            work.wait()
            tensors[to].div_(4)
        elif kind == "broadcast":
            dist.broadcast(tensors[to], source % self.size, async_op=True).wait()


def schedule(seed: int) -> list[tuple[str, int, int, float, int]]:
    chance = random.Random(seed)
    kinds = ["add", "copy", "host", "sum", "broadcast"]
    weights = [6, 4, 1, 3, 2]
    draw = lambda: (  # noqa: E731 - a step in one line
        chance.choices(kinds, weights)[0],
        chance.randrange(TENSORS),
        chance.randrange(TENSORS),
        chance.choice([0.5, -0.25, 1.0]),
        chance.randrange(4),
    )
    return [draw() for _ in range(STEPS)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    chosen = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank, size = dist.get_rank(), dist.get_world_size()
    wrong = 0
    for seed in range(chosen.first, chosen.first + chosen.count):
        plain, streamed = Plain(size), Streamed(rank, size)
        for kind, to, source, factor, stream in schedule(seed):
            plain.step(kind, to, source, factor)
            streamed.step(kind, to, source, factor, stream)
        torch.cuda.synchronize()
        for at, tensor in enumerate(streamed.tensors):
            if not torch.equal(tensor.cpu(), plain.values[rank][at]):
                wrong += 1
                print(f"rank {rank}: tensor {at} of seed {seed} differs", flush=True)
    print(f"schedules {chosen.count}, {wrong} wrong", flush=True)
    dist.destroy_process_group()
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
