"""CUDA operations of torch, carried out by their CPU kernels over the same memory.

FakeGPU's CUDA runtime keeps device memory in this process's address space, so a CUDA tensor can be seen as a CPU
tensor without a copy. For every ATen operation that has a CUDA and a CPU kernel, :func:`install` registers a CUDA
kernel that looks at the arguments in this way, calls the operation again, and puts fresh results into CUDA tensors.
It sits below autograd, so gradients, hooks, autocast and DDP's reducer see CUDA tensors throughout.

Work that is queued on the current stream (copies, collectives) ends before an operation runs. Views, allocation and
copies of single numbers keep torch's own CUDA code. What has no CPU kernel is written in :mod:`fakegpu.kernels`, or
stays a kernel launch, which FakeGPU's runtime refuses by the kernel's name.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from typing import Any

import torch

from . import kernels, native
from .generators import Seeded
from .streams import drain

_CPU = torch.device("cpu")

#: Operations of memory and metadata: torch's own code needs no kernel for them.
_OWN = frozenset(
    """
    empty empty_strided empty_like new_empty new_empty_strided _efficientzerotensor set_ resize_ resize_as_
    _resize_output_ is_set_to record_stream is_pinned _pin_memory pin_memory _local_scalar_dense
    _has_compatible_shallow_copy_type cudnn_is_acceptable _copy_from _copy_from_and_resize _fused_sdp_choice
    _cudnn_init_dropout_state
    """.split()
)

#: Operations without a CUDA kernel of their own that would launch one all the same.
_ALSO = frozenset({"aten::copy_", "aten::convolution"})

#: Below this many bytes a result is copied with the interpreter lock held, which is quicker.
_SMALL = 1 << 16

_construct_storage = torch._C._construct_storage_from_data_pointer


def as_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """The CPU tensor over a CUDA tensor's memory."""
    if tensor.numel() == 0:
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=_CPU)
    storage = tensor.untyped_storage()
    seen = torch.empty(0, dtype=tensor.dtype, device=_CPU)
    seen.set_(
        _construct_storage(storage.data_ptr(), _CPU, storage.nbytes()),
        tensor.storage_offset(),
        tensor.size(),
        tensor.stride(),
    )
    if tensor.is_conj():
        seen = torch._conj(seen)
    if tensor.is_neg():
        seen = torch._neg_view(seen)
    return seen


def as_cuda(result: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A CUDA tensor with a CPU result's layout and values."""
    if result.layout != torch.strided:
        return result.to(device)
    made = torch.empty_strided(result.size(), result.stride(), dtype=result.dtype, device=device)
    if result.numel() == 0:
        return made
    size = made.untyped_storage().nbytes()
    plain = not (result.is_conj() or result.is_neg())
    if plain and size < _SMALL and result.untyped_storage().nbytes() - result.storage_offset() * result.itemsize >= size:
        ctypes.memmove(made.data_ptr(), result.data_ptr(), size)
    else:
        as_cpu(made).copy_(result)
    return made


class _Call:
    """One call: arguments seen as the CPU sees them, and the way back."""

    __slots__ = ("device", "seen")

    def __init__(self) -> None:
        self.device: torch.device | None = None
        self.seen: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def see(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if value.device.type != "cuda":
                return value
            self.device = value.device
            if value.layout != torch.strided:
                # A sparse tensor is two tensors; nothing writes to it here.
                return value.cpu()
            cpu = as_cpu(value)
            self.seen[id(cpu)] = (value, cpu)
            return cpu
        kind = type(value)
        if kind is list or kind is tuple:
            return kind(self.see(each) for each in value)
        if kind is torch.device and value.type == "cuda":
            self.device = self.device or value
            return _CPU
        return value

    def settle(self) -> None:
        """An ``out`` that the CPU kernel resized is resized as the program sees it."""
        for value, cpu in self.seen.values():
            same = value.size() == cpu.size() and value.stride() == cpu.stride()
            if same and (value.numel() == 0 or value.data_ptr() == cpu.data_ptr()):
                continue
            if value.size() != cpu.size():
                value.resize_(cpu.size())
            if value.stride() != cpu.stride():
                value.set_(as_cuda(cpu, value.device))
                continue
            if cpu.numel():
                as_cpu(value).copy_(cpu)

    def back(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            known = self.seen.get(id(value))
            if known is not None:
                return known[0]
            device = self.device
            if device is None:
                device = torch.device("cuda", torch.cuda.current_device())
            return as_cuda(value, device)
        kind = type(value)
        if kind is list or kind is tuple:
            return kind(self.back(each) for each in value)
        return value


def _kernel(operation: Callable[..., Any], name: str, random: bool) -> Callable[..., Any]:
    """The CUDA kernel of an operation."""

    def run(*args: Any, **kwargs: Any) -> Any:
        call = _Call()
        args = call.see(args)
        kwargs = {key: call.see(value) for key, value in kwargs.items()}
        drain(name, call.device)
        try:
            if random:
                with Seeded(args, kwargs, call.device) as seeded:
                    result = operation(*seeded.args, **seeded.kwargs)
            else:
                result = operation(*args, **kwargs)
        except RuntimeError as error:
            if "not implemented for" in str(error):
                error.add_note(f"FakeGPU runs CUDA operations by their CPU kernels, and {name} has none for this type")
            raise
        call.settle()
        return call.back(result)

    return run


def _is_view(operation: Any) -> bool:
    returns = operation._schema.returns
    return any(each.alias_info is not None and not each.alias_info.is_write for each in returns)


def _overload(full: str) -> Any | None:
    base, _, overload = full.removeprefix("aten::").partition(".")
    packet = getattr(torch.ops.aten, base, None)
    return getattr(packet, overload or "default", None)


class Installed:
    """What was installed, and what was not for want of a CPU kernel."""

    def __init__(self) -> None:
        self.library = torch.library.Library("aten", "IMPL")
        self.names: list[str] = []
        self.native: list[str] = []
        self.left: list[str] = []
        self._plain: list[str] = []

    def add(self, full: str, kernel: Callable[..., Any]) -> None:
        with warnings.catch_warnings():
            # torch says that its own kernel is overridden, which is the point.
            warnings.simplefilter("ignore")
            self.library.impl(full.removeprefix("aten::"), kernel, "CUDA")
        self.names.append(full)

    def consider(self, full: str) -> None:
        base = full.removeprefix("aten::").partition(".")[0]
        has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key(full, "CUDA") or full in _ALSO
        if base in _OWN or not has_kernel:
            return
        operation = _overload(full)
        if operation is None or _is_view(operation):
            return
        written = kernels.WRITTEN.get(full)
        has_cpu = full in _ALSO or torch._C._dispatch_has_computed_kernel_for_dispatch_key(full, "CPU")
        if written is None and not has_cpu:
            self.left.append(full)
            return
        random = torch.Tag.nondeterministic_seeded in operation.tags
        if written is None and not random:
            self._plain.append(full)
        else:
            self.add(full, _kernel(written or operation, full, random))

    def finish(self) -> None:
        """Installs what needs nothing of Python: natively where `fakegpu setup torch` has built that."""
        if native.load():
            torch.ops.fakegpu.install([full.removeprefix("aten::") for full in self._plain])
            self.native = self._plain
            return
        for full in self._plain:
            self.add(full, _kernel(_overload(full), full, False))


def _choose_math(*_args: Any, **_kwargs: Any) -> int:
    """Attention by plain operations: flash and memory-efficient attention are kernels."""
    return int(torch.nn.attention.SDPBackend.MATH.value) if hasattr(torch.nn, "attention") else 0


_installed: Installed | None = None


def install() -> Installed:
    """Installs the kernels, once."""
    global _installed
    if _installed is None:
        installed = Installed()
        for full in torch._C._dispatch_get_all_op_names():
            if full.startswith("aten::"):
                installed.consider(full)
        installed.finish()
        installed.add("aten::_fused_sdp_choice", _choose_math)
        # These libraries are kernels too; torch then uses operations that have CPU kernels.
        torch.backends.cudnn.enabled = False
        torch.backends.cuda.enable_flash_sdp(False)
        torch.backends.cuda.enable_mem_efficient_sdp(False)
        torch.backends.cuda.enable_cudnn_sdp(False)
        _installed = installed
    return _installed
