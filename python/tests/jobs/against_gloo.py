"""Every collective, type and operator, bit for bit as gloo has it; prints one line a case."""

import itertools

import torch
import torch.distributed as dist

dist.init_process_group("fakegpu")
OURS, GLOO = dist.group.WORLD, dist.new_group(backend="gloo")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
OP = dist.ReduceOp

# Where 1/n has an error, NCCL's mean (each share first) and gloo's (the sum first) differ in the last bit.
EXACT_MEAN = SIZE & (SIZE - 1) == 0

FLOATS = (torch.float16, torch.float32, torch.float64, torch.bfloat16)
INTEGERS = (torch.int8, torch.uint8, torch.int32, torch.int64)
PLAIN_OPS = (OP.SUM, OP.PRODUCT, OP.MIN, OP.MAX)
BIT_OPS = (OP.BAND, OP.BOR, OP.BXOR)
REDUCED = (
    list(itertools.product(FLOATS, (*PLAIN_OPS, OP.AVG) if EXACT_MEAN else PLAIN_OPS))
    + list(itertools.product(INTEGERS, (*PLAIN_OPS, *BIT_OPS)))
    + list(itertools.product((torch.bool,), (*PLAIN_OPS, *BIT_OPS)))
    + list(itertools.product((torch.complex64, torch.complex128), (OP.SUM, OP.AVG) if EXACT_MEAN else (OP.SUM,)))
)
MOVED = (*FLOATS, *INTEGERS, torch.bool, torch.complex64)
SHAPES = ((), (1,), (7,), (3, 5), (1031,), (0,), (4, 0))


def values(dtype, shape, seed=0):
    """Small whole numbers, other ones on each rank: sums are exact in every type and order."""
    count = torch.Size(shape).numel()
    numbers = (torch.arange(count) * 7 + 3 * RANK + seed) % 5 + 1
    if dtype == torch.bool:
        return (numbers % 2 == 0).reshape(shape)
    return numbers.reshape(shape).to(dtype)


def same(case, ours, theirs):
    if ours.dtype == torch.bool:
        # gloo leaves the sum of two truths as 2.
        ours, theirs = ours.view(torch.uint8) != 0, theirs.view(torch.uint8) != 0
    assert torch.equal(ours, theirs), f"{case} on rank {RANK}: {ours} is not {theirs}"


def both(case, call, *templates):
    """Makes the call with copies of the tensors on both groups, and compares all of them."""
    results = []
    for group in (OURS, GLOO):
        tensors = [[t.clone() for t in x] if isinstance(x, list) else x.clone() for x in templates]
        call(group, *tensors)
        results.append([t for x in tensors for t in (x if isinstance(x, list) else [x])])
    for ours, theirs in zip(*results):
        same(case, ours, theirs)


def reductions():
    for (dtype, op), shape in itertools.product(REDUCED, SHAPES):
        case = f"{dtype} {op} {shape}"
        both(f"all_reduce {case}", lambda g, t: dist.all_reduce(t, op, group=g), values(dtype, shape))
    for dtype, op in REDUCED:
        for root in range(SIZE):
            def reduce(group, tensor):
                dist.reduce(tensor, root, op, group=group)
                if RANK != root:
                    tensor.zero_()  # gloo leaves intermediate results there
            both(f"reduce {dtype} {op} to {root}", reduce, values(dtype, (7,)))
        parts = [values(dtype, (5,), seed) for seed in range(SIZE)]
        out = torch.zeros(5, dtype=dtype)
        if not dtype.is_complex:
            both(f"reduce_scatter {dtype} {op}", lambda g, o, i: dist.reduce_scatter(o, i, op, group=g), out, parts)
            whole = values(dtype, (5 * SIZE,))
            both(f"reduce_scatter_tensor {dtype} {op}", lambda g, o, i: dist.reduce_scatter_tensor(o, i, op, group=g), out, whole)


def moves():
    for dtype, shape in itertools.product(MOVED, SHAPES):
        case, own = f"{dtype} {shape}", values(dtype, shape)
        rooms = [torch.zeros(shape, dtype=dtype) for _ in range(SIZE)]
        both(f"all_gather {case}", lambda g, o, i: dist.all_gather(o, i, group=g), rooms, own)
        for root in range(SIZE):
            both(f"broadcast {case} {root}", lambda g, t: dist.broadcast(t, root, group=g), own)
            if dtype.is_complex:
                continue  # gloo has no gather and scatter of these
            both(f"gather {case} {root}", lambda g, o, i: dist.gather(i, o if RANK == root else None, root, group=g), rooms, own)
            parts = [values(dtype, shape, seed) for seed in range(SIZE)]
            both(f"scatter {case} {root}", lambda g, o, i: dist.scatter(o, i if RANK == root else None, root, group=g), own, parts)
        if len(shape) == 1:
            whole = torch.zeros(shape[0] * SIZE, dtype=dtype)
            both(f"all_gather_into_tensor {case}", lambda g, o, i: dist.all_gather_into_tensor(o, i, group=g), whole, own)
            both(f"all_to_all_single {case}", lambda g, o, i: dist.all_to_all_single(o, i, group=g), whole, values(dtype, whole.shape))


def uneven():
    """Each pair of ranks exchanges another number of rows."""
    count = lambda source, target: source + 2 * target  # noqa: E731
    sends, receives = [count(RANK, r) for r in range(SIZE)], [count(r, RANK) for r in range(SIZE)]
    for dtype in MOVED:
        whole, room = values(dtype, (sum(sends), 3)), torch.zeros((sum(receives), 3), dtype=dtype)
        both(f"all_to_all_single uneven {dtype}", lambda g, o, i: dist.all_to_all_single(o, i, receives, sends, group=g), room, whole)
    parts, rooms = list(whole.split(sends)), list(room.split(receives))
    ours, theirs = [r.clone() for r in rooms], [r.clone() for r in rooms]
    dist.all_to_all(ours, parts, group=OURS)
    dist.all_to_all_single(torch.cat(theirs), whole, receives, sends, group=GLOO)
    wanted = torch.zeros_like(room)
    dist.all_to_all_single(wanted, whole, receives, sends, group=GLOO)
    same("all_to_all", torch.cat(ours), wanted)
    sizes = [torch.zeros(r + 1) for r in range(SIZE)]
    dist.all_gather(sizes, torch.full((RANK + 1,), float(RANK)))
    assert [t.tolist() for t in sizes] == [[float(r)] * (r + 1) for r in range(SIZE)], sizes
    out = torch.zeros(RANK + 1)
    dist.reduce_scatter(out, [torch.full((r + 1,), float(r)) for r in range(SIZE)])
    assert out.tolist() == [float(RANK * SIZE)] * (RANK + 1), out


def strided():
    """Tensors with gaps and other orders, and what lies between their elements."""
    def everything(group, tensor):
        dist.all_reduce(tensor[:, ::2], group=group)
        dist.broadcast(tensor.t()[1], 0, group=group)
        rooms = [torch.zeros(5, 4).t() for _ in range(SIZE)]
        dist.all_gather(rooms, tensor[:4, :5], group=group)
        tensor[:4, :5] += sum(rooms)
    for dtype in (torch.float32, torch.int64):
        ours, theirs = values(dtype, (6, 8)), values(dtype, (6, 8))
        dist.all_reduce(ours[:, ::2])
        held = theirs[:, ::2].contiguous()
        dist.all_reduce(held, group=GLOO)
        theirs[:, ::2] = held
        same(f"strided all_reduce {dtype}", ours, theirs)
        dist.broadcast(ours.t()[1], SIZE - 1)
        held = theirs.t()[1].contiguous()
        dist.broadcast(held, SIZE - 1, group=GLOO)
        theirs.t()[1] = held
        same(f"strided broadcast {dtype}", ours, theirs)
        rooms = [torch.zeros(5, 4, dtype=dtype).t() for _ in range(SIZE)]
        wanted = [torch.zeros(4, 5, dtype=dtype) for _ in range(SIZE)]
        dist.all_gather(rooms, ours[:4, :5])
        dist.all_gather(wanted, ours[:4, :5].contiguous(), group=GLOO)
        for room, want in zip(rooms, wanted):
            same(f"strided all_gather {dtype}", room.contiguous(), want)


def beyond_gloo():
    """What gloo has not: types of NCCL's, moves of any type, and reductions in a wider type."""
    for dtype in (torch.int16, torch.uint16):
        tensor = torch.tensor([1, 2, 30000], dtype=torch.int32).to(dtype)
        dist.all_reduce(tensor)
        wanted = (torch.tensor([1, 2, 30000], dtype=torch.int32) * SIZE).to(dtype)
        same(f"all_reduce {dtype}", tensor.to(torch.int32), wanted.to(torch.int32))
    for dtype in (torch.uint32, torch.uint64):
        tensor = torch.tensor([RANK + 1], dtype=torch.int64).to(dtype)
        dist.all_reduce(tensor, OP.MAX)
        assert int(tensor.item()) == SIZE, tensor
    for dtype in (torch.int16, torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz):
        own = torch.tensor([RANK + 1.0, 4.0]).to(dtype)
        rooms = [torch.zeros(2).to(dtype) for _ in range(SIZE)]
        dist.all_gather(rooms, own)
        assert [r.float().tolist() for r in rooms] == [[r + 1.0, 4.0] for r in range(SIZE)], (dtype, rooms)
        dist.broadcast(own, 0)
        assert own.float().tolist() == [1.0, 4.0], (dtype, own)
    for factor in (0.5, torch.tensor([0.5])):
        for dtype in FLOATS:
            tensor = torch.full((3,), 2.0 * (RANK + 1), dtype=dtype)
            dist.all_reduce(tensor, dist._make_nccl_premul_sum(factor))
            assert tensor.tolist() == [float(sum(range(1, SIZE + 1)))] * 3, (dtype, tensor)
    for dtype in FLOATS:
        share = torch.tensor([1 / SIZE], dtype=dtype)
        own = torch.tensor([1.0, 3.0, 5.0], dtype=dtype) + RANK
        shares = [(torch.tensor([1.0, 3.0, 5.0], dtype=dtype) + r) * share for r in range(SIZE)]
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        dist.all_reduce(own, OP.AVG)
        same(f"mean of {dtype}", own, sum(s.to(wide) for s in shares).to(dtype))
    rooms = [torch.zeros(2, dtype=torch.complex64) for _ in range(SIZE)] if RANK == 0 else None
    dist.gather(torch.tensor([complex(RANK, 1), 2j], dtype=torch.complex64), rooms)
    assert RANK != 0 or [r.tolist() for r in rooms] == [[complex(r, 1), 2j] for r in range(SIZE)], rooms
    average = torch.tensor([RANK - 4], dtype=torch.int32)
    dist.all_reduce(average, OP.AVG)
    assert average.item() == int(sum(r - 4 for r in range(SIZE)) / SIZE), average


def refused():
    """What has no answer is refused by name, before any rank waits, and the group stays usable."""
    cases = (
        (torch.float8_e4m3fnuz, OP.SUM, "SUM cannot reduce float8_e4m3fnuz"),
        (torch.float32, OP.BAND, "BAND reduces whole numbers and truth values, not float32"),
        (torch.bool, OP.AVG, "AVG cannot reduce bool"),
        (torch.int32, dist._make_nccl_premul_sum(2.0), "PREMUL_SUM reduces float16"),
    )
    for dtype, op, words in cases:
        try:
            dist.all_reduce(torch.zeros(2).to(dtype), op)
        except TypeError as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"{dtype} {op} was not refused")
    for call in (
        lambda: dist.all_reduce(torch.zeros(2).to_sparse()),
        lambda: dist.all_reduce(torch.zeros(2, device="meta")),
        lambda: dist.all_gather_into_tensor(torch.zeros(3), torch.zeros(2)),
    ):
        try:
            call()
        except (ValueError, RuntimeError) as error:
            print("refused:", str(error).splitlines()[0])
        else:
            raise AssertionError("was not refused")
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == SIZE


for case in (reductions, moves, uneven, strided, beyond_gloo, refused):
    case()
    print(f"ok {case.__name__}")
dist.destroy_process_group()
