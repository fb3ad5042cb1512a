"""Programs that go wrong, each in one way; ranks that are told print `told <seconds> <sentence>`."""

import os
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CASE = sys.argv[1]
TIMEOUT = timedelta(seconds=float(os.environ.get("JOB_TIMEOUT", "60")))
dist.init_process_group("fakegpu", timeout=TIMEOUT)
RANK, SIZE = dist.get_rank(), dist.get_world_size()


def told(call):
    """Makes a call that must fail, and prints what it said and when."""
    begun = time.monotonic()
    try:
        call()
    except RuntimeError as error:
        sentence = " / ".join(str(error).splitlines())
        print(f"told {time.monotonic() - begun:.1f} {type(error).__name__} {sentence}", flush=True)
        sys.exit(3)
    print("not told", flush=True)


def counts_differ():
    told(lambda: dist.all_reduce(torch.ones(3 if RANK == 1 else 4)))


def operators_differ():
    told(lambda: dist.all_reduce(torch.ones(4), dist.ReduceOp.MAX if RANK == 1 else dist.ReduceOp.SUM))


def operations_differ():
    told(lambda: dist.broadcast(torch.ones(4), 0) if RANK == 1 else dist.all_reduce(torch.ones(4)))


def told_by_wait():
    work = dist.all_reduce(torch.ones(3 if RANK == 1 else 4), async_op=True)
    told(work.wait)


def told_by_future():
    future = dist.all_reduce(torch.ones(3 if RANK == 1 else 4), async_op=True).get_future()
    told(future.wait)


def sizes_differ_in_a_message():
    if RANK == 0:
        told(lambda: dist.send(torch.ones(4), 1))
    elif RANK == 1:
        told(lambda: dist.recv(torch.ones(3), 0))


def sizes_differ_in_a_tagged_message():
    if RANK == 0:
        dist.send(torch.ones(4), 1, tag=5)
    elif RANK == 1:
        told(lambda: dist.recv(torch.ones(3), 0, tag=5))


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(width))

    def forward(self, x, fails=False):
        if fails:
            raise ValueError("the data of this rank are broken")
        for layer in self.layers:
            x = layer(x)
        return x


def parameters_differ():
    told(lambda: DistributedDataParallel(Net(3 if RANK == 1 else 2)))


def a_batch_is_skipped():
    net = DistributedDataParallel(Net(2))

    def train():
        for _ in range(2 if RANK == 1 else 3):
            net(torch.ones(2, 4)).sum().backward()
        dist.barrier()

    told(train)


def a_rank_raises_in_training():
    net = DistributedDataParallel(Net(2))

    def train():
        for step in range(3):
            net(torch.ones(2, 4), fails=RANK == 1 and step == 1).sum().backward()

    if RANK == 1:
        train()
    told(train)


def a_rank_raises():
    if RANK == 1:
        raise ValueError("rank 1 cannot go on")
    told(lambda: dist.all_reduce(torch.ones(4)))


def a_rank_raises_before_it_sends():
    if RANK == 1:
        time.sleep(0.5)
        raise ValueError("rank 1 cannot go on")
    if RANK == 0:
        told(lambda: dist.recv(torch.ones(4), 1, tag=int(os.environ.get("JOB_TAG", "0"))))


def a_rank_is_killed():
    if RANK == 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    told(lambda: dist.all_reduce(torch.ones(4)))


def a_rank_is_killed_before_it_sends():
    if RANK == 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    if RANK == 0:
        told(lambda: dist.recv(torch.ones(4), 1))


def any_source_is_killed():
    if RANK == 0:
        told(lambda: dist.recv(torch.ones(4)))
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


def a_rank_is_late():
    if RANK == 1:
        time.sleep(30)
    told(lambda: dist.all_reduce(torch.ones(4)))


def a_sender_is_late():
    if RANK == 1:
        time.sleep(30)
    if RANK == 0:
        told(lambda: dist.recv(torch.ones(4), 1))


def any_sender_is_late():
    if RANK == 0:
        told(lambda: dist.recv(torch.ones(4)))
    time.sleep(30)


def aborted():
    if RANK == 0:
        work = dist.all_reduce(torch.ones(4), async_op=True)
        dist.distributed_c10d._abort_process_group()
        told(work.wait)
    told(lambda: dist.all_reduce(torch.ones(4)))


def nothing_is_destroyed():
    dist.all_reduce(torch.ones(4))
    if RANK == 0:
        dist.send(torch.ones(2), 1)
    if RANK == 1:
        dist.recv(torch.zeros(2), 0)
    sys.stdout.write("end\n")  # in one piece, unlike print


def something_is_open_at_the_end():
    dist.all_reduce(torch.ones(4))
    if RANK == 0:
        global works  # noqa: PLW0603 - as a script would keep them
        works = [dist.all_reduce(torch.ones(4), async_op=True), dist.isend(torch.ones(2), 1), dist.irecv(torch.ones(2), 1, tag=3)]
    sys.stdout.write("end\n")  # in one piece, unlike print


globals()[CASE]()
