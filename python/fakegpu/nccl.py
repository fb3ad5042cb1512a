"""FakeGPU's libnccl.so.2 through ctypes: finding it, calling it, and its sentences as exceptions.

Calls release Python's lock while they run, so other threads go on. A call on CPU memory has ended when it returns.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
from collections.abc import Iterator
from ctypes import POINTER, c_char, c_char_p, c_int, c_size_t, c_void_p
from pathlib import Path

from fakegpu import helpers

UNIQUE_ID_BYTES = 128

# ncclRedOp_t
SUM, PROD, MAX, MIN, AVG = range(5)

# ncclDataType_t that is used by number here
UINT8 = 1
INT64 = 4

_SUCCESS = 0
_IN_PROGRESS = 7
_SCALAR_HOST_IMMEDIATE = 1
_NO_COLOUR = -1


# Threads that stand in a call.
_inside: set[int] = set()


def is_inside(thread: int) -> bool:
    """Whether a thread stands in a call."""
    return thread in _inside


class NcclError(RuntimeError):
    """A call failed; the text is what ncclGetLastError says."""


class UniqueId(ctypes.Structure):
    """The bytes by which the ranks of one communicator find each other."""

    _fields_ = [("internal", c_char * UNIQUE_ID_BYTES)]

    def to_bytes(self) -> bytes:
        return ctypes.string_at(ctypes.byref(self), UNIQUE_ID_BYTES)

    @classmethod
    def from_bytes(cls, content: bytes) -> UniqueId:
        return cls.from_buffer_copy(content)


_PTR, _SIZE, _INT, _COMM = c_void_p, c_size_t, c_int, c_void_p

# The arguments of the functions that are called; all answer a ncclResult_t.
_SIGNATURES: dict[str, list[type]] = {
    "ncclGetUniqueId": [POINTER(UniqueId)],
    "ncclCommInitRank": [POINTER(_COMM), _INT, UniqueId, _INT],
    "ncclCommSplit": [_COMM, _INT, _INT, POINTER(_COMM), _PTR],
    "ncclCommDestroy": [_COMM],
    "ncclCommAbort": [_COMM],
    "ncclCommGetAsyncError": [_COMM, POINTER(_INT)],
    "ncclRedOpCreatePreMulSum": [POINTER(_INT), _PTR, _INT, _INT, _COMM],
    "ncclRedOpDestroy": [_INT, _COMM],
    "ncclAllReduce": [_PTR, _PTR, _SIZE, _INT, _INT, _COMM, _PTR],
    "ncclReduce": [_PTR, _PTR, _SIZE, _INT, _INT, _INT, _COMM, _PTR],
    "ncclBroadcast": [_PTR, _PTR, _SIZE, _INT, _INT, _COMM, _PTR],
    "ncclAllGather": [_PTR, _PTR, _SIZE, _INT, _COMM, _PTR],
    "ncclReduceScatter": [_PTR, _PTR, _SIZE, _INT, _INT, _COMM, _PTR],
    "ncclAlltoAll": [_PTR, _PTR, _SIZE, _INT, _COMM, _PTR],
    "ncclGather": [_PTR, _PTR, _SIZE, _INT, _INT, _COMM, _PTR],
    "ncclScatter": [_PTR, _PTR, _SIZE, _INT, _INT, _COMM, _PTR],
    "ncclSend": [_PTR, _SIZE, _INT, _INT, _COMM, _PTR],
    "ncclRecv": [_PTR, _SIZE, _INT, _INT, _COMM, _PTR],
    "ncclGroupStart": [],
    "ncclGroupEnd": [],
}


def library_folder() -> Path:
    """The folder with FakeGPU's libraries."""
    candidates = _candidates()
    for path in candidates:
        if path.is_file():
            return path.parent
    raise _not_found(candidates)


def _not_found(candidates: list[Path]) -> OSError:
    looked = ", ".join(str(path) for path in candidates)
    return OSError(
        f"FakeGPU's libnccl.so.2 was not found (looked at {looked}): start the program with `fakegpu run`, "
        "or set FAKEGPU_LIB_DIR to the folder that has it"
    )


def _candidates() -> list[Path]:
    """Where the library may be: the named folder, beside this package in a layout, inside a wheel."""
    named = os.environ.get("FAKEGPU_LIB_DIR")
    here = Path(__file__).resolve().parent
    folders = [Path(named)] if named else []
    folders += [here.parent.parent / "lib", here / "lib"]
    return [folder / "libnccl.so.2" for folder in folders]


def _open() -> ctypes.CDLL:
    """The library that the process has already (`fakegpu run` preloads it), else the first candidate."""
    loaded = ctypes.CDLL(None)
    if hasattr(loaded, "fakegpu_version"):
        return loaded
    candidates = _candidates()
    for path in candidates:
        if path.is_file():
            opened = ctypes.CDLL(str(path))
            if hasattr(opened, "fakegpu_version"):
                return opened
            raise OSError(f"{path} is not FakeGPU's library; set FAKEGPU_LIB_DIR to the folder that has it")
    raise _not_found(candidates)


class Library:
    """The opened library, its functions typed."""

    def __init__(self) -> None:
        self._dll = _open()
        self.functions = {name: self._typed(name, arguments) for name, arguments in _SIGNATURES.items()}
        self._last_error = self._dll.ncclGetLastError
        self._last_error.argtypes, self._last_error.restype = [_COMM], c_char_p
        # Older libraries do not tell barriers from all-reduces.
        self._mark_barrier = getattr(self._dll, "fakegpu_mark_barrier", None)
        if self._mark_barrier is not None:
            self._mark_barrier.argtypes, self._mark_barrier.restype = [], None

    def _typed(self, name: str, arguments: list[type]) -> ctypes._CFuncPtr:
        function = getattr(self._dll, name)
        function.argtypes, function.restype = arguments, c_int
        return function

    def check(self, code: int, comm: int | None = None) -> None:
        """Raises the library's sentence where a call failed."""
        if code != _SUCCESS:
            sentence = self._last_error(comm)
            raise NcclError(sentence.decode(errors="replace") if sentence else f"ncclResult_t {code}")

    def call(self, name: str, *arguments: object) -> None:
        """Calls a function that concerns no communicator."""
        self.check(self.invoke(name, *arguments))

    def invoke(self, name: str, *arguments: object) -> int:
        """Calls a function, and keeps the thread from Python's end when the call outlasts the program."""
        thread = threading.get_ident()
        _inside.add(thread)
        try:
            code = self.functions[name](*arguments)
            helpers.park_at_the_end()
            return code
        finally:
            _inside.discard(thread)

    def unique_id(self) -> UniqueId:
        unique_id = UniqueId()
        self.call("ncclGetUniqueId", ctypes.byref(unique_id))
        return unique_id

    @contextlib.contextmanager
    def of_host_memory(self) -> Iterator[None]:
        """Communicators that this thread makes within are for CPU tensors: of no GPU, whichever the thread sits on."""
        use = getattr(self._dll, "fakegpu_use_host_memory", None)
        if use is None:
            yield
            return
        use.argtypes, use.restype = [c_int], None
        use(1)
        try:
            yield
        finally:
            use(0)

    def mark_barrier(self) -> None:
        """The calling thread's next all-reduce counts as a barrier in reports."""
        if self._mark_barrier is not None:
            self._mark_barrier()


@functools.lru_cache(maxsize=1)
def library() -> Library:
    """The library, opened at the first call."""
    return Library()


class PreMulSum:
    """The operator that multiplies this rank's contribution by a scalar before it sums; for one call."""

    def __init__(self, comm: Communicator, scalar: int, dtype: int) -> None:
        self._comm = comm
        self._op = c_int()
        comm.call(
            "ncclRedOpCreatePreMulSum", ctypes.byref(self._op), scalar, dtype, _SCALAR_HOST_IMMEDIATE, comm.handle
        )

    def __enter__(self) -> int:
        return self._op.value

    def __exit__(self, *_: object) -> None:
        self._comm.call("ncclRedOpDestroy", self._op.value, self._comm.handle)


class NcclGroup:
    """Calls inside become one (ncclGroupStart and ncclGroupEnd); for one thread."""

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm

    def __enter__(self) -> None:
        self._comm.call("ncclGroupStart")

    def __exit__(self, kind: type | None, *_: object) -> None:
        if kind is None:
            self._comm.call("ncclGroupEnd")
            return
        # The call inside that failed has the better words.
        self._comm.library.functions["ncclGroupEnd"]()


class Communicator:
    """One rank's place in a communicator. Pointers are addresses; counts are elements of `dtype`."""

    def __init__(self, handle: int, rank: int, size: int) -> None:
        self.library = library()
        self.handle: int | None = handle
        self.rank = rank
        self.size = size

    @classmethod
    def join(cls, unique_id: bytes, rank: int, size: int) -> Communicator:
        """Joins; returns when all ranks have."""
        handle = _COMM()
        content = UniqueId.from_bytes(unique_id)
        with library().of_host_memory():
            library().call("ncclCommInitRank", ctypes.byref(handle), size, content, rank)
        assert handle.value is not None
        return cls(handle.value, rank, size)

    def split(self, ranks: list[int]) -> Communicator | None:
        """The communicator of `ranks` in that order; `None` for a rank outside. All ranks of this one call it."""
        inside = self.rank in ranks
        colour, key = (min(ranks), ranks.index(self.rank)) if inside else (_NO_COLOUR, 0)
        child = _COMM()
        self.call("ncclCommSplit", self.handle, colour, key, ctypes.byref(child), None)
        return Communicator(child.value, key, len(ranks)) if child.value else None

    def call(self, name: str, *arguments: object) -> None:
        self.library.check(self.library.invoke(name, *arguments), self.handle)

    def all_reduce(self, send: int, recv: int, count: int, dtype: int, op: int) -> None:
        self.call("ncclAllReduce", send, recv, count, dtype, op, self.handle, None)

    def barrier(self, byte: int) -> None:
        """All ranks have called when it returns; `byte` is the address of one byte."""
        self.library.mark_barrier()
        self.all_reduce(byte, byte, 1, UINT8, SUM)

    def reduce(self, send: int, recv: int, count: int, dtype: int, op: int, root: int) -> None:
        self.call("ncclReduce", send, recv, count, dtype, op, root, self.handle, None)

    def broadcast(self, send: int, recv: int, count: int, dtype: int, root: int) -> None:
        self.call("ncclBroadcast", send, recv, count, dtype, root, self.handle, None)

    def all_gather(self, send: int, recv: int, count: int, dtype: int) -> None:
        self.call("ncclAllGather", send, recv, count, dtype, self.handle, None)

    def reduce_scatter(self, send: int, recv: int, count: int, dtype: int, op: int) -> None:
        self.call("ncclReduceScatter", send, recv, count, dtype, op, self.handle, None)

    def all_to_all(self, send: int, recv: int, count: int, dtype: int) -> None:
        self.call("ncclAlltoAll", send, recv, count, dtype, self.handle, None)

    def gather(self, send: int, recv: int, count: int, dtype: int, root: int) -> None:
        self.call("ncclGather", send, recv, count, dtype, root, self.handle, None)

    def scatter(self, send: int, recv: int, count: int, dtype: int, root: int) -> None:
        self.call("ncclScatter", send, recv, count, dtype, root, self.handle, None)

    def send(self, pointer: int, count: int, dtype: int, peer: int) -> None:
        self.call("ncclSend", pointer, count, dtype, peer, self.handle, None)

    def recv(self, pointer: int, count: int, dtype: int, peer: int) -> None:
        self.call("ncclRecv", pointer, count, dtype, peer, self.handle, None)

    def group(self) -> NcclGroup:
        return NcclGroup(self)

    def pre_mul_sum(self, scalar: int, dtype: int) -> PreMulSum:
        return PreMulSum(self, scalar, dtype)

    def failure(self) -> str | None:
        """Why this communicator has failed without a call of ours in it, e.g. since a peer died; else `None`."""
        if self.handle is None:
            return None
        state = c_int()
        self.library.functions["ncclCommGetAsyncError"](self.handle, ctypes.byref(state))
        if state.value in (_SUCCESS, _IN_PROGRESS):
            return None
        sentence = self.library._last_error(self.handle)
        return sentence.decode(errors="replace") if sentence else f"ncclResult_t {state.value}"

    def abort(self) -> None:
        """Stops what is in flight, also another thread's call."""
        handle, self.handle = self.handle, None
        if handle is not None:
            self.library.functions["ncclCommAbort"](handle)

    def destroy(self) -> None:
        handle, self.handle = self.handle, None
        if handle is not None:
            self.library.functions["ncclCommDestroy"](handle)
