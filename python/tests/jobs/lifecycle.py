"""Groups that come and go, and what else a program may do meanwhile; prints one line a case."""

import itertools
import os
import tempfile
import threading
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

TURNS = itertools.count()


def init():
    """Meets in a file, another one each time: a store on a port is still there for a moment after its end."""
    name = f"fakegpu-store-{os.environ['MASTER_PORT']}-{os.getppid()}-{next(TURNS)}"
    place = {"rank": int(os.environ["RANK"]), "world_size": int(os.environ["WORLD_SIZE"])}
    dist.init_process_group("fakegpu", init_method=f"file://{tempfile.gettempdir()}/{name}", **place)


def again():
    """A process group after another one, with everything ended in between."""
    before = threading.active_count()
    for turn in range(4):
        init()
        tensor = torch.full((2,), float(turn))
        dist.all_reduce(tensor, async_op=True).wait()
        assert tensor.tolist() == [turn * 2.0] * 2
        rank, room = dist.get_rank(), torch.zeros(1)
        works = [dist.isend(torch.ones(1), 1 - rank, tag=turn), dist.irecv(room, 1 - rank, tag=turn)]
        for work in works:
            work.wait()
        dist.destroy_process_group()
    deadline = time.monotonic() + 5
    while threading.active_count() > before + 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before + 1, threading.enumerate()  # the watch stays


def open_receives_do_not_hold_up_the_end():
    init()
    rank = dist.get_rank()
    dist.barrier()
    works = [dist.irecv(torch.zeros(1), 1 - rank, tag=tag) for tag in (0, 3)] + [dist.distributed_c10d.irecv(torch.zeros(1))]
    begun = time.monotonic()
    dist.destroy_process_group()
    assert time.monotonic() - begun < 5
    for work in works:
        try:
            work.wait()
        except RuntimeError as error:
            # Who destroys later may be told that the other has left.
            assert "destroyed" in str(error) or "left" in str(error) or "rank" in str(error), error
        else:
            raise AssertionError("an open receive ended well")


def forked_workers():
    init()
    dist.barrier()
    batches = list(DataLoader(list(range(8)), batch_size=4, num_workers=2, multiprocessing_context="fork"))
    assert [batch.tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    child = os.fork()
    if child == 0:
        raise SystemExit(0)  # with everything that an orderly end does
    os.waitpid(child, 0)
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == 2.0
    dist.destroy_process_group()


def autograd_and_modes():
    """Tensors that require gradients, inference mode, and detail debugging."""
    init()
    parameter = torch.nn.Parameter(torch.ones(4))
    dist.broadcast(parameter.data, 0)
    dist.all_reduce(parameter.data[::2])
    assert parameter.tolist() == [2.0, 1.0, 2.0, 1.0]
    with torch.inference_mode():
        tensor = torch.ones(2, 2)
        dist.all_reduce(tensor.t(), async_op=True).wait()
        assert tensor.sum().item() == 8.0
    dist.destroy_process_group()


for case in (again, open_receives_do_not_hold_up_the_end, forked_workers, autograd_and_modes):
    case()
    print(f"ok {case.__name__}", flush=True)
