"""Point to point: order, tags, any source, batches, and what must not block; prints one line a case."""

import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("fakegpu")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
NEXT, PREVIOUS = (RANK + 1) % SIZE, (RANK - 1) % SIZE


def number(value, dtype=torch.float32):
    return torch.full((3,), value).to(dtype)


def blocking():
    """Any type, any size, with gaps, nothing at all."""
    for dtype in (torch.float32, torch.bool, torch.int16, torch.complex64, torch.bfloat16, torch.float8_e5m2):
        for tag in (0, 5):
            if RANK == 0:
                dist.send(number(1, dtype), 1, tag=tag)
            elif RANK == 1:
                room = number(0, dtype)
                assert dist.recv(room, 0, tag=tag) == 0
                assert torch.equal(room.to(torch.complex64), number(1, torch.complex64)), (dtype, room)
    for tag in (0, 5):
        big, gaps, nothing = torch.arange(1 << 20), torch.arange(24).reshape(4, 6), torch.zeros(0)
        if RANK == 0:
            dist.send(big, 1, tag=tag), dist.send(gaps[:, ::2], 1, tag=tag), dist.send(nothing, 1, tag=tag)
        elif RANK == 1:
            rooms = torch.zeros_like(big), torch.zeros(3, 4, dtype=torch.int64).t(), torch.zeros(0)
            for room in rooms:
                dist.recv(room, 0, tag=tag)
            assert torch.equal(rooms[0], big) and torch.equal(rooms[1], gaps[:, ::2]), tag


def crossing():
    """Everybody sends before anybody receives, one by one and as a batch."""
    for tag in (0, 3):
        room = number(0)
        works = [dist.isend(number(RANK), NEXT, tag=tag), dist.irecv(room, PREVIOUS, tag=tag)]
        for work in works:
            work.wait()
        assert room.tolist() == number(PREVIOUS).tolist(), room
    room = number(0)
    batch = [dist.P2POp(dist.irecv, room, PREVIOUS), dist.P2POp(dist.isend, number(RANK + 10), NEXT)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    assert room.tolist() == number(PREVIOUS + 10).tolist(), room


def a_batch_meets_single_calls():
    """Who batches and who does not pair with each other, quickly."""
    begun = time.monotonic()
    for _ in range(20):
        room = number(0)
        if RANK % 2:
            dist.recv(room, PREVIOUS) if RANK else None
            dist.send(room + 1, PREVIOUS)
        elif RANK + 1 < SIZE:
            batch = [dist.P2POp(dist.isend, number(4.0), NEXT), dist.P2POp(dist.irecv, room, NEXT)]
            for work in dist.batch_isend_irecv(batch):
                work.wait()
            assert room.tolist() == number(5.0).tolist(), room
    assert time.monotonic() - begun < 3, "batches wait for a timer"


def tags():
    """Receives choose by tag, whatever the order of the sends; one tag keeps its order."""
    if RANK == 0:
        works = [dist.isend(number(value), 1, tag=tag) for tag, value in ((1, 10), (2, 20), (1, 11), (0, 7), (2, 21))]
        for work in works:
            work.wait()
    elif RANK == 1:
        got = []
        for tag in (2, 0, 1, 2, 1):
            room = number(0)
            dist.recv(room, 0, tag=tag)
            got.append(int(room[0]))
        assert got == [20, 7, 10, 21, 11], got
    # A receive that waits for a tag does not hold up another one, posted later.
    if RANK == 0:
        dist.send(number(1), 1, tag=1)
        room = number(0)
        dist.recv(room, 1, tag=9)
        dist.send(room, 1, tag=2)
    elif RANK == 1:
        late, early = number(0), number(0)
        second, first = dist.irecv(late, 0, tag=2), dist.irecv(early, 0, tag=1)
        first.wait()
        assert not second.is_completed()
        dist.send(number(33), 0, tag=9)
        second.wait()
        assert int(late[0]) == 33, late


def any_source():
    for tag in (0, 4):
        if RANK == 0:
            got = []
            for _ in range(2 * (SIZE - 1)):
                room = number(0)
                source = dist.recv(room, tag=tag)
                got.append((source, int(room[0])))
            wanted = sorted((r, 10 * r + k) for r in range(1, SIZE) for k in range(2))
            assert sorted(got) == wanted, got
            for source in range(1, SIZE):
                assert [value for s, value in got if s == source] == [10 * source, 10 * source + 1], got
        else:
            time.sleep(0.05 * RANK)
            for k in range(2):
                dist.send(number(10 * RANK + k), 0, tag=tag)
    # Receives from a named source take their messages, any-source ones the others.
    dist.barrier()
    if RANK == 0:
        named, stray = number(0), number(0)
        work = dist.irecv(named, 1)
        dist.recv(stray)
        work.wait()
        assert sorted([int(named[0]), int(stray[0])]) == [5, 6] and int(named[0]) == 5, (named, stray)
    elif RANK == 1:
        dist.send(number(5), 0)
        dist.send(number(6), 0)


def to_itself():
    room = number(0)
    works = [dist.isend(number(8), RANK, tag=1), dist.irecv(room, RANK, tag=1)]
    for work in works:
        work.wait()
    assert int(room[0]) == 8


def asynchronous():
    """Submissions return at once and end in order; sources and results are told."""
    dist.barrier()
    if RANK == 0:
        time.sleep(0.5)
    begun = time.monotonic()
    tensors = [torch.full((1000,), float(k)) for k in range(50)]
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    assert time.monotonic() - begun < 0.4, "a submission blocked"
    if RANK:
        assert not works[-1].is_completed()
        try:
            works[-1].wait(timedelta(milliseconds=20))
        except RuntimeError as error:
            assert "has not ended within the 0.02 s" in str(error), error
        else:
            raise AssertionError("the wait did not time out")
    futures = [work.get_future() for work in works]
    torch.futures.wait_all(futures)
    assert all(work.is_completed() and work.is_success() and work.exception() is None for work in works)
    assert [t[0].item() for t in tensors] == [float(k * SIZE) for k in range(50)]
    assert works[3].result()[0] is tensors[3]
    chained = dist.all_reduce(torch.ones(1), async_op=True).get_future().then(lambda f: f.value()[0] * 2)
    assert chained.wait().item() == 2 * SIZE
    # Mixed with blocking calls, in one order.
    first = torch.ones(1)
    work = dist.all_reduce(first, async_op=True)
    dist.all_reduce(second := torch.full((1,), 2.0))
    work.wait()
    assert (first.item(), second.item()) == (SIZE, 2.0 * SIZE)


def coalesced():
    tensors = [torch.full((n,), float(n)) for n in (1, 5, 9)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    assert [t.tolist() for t in tensors] == [[float(n * SIZE)] * n for n in (1, 5, 9)]
    outs = [torch.zeros(n * SIZE) for n in (1, 5)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for out, n in zip(outs, (1, 5)):
            dist.all_gather_into_tensor(out, torch.full((n,), float(RANK)))
    manager.wait()
    assert outs[0].tolist() == [float(r) for r in range(SIZE)]
    outs = [torch.zeros(n) for n in (1, 5)]
    with dist._coalescing_manager():
        for out, n in zip(outs, (1, 5)):
            dist.reduce_scatter_tensor(out, torch.ones(n * SIZE))
    assert outs[1].tolist() == [float(SIZE)] * 5
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        room = number(0)
        dist.isend(number(RANK), NEXT)
        dist.irecv(room, PREVIOUS)
    manager.wait()
    assert int(room[0]) == PREVIOUS


def groups():
    """Subgroups, ranks outside them, other orders, and several at once."""
    evens = dist.new_group(list(range(0, SIZE, 2)))
    pair = dist.new_group([0, 1])
    tensor = torch.ones(1)
    if RANK % 2 == 0:
        dist.all_reduce(tensor, group=evens)
        assert tensor.item() == (SIZE + 1) // 2
        assert dist.get_rank(evens) == RANK // 2
    else:
        assert dist.all_reduce(tensor, group=evens) is None
    if RANK < 2:
        room = number(0)
        works = [dist.isend(number(RANK), 1 - RANK, group=pair), dist.irecv(room, 1 - RANK, group=pair)]
        for work in works:
            work.wait()
        assert int(room[0]) == 1 - RANK
    dist.barrier()
    reverse = list(range(SIZE))[::-1]
    split = dist.split_group(split_ranks=[reverse])
    assert split.rank() == SIZE - 1 - RANK, split.rank()
    rooms = [torch.zeros(1) for _ in range(SIZE)]
    dist.all_gather(rooms, torch.tensor([float(RANK)]), group=split)
    assert [int(room) for room in rooms] == reverse, rooms
    half = dist.split_group(split_ranks=[[0]])
    assert (half.size() == 1) if RANK == 0 else (half is dist.GroupMember.NON_GROUP_MEMBER), half
    if RANK % 2 == 0:
        dist.destroy_process_group(evens)


def objects():
    gathered = [None] * SIZE
    dist.all_gather_object(gathered, {"rank": RANK, "text": "x" * RANK * 1000})
    assert [g["rank"] for g in gathered] == list(range(SIZE))
    box = [{"a": 1}, "b"] if RANK == 0 else [None, None]
    dist.broadcast_object_list(box)
    assert box == [{"a": 1}, "b"]
    out = [None]
    dist.scatter_object_list(out, [f"for {r}" for r in range(SIZE)] if RANK == 0 else None)
    assert out == [f"for {RANK}"]
    rooms = [None] * SIZE if RANK == 0 else None
    dist.gather_object(RANK * 2, rooms)
    assert RANK or rooms == [r * 2 for r in range(SIZE)]
    if RANK == 0:
        dist.send_object_list(["one", 2], 1)
    elif RANK == 1:
        box = [None, None]
        dist.recv_object_list(box, 0)
        assert box == ["one", 2]


for case in (blocking, crossing, a_batch_meets_single_calls, tags, any_source, to_itself, asynchronous, coalesced, groups, objects):
    case()
    dist.barrier()
    sys.stdout.write(f"ok {case.__name__}\n")  # in one piece, unlike print
dist.destroy_process_group()
