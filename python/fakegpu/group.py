"""The process group: torch's collectives on CPU tensors, carried out by FakeGPU's libnccl.

It is a subclass of torch's `ProcessGroup` and not of its `Backend`, because works that pass through torch's own group
lose everything but `wait` and `get_future`.

One communicator and one lane carry the group's collectives in the order of their calls. A call that waits anyway runs
in its own thread where nothing is before it; asynchronous ones never block the caller.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor
from torch.distributed import DistBackendError, ProcessGroup, ReduceOp
from torch._C._distributed_c10d import Backend as C10dBackend
from torch._C._distributed_c10d import PrefixStore

from fakegpu import BACKEND, dtypes, helpers, nccl
from fakegpu.dtypes import Reduction
from fakegpu.lane import DRAIN_SECONDS, Lane, Task
from fakegpu.nccl import Communicator, NcclError
from fakegpu.pairs import Pairs, Place
from fakegpu.work import Work, joined

_Tensors = "Sequence[Tensor] | Tensor"

# Beyond this the coordinator's own time-outs are shorter.
_COORDINATOR_SECONDS = 540.0

_TIMEOUT_VARIABLE = "FAKEGPU_COLLECTIVE_TIMEOUT_MS"


def create(options: Any) -> Group:
    """Makes this rank's part of a group; returns when all its ranks have."""
    timeout = options.timeout.total_seconds()
    if timeout < _COORDINATOR_SECONDS:
        # The coordinator says who is missing and what it does instead; our own watch could only say that it took long.
        os.environ.setdefault(_TIMEOUT_VARIABLE, str(max(1, int(timeout * 1000))))
    store, rank, size = _own(options.store), options.group_rank, options.group_size
    try:
        if rank == 0:
            store.set("id", nccl.library().unique_id().to_bytes())
        comm_id = store.get("id")
        group = Group(store, rank, size, timeout, lambda: Communicator.join(comm_id, rank, size))
    except (OSError, NcclError) as error:
        raise DistBackendError(f"{error}\n(in making process group {options.group_id} as rank {rank} of {size})") from None
    return group


def _own(store: Any) -> Any:
    """The same store over a connection of its own, where torch can: a thread that waits in one blocks all others."""
    try:
        return store.clone()
    except (AttributeError, RuntimeError):
        return store


class Group(ProcessGroup):
    """One rank's part of a process group."""

    supports_coalescing = False
    supports_splitting = True
    _supports_time_estimate = False
    supports_shrinking = False

    def __init__(self, store: Any, rank: int, size: int, timeout: float, join: Callable[[], Communicator]) -> None:
        super().__init__(rank, size)
        self._store = store
        self._timeout = timeout
        self._name = self._desc = ""
        place = Place(rank, size, timeout, store, self._describe)
        self._pairs = Pairs(place, self._failure)
        self._lane = Lane("fakegpu-collectives")
        self._comm = self._lane.adopt(join())
        self._pairs.directory.publish()
        self._coalesced: list[Work] | None = None
        self._stand_in = _stand_in_for(self)
        _groups.add(self)

    # ---- what torch asks about the group ----

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        return BACKEND

    def name(self) -> str:
        return BACKEND

    def _get_backend_name(self) -> str:
        return BACKEND

    def getRank(self) -> int:  # noqa: N802
        return self._comm.rank

    def getSize(self) -> int:  # noqa: N802
        return self._comm.size

    rank = getRank
    size = getSize

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def _get_backend(self, device: Any = None) -> Group:
        device = torch.device(device) if device is not None else torch.device("cpu")
        if device.type != "cpu":
            raise RuntimeError(f"the process group on backend {BACKEND} serves CPU tensors, not {device.type}")
        return self

    get_backend = _get_backend

    def get_group_store(self) -> Any:
        return self._store

    # torch keeps names in its backends, of which this group has none.

    def getGroupName(self) -> str:  # noqa: N802
        return self._name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        self._name = name

    def getGroupDesc(self) -> str:  # noqa: N802
        return self._desc

    def setGroupDesc(self, desc: str) -> None:  # noqa: N802
        self._desc = desc

    _set_group_name = setGroupName
    _set_group_desc = setGroupDesc
    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)

    def _set_sequence_number_for_group(self) -> None:
        """Nothing: the coordinator counts operations."""

    def eager_connect_single_device(self, device: Any) -> None:
        """Nothing: groups are connected when they are made."""

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout.total_seconds()

    _set_default_timeout = set_timeout

    def _describe(self, title: str) -> str:
        return f"{title}, by rank {self._comm.rank} of {self._comm.size} in group {self._name or '?'}"

    def _failure(self) -> str | None:
        return self._comm.failure()

    # ---- running operations ----

    def _submit(self, title: str, tensors: list[Tensor], opts: Any, run: Callable[[], None]) -> Work:
        """Runs an operation in the group's order: here if the caller waits for it anyway, else in the lane's thread."""
        work = Work(self._describe(title), tensors)
        task = Task(work, run, self._time_for(opts))
        if getattr(opts, "asyncOp", True) or self._coalesced is not None:
            self._lane.submit(task)
        else:
            self._lane.run(task)
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _time_for(self, opts: Any) -> float:
        given = getattr(opts, "timeout", None)
        seconds = given.total_seconds() if given is not None else 0.0
        return seconds if seconds > 0 else self._timeout

    @contextlib.contextmanager
    def _operator(self, plan: Reduction) -> Iterator[int]:
        """The ncclRedOp_t of a reduction."""
        if plan.factor is None:
            yield plan.code
            return
        scalar = torch.as_tensor(plan.factor).reshape(1).to(plan.wire)
        with self._comm.pre_mul_sum(scalar.data_ptr(), dtypes.NATIVE[plan.wire]) as op:
            yield op

    def _gathered(self, buffer: Tensor) -> Tensor:
        """Every rank's elements, one row a rank."""
        rows = torch.empty((self._comm.size, buffer.numel()), dtype=buffer.dtype)
        self._comm.all_gather(buffer.data_ptr(), rows.data_ptr(), *dtypes.moved(buffer))
        return rows

    # ---- reductions ----

    def allreduce(self, tensors: _Tensors, opts: Any = None) -> Work:
        tensors = _listed(tensors)
        op = _op_of(opts)
        plans = [dtypes.reduction(_on_cpu(tensor).dtype, op) for tensor in tensors]

        def run() -> None:
            with _several(self._comm, tensors):
                writes = [self._all_reduce(tensor, plan) for tensor, plan in zip(tensors, plans)]
            for write in writes:
                write()

        return self._submit(f"all_reduce({dtypes.name(op)}) of {_shapes(tensors)}", tensors, opts, run)

    def allreduce_coalesced(self, tensors: _Tensors, opts: Any = None) -> Work:
        return self.allreduce(tensors, opts)

    def allreduce_sparse(self, tensors: _Tensors, opts: Any = None) -> Work:
        raise NotImplementedError(f"{BACKEND} does not reduce sparse tensors: make them dense, or use gloo")

    def _all_reduce(self, tensor: Tensor, plan: Reduction) -> Callable[[], None]:
        """Calls NCCL; the result is in place once what is returned has been called, after the group's end."""
        target, buffer = _staged(tensor, plan.wire)
        if plan.fold is not None:
            return _write(target, lambda: functools.reduce(plan.fold, self._gathered(buffer)))
        with self._operator(plan) as op:
            pointer = buffer.data_ptr()
            self._comm.all_reduce(pointer, pointer, buffer.numel(), dtypes.NATIVE[plan.wire], op)
        return _write(target, lambda: buffer)

    def reduce(self, tensors: _Tensors, opts: Any) -> Work:
        tensors = _listed(tensors)
        op, root = _op_of(opts), opts.rootRank
        plans = [dtypes.reduction(_on_cpu(tensor).dtype, op) for tensor in tensors]

        def run() -> None:
            for tensor, plan in zip(tensors, plans):
                self._reduce(tensor, plan, root)

        return self._submit(f"reduce({dtypes.name(op)}) to rank {root} of {_shapes(tensors)}", tensors, opts, run)

    def _reduce(self, tensor: Tensor, plan: Reduction, root: int) -> None:
        target, buffer = _staged(tensor, plan.wire)
        is_root = self._comm.rank == root
        if plan.fold is not None:
            rows = self._gathered(buffer)
            if is_root:
                _write(target, lambda: functools.reduce(plan.fold, rows))()
            return
        with self._operator(plan) as op:
            pointer = buffer.data_ptr()
            self._comm.reduce(pointer, pointer, buffer.numel(), dtypes.NATIVE[plan.wire], op, root)
        if is_root:
            _write(target, lambda: buffer)()

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    def reduce_scatter_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Work:
        op = _op_of(opts)
        for output, tensor in zip(outputs, inputs):
            self._check_whole("reduce_scatter", part=output, whole=tensor)
        plans = [dtypes.reduction(_on_cpu(tensor).dtype, op) for tensor in inputs]

        def run() -> None:
            with _several(self._comm, outputs):
                writes = [self._reduce_scatter(o, i, plan) for o, i, plan in zip(outputs, inputs, plans)]
            for write in writes:
                write()

        return self._submit(f"reduce_scatter({dtypes.name(op)}) into {_shapes(outputs)}", outputs, opts, run)

    def _reduce_scatter(self, output: Tensor, tensor: Tensor, plan: Reduction) -> Callable[[], None]:
        target, buffer = _staged(output, plan.wire, is_read=False)
        _, whole = _staged(tensor, plan.wire)
        if plan.fold is not None:
            rows = torch.empty((self._comm.size, buffer.numel()), dtype=plan.wire)
            self._comm.all_to_all(whole.data_ptr(), rows.data_ptr(), *dtypes.moved(buffer))
            return _write(target, lambda: functools.reduce(plan.fold, rows))
        with self._operator(plan) as op:
            count, code = buffer.numel(), dtypes.NATIVE[plan.wire]
            self._comm.reduce_scatter(whole.data_ptr(), buffer.data_ptr(), count, code, op)
        return _write(target, lambda: (whole, buffer)[1])

    def reduce_scatter(self, outputs: _Tensors, inputs: list[Any], opts: Any = None) -> Work:
        outputs, lists = _listed(outputs), _lists(inputs)
        op = _op_of(opts)
        plans = [dtypes.reduction(_on_cpu(output).dtype, op) for output in outputs]
        for parts in lists:
            self._check_parts("reduce_scatter", parts)

        def run() -> None:
            for output, parts, plan in zip(outputs, lists, plans):
                if _are_equal(parts):
                    self._reduce_scatter(output, _flat(parts), plan)()
                else:
                    self._reduce_scatter_uneven(output, parts, plan)

        return self._submit(f"reduce_scatter({dtypes.name(op)}) into {_shapes(outputs)}", outputs, opts, run)

    def _reduce_scatter_uneven(self, output: Tensor, parts: list[Tensor], plan: Reduction) -> None:
        """As NCCL's users do it: one reduction a rank."""
        for root, part in enumerate(parts):
            own = part.detach().clone()
            self._reduce(own, plan, root)
            if root == self._comm.rank:
                _copy(output, own)

    # ---- moves ----

    def broadcast(self, tensors: _Tensors, opts: Any) -> Work:
        tensors = _listed(tensors)
        root = opts if isinstance(opts, int) else opts.rootRank

        def run() -> None:
            for tensor in tensors:
                with _contiguous(tensor) as buffer:
                    pointer = buffer.data_ptr()
                    self._comm.broadcast(pointer, pointer, *dtypes.moved(buffer), root)

        return self._submit(f"broadcast from rank {root} of {_shapes(tensors)}", tensors, opts, run)

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        return self.all_gather_single_coalesced([output], [input], opts)

    def all_gather_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Work:
        for output, tensor in zip(outputs, inputs):
            self._check_whole("all_gather", part=tensor, whole=output)

        def run() -> None:
            with contextlib.ExitStack() as buffers:
                wholes = [buffers.enter_context(_contiguous(output)) for output in outputs]
                parts = [tensor.detach().contiguous() for tensor in inputs]
                with _several(self._comm, outputs):
                    for whole, part in zip(wholes, parts):
                        self._comm.all_gather(part.data_ptr(), whole.data_ptr(), *dtypes.moved(part))

        return self._submit(f"all_gather of {_shapes(inputs)}", outputs, opts, run)

    def allgather(self, outputs: list[Any], inputs: _Tensors, opts: Any = None) -> Work:
        lists, inputs = _lists(outputs), _listed(inputs)
        for parts in lists:
            self._check_parts("all_gather", parts)

        def run() -> None:
            for parts, tensor in zip(lists, inputs):
                if _are_equal(parts):
                    self._gather_into(parts, tensor.detach().contiguous(), self._comm.all_gather)
                else:
                    self._all_gather_uneven(parts, tensor)

        return self._submit(f"all_gather of {_shapes(inputs)}", [t for parts in lists for t in parts], opts, run)

    def _gather_into(self, parts: list[Tensor], own: Tensor, gather: Callable[..., None], *more: int) -> None:
        if own.numel() != parts[0].numel():
            raise NcclError(f"this rank gives {own.numel()} elements and has room for {parts[0].numel()} of each rank")
        rows = torch.empty((len(parts), own.numel()), dtype=own.dtype)
        gather(own.data_ptr(), rows.data_ptr(), *dtypes.moved(own), *more)
        for part, row in zip(parts, rows):
            _copy(part, row.view(part.shape))

    def _all_gather_uneven(self, parts: list[Tensor], own: Tensor) -> None:
        """As NCCL's users do it: one broadcast a rank."""
        for root, part in enumerate(parts):
            if root == self._comm.rank:
                _copy(part, own.view(part.shape))
            with _contiguous(part) as buffer:
                pointer = buffer.data_ptr()
                self._comm.broadcast(pointer, pointer, *dtypes.moved(buffer), root)

    def allgather_coalesced(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Work:
        """`outputs` has one list a rank."""
        return self.allgather([list(column) for column in zip(*outputs)], inputs, opts)

    def gather(self, outputs: list[Any], inputs: _Tensors, opts: Any) -> Work:
        lists, inputs, root = _lists(outputs), _listed(inputs), opts.rootRank
        is_root = self._comm.rank == root
        if is_root:
            for parts in lists:
                self._check_parts("gather", parts)

        def run() -> None:
            for at, tensor in enumerate(inputs):
                own = tensor.detach().contiguous()
                if is_root:
                    self._gather_into(lists[at], own, self._comm.gather, root)
                else:
                    self._comm.gather(own.data_ptr(), 0, *dtypes.moved(own), root)

        return self._submit(f"gather to rank {root} of {_shapes(inputs)}", [t for p in lists for t in p], opts, run)

    def gather_single(self, output: Tensor, input: Tensor, opts: Any) -> Work:
        root = opts.rootRank
        is_root = self._comm.rank == root
        if is_root:
            self._check_whole("gather", part=input, whole=output)

        def run() -> None:
            own = input.detach().contiguous()
            if not is_root:
                self._comm.gather(own.data_ptr(), 0, *dtypes.moved(own), root)
                return
            with _contiguous(output) as whole:
                self._comm.gather(own.data_ptr(), whole.data_ptr(), *dtypes.moved(own), root)

        return self._submit(f"gather to rank {root} of {_shapes([input])}", [output], opts, run)

    def scatter(self, outputs: _Tensors, inputs: list[Any], opts: Any) -> Work:
        outputs, lists, root = _listed(outputs), _lists(inputs), opts.rootRank
        if self._comm.rank == root:
            for parts in lists:
                self._check_parts("scatter", parts)

        def run() -> None:
            for at, output in enumerate(outputs):
                whole = _flat(lists[at]) if self._comm.rank == root else None
                with _contiguous(output) as buffer:
                    source = whole.data_ptr() if whole is not None else 0
                    self._comm.scatter(source, buffer.data_ptr(), *dtypes.moved(buffer), root)

        return self._submit(f"scatter from rank {root} of {_shapes(outputs)}", outputs, opts, run)

    def all_to_all_single(
        self, output: Tensor, input: Tensor, output_splits: list[int], input_splits: list[int], opts: Any = None
    ) -> Work:
        size = self._comm.size
        is_even = not output_splits and not input_splits
        if is_even and (output.numel() != input.numel() or (input.dim() and input.size(0) % size)):
            raise ValueError(f"all_to_all: {tuple(input.shape)} and {tuple(output.shape)} cannot be cut into {size} equal parts")

        def run() -> None:
            source = input.detach().contiguous()
            with _contiguous(output) as target:
                if is_even:
                    count, code = dtypes.moved(source)
                    self._comm.all_to_all(source.data_ptr(), target.data_ptr(), count // size, code)
                else:
                    self._exchange(_cut(source, input_splits, size), _cut(target, output_splits, size))

        return self._submit(f"all_to_all of {_shapes([input])}", [output], opts, run)

    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Work:
        self._check_parts("all_to_all", outputs)
        self._check_parts("all_to_all", inputs)

        def run() -> None:
            with contextlib.ExitStack() as buffers:
                targets = [buffers.enter_context(_contiguous(output)) for output in outputs]
                self._exchange([tensor.detach().contiguous() for tensor in inputs], targets)

        return self._submit(f"all_to_all of {_shapes(inputs)}", list(outputs), opts, run)

    def _exchange(self, sources: list[Tensor], targets: list[Tensor]) -> None:
        """Part `r` goes to rank `r`; what rank `r` sends lands in target `r`."""
        with self._comm.group():
            for peer, (source, target) in enumerate(zip(sources, targets)):
                self._comm.send(source.data_ptr(), *dtypes.moved(source), peer)
                self._comm.recv(target.data_ptr(), *dtypes.moved(target), peer)

    def barrier(self, opts: Any = None) -> Work:
        byte = torch.zeros(1, dtype=torch.uint8)
        return self._submit("barrier", [byte], opts, lambda: self._comm.barrier(byte.data_ptr()))

    def monitored_barrier(self, opts: Any = None, wait_all_ranks: bool = False) -> None:
        """A barrier; whoever is missing is named by the coordinator."""
        self.barrier(opts).wait()

    # Names of torch before 2.13.
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    gather_into_tensor = gather_single
    alltoall_base = all_to_all_single

    # ---- point to point ----

    def send(self, tensors: _Tensors, dst: int, tag: int = 0) -> Work:
        return self._coalesce(self._pairs.send(_on_cpu(_one(tensors)), dst, tag))

    def recv(self, tensors: _Tensors, src: int, tag: int = 0) -> Work:
        return self._coalesce(self._pairs.recv(_on_cpu(_one(tensors)), src, tag))

    def recv_anysource(self, tensors: _Tensors, tag: int = 0) -> Work:
        return self._coalesce(self._pairs.recv_any(_on_cpu(_one(tensors)), tag))

    def _coalesce(self, work: Work) -> Work:
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _start_coalescing(self, device: Any = None) -> None:
        """Collects works up to `_end_coalescing`. Operations start at once: none of them waits for another."""
        self._coalesced = []

    def _end_coalescing(self, device: Any = None) -> Work:
        works, self._coalesced = self._coalesced or [], None
        return joined(self._describe("a batch"), works)

    start_coalescing = _start_coalescing
    end_coalescing = _end_coalescing

    # ---- groups out of this one, and the end ----

    def split_group(
        self,
        ranks: list[int],
        timeout: timedelta | None = None,
        opts: Any = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: Any = None,
    ) -> Group | None:
        """The group of `ranks`, in that order; `None` outside. Every rank of this group calls it."""
        box: list[Communicator | None] = []
        work = Work(self._describe(f"split into {ranks}"), [])
        self._lane.run(Task(work, lambda: box.append(self._comm.split(ranks)), self._timeout))
        work.wait()
        comm = box[0]
        if comm is None:
            return None
        name = group_name or f"split:{'-'.join(map(str, ranks))}"
        seconds = timeout.total_seconds() if timeout is not None else self._timeout
        child = Group(PrefixStore(f"{name}/", self._store), comm.rank, comm.size, seconds, lambda: comm)
        child._set_group_name(name)
        child._set_group_desc(group_desc or f"split of {self._name}")
        return child

    def shutdown(self) -> None:
        """Ends the group in order: what is under way has a while to end."""
        if self in _groups:
            _groups.discard(self)
            self._lane.close(time.monotonic() + DRAIN_SECONDS)
            self._pairs.close()

    def abort(self) -> None:
        """Ends the group at once; operations under way fail."""
        _groups.discard(self)
        reason = "the process group was aborted"
        self._lane.give_up(reason)
        self._pairs.abort(reason)

    # ---- checks ----

    def _check_whole(self, title: str, part: Tensor, whole: Tensor) -> None:
        _on_cpu(part), _on_cpu(whole)
        if whole.numel() != part.numel() * self._comm.size or whole.dtype != part.dtype:
            raise ValueError(
                f"{title}: {_shapes([whole])} is not {self._comm.size} times {_shapes([part])}: "
                "the whole has one part for each rank, of the same type"
            )

    def _check_parts(self, title: str, parts: list[Tensor]) -> None:
        if len(parts) != self._comm.size:
            raise ValueError(f"{title}: {len(parts)} tensors were given for {self._comm.size} ranks: give one for each")
        for part in parts:
            _on_cpu(part)


def _stand_in_for(group: Group) -> object | None:
    """A C++ backend with our name and nothing else, for torch's hooks that ask a group for its backends; `None` where
    this torch has neither such hooks nor backends in Python (before 2.10)."""
    try:
        backend = _StandIn(group.rank(), group.size())
    except TypeError:
        return None
    custom = ProcessGroup.BackendType.CUSTOM
    group._register_backend(torch.device("cpu"), custom, backend)
    group._set_default_backend(custom)
    return backend


class _StandIn(C10dBackend):
    def getBackendName(self) -> str:  # noqa: N802
        return BACKEND


_groups: weakref.WeakSet[Group] = weakref.WeakSet()


def _leave() -> None:
    """A program that ends without destroying its groups: who waits to meet this rank is told."""
    for group in list(_groups):
        group._pairs.directory.say_left()


helpers.at_farewell(_leave)


# ---- tensors ----


def _listed(tensors: _Tensors) -> list[Tensor]:
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    for tensor in tensors:
        _on_cpu(tensor)
    return tensors


def _lists(lists: list[Any]) -> list[list[Tensor]]:
    """Lists of tensors; one list alone is taken as the only one."""
    if lists and isinstance(lists[0], Tensor):
        return [list(lists)]
    return [list(tensors) for tensors in lists]


def _one(tensors: _Tensors) -> Tensor:
    tensors = _listed(tensors)
    if len(tensors) != 1:
        raise ValueError(f"a message is one tensor, not {len(tensors)}")
    return tensors[0]


def _on_cpu(tensor: Tensor) -> Tensor:
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        raise ValueError(
            f"backend {BACKEND} takes dense CPU tensors, and was given a {tensor.layout} tensor on {tensor.device}"
        )
    return tensor


def _op_of(opts: Any) -> Any:
    if opts is None:
        return ReduceOp.SUM
    return getattr(opts, "reduceOp", opts)


def _several(comm: Communicator, tensors: list[Tensor]) -> contextlib.AbstractContextManager[None]:
    """One NCCL group around several calls; nothing around a single one."""
    return comm.group() if len(tensors) > 1 else contextlib.nullcontext()


def _staged(tensor: Tensor, wire: torch.dtype, is_read: bool = True) -> tuple[Tensor, Tensor]:
    """A tensor as what is reduced, and a contiguous buffer of the wire type: itself, where it can be."""
    target = dtypes.view(tensor.detach())
    if target.dtype == wire and target.is_contiguous():
        return target, target
    if not is_read:
        return target, torch.empty(target.shape, dtype=wire)
    return target, target.to(wire).contiguous()


def _write(target: Tensor, result: Callable[[], Tensor]) -> Callable[[], None]:
    """Puts a result where it belongs, when called."""

    def write() -> None:
        value = result()
        if value is not target:
            _copy(target, value.view(target.shape))

    return write


def _copy(target: Tensor, value: Tensor) -> None:
    with torch.inference_mode():
        target.detach().copy_(value)


@contextlib.contextmanager
def _contiguous(tensor: Tensor) -> Iterator[Tensor]:
    """The tensor, or a contiguous copy that is written back."""
    tensor = tensor.detach()
    if tensor.is_contiguous():
        yield tensor
        return
    buffer = tensor.contiguous()
    yield buffer
    _copy(tensor, buffer)


def _are_equal(parts: list[Tensor]) -> bool:
    return all(part.numel() == parts[0].numel() for part in parts)


def _flat(parts: list[Tensor]) -> Tensor:
    return torch.cat([part.detach().reshape(-1) for part in parts])


def _cut(tensor: Tensor, splits: list[int], size: int) -> list[Tensor]:
    """A contiguous tensor's rows, so many for each rank."""
    rows = tensor.size(0)
    sizes = list(splits) or [rows // size] * size
    if len(sizes) != size or sum(sizes) != rows:
        raise NcclError(f"all_to_all: the splits {sizes} do not make up {rows} rows for {size} ranks")
    return list(tensor.split(sizes))


def _shapes(tensors: Sequence[Tensor]) -> str:
    if not tensors:
        return "nothing"
    first = tensors[0]
    more = f" and {len(tensors) - 1} more" if len(tensors) > 1 else ""
    return f"{first.numel()} x {str(first.dtype).removeprefix('torch.')}{more}"
