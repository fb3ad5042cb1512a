"""Which NCCL type carries a torch type, and what NCCL reduces for it.

Bytes that only move can be of any type. Reductions need one of NCCL's types; `reduction` says how a torch type and
operator get there, or why they cannot.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Callable

import torch
from torch import Tensor
from torch.distributed import ReduceOp

from fakegpu import nccl

NATIVE: dict[torch.dtype, int] = {
    torch.int8: 0,
    torch.uint8: 1,
    torch.int32: 2,
    torch.uint32: 3,
    torch.int64: 4,
    torch.uint64: 5,
    torch.float16: 6,
    torch.float32: 7,
    torch.float64: 8,
    torch.bfloat16: 9,
    torch.float8_e4m3fn: 10,
    torch.float8_e5m2: 11,
}

# Reduced in a wider type, and cut back: the low bits are the same.
WIDENED: dict[torch.dtype, torch.dtype] = {torch.int16: torch.int32, torch.uint16: torch.int32}

_OP = ReduceOp.RedOpType

_CODES = {_OP.SUM: nccl.SUM, _OP.PRODUCT: nccl.PROD, _OP.MAX: nccl.MAX, _OP.MIN: nccl.MIN, _OP.AVG: nccl.AVG}

# What a sum and a product of truth values mean, in NCCL's words.
_BOOL_CODES = {
    _OP.SUM: nccl.MAX,
    _OP.MAX: nccl.MAX,
    _OP.BOR: nccl.MAX,
    _OP.PRODUCT: nccl.MIN,
    _OP.MIN: nccl.MIN,
    _OP.BAND: nccl.MIN,
}

_FOLDS: dict[object, Callable[[Tensor, Tensor], Tensor]] = {
    _OP.BAND: torch.bitwise_and,
    _OP.BOR: torch.bitwise_or,
    _OP.BXOR: torch.bitwise_xor,
}

_LINEAR = (_OP.SUM, _OP.AVG, _OP.PREMUL_SUM)


@dataclass(frozen=True)
class Reduction:
    """How a reduction is carried out: in which type, by which operator."""

    wire: torch.dtype
    """The type that travels; elements of `view` are converted to it."""
    code: int
    """The ncclRedOp_t, unless `factor` or `fold` is there."""
    factor: float | Tensor | None = None
    """PREMUL_SUM's scalar."""
    fold: Callable[[Tensor, Tensor], Tensor] | None = None
    """Operators that NCCL lacks: every rank's elements are gathered and combined here, in rank order."""


def moved(tensor: Tensor) -> tuple[int, int]:
    """Count and NCCL type under which a contiguous tensor's bytes move."""
    code = NATIVE.get(tensor.dtype)
    if code is not None:
        return tensor.numel(), code
    return tensor.numel() * tensor.element_size(), nccl.UINT8


def view(tensor: Tensor) -> Tensor:
    """The same memory in a type that can be reduced: complex numbers as pairs, truth values as bytes."""
    if tensor.is_complex():
        return torch.view_as_real(tensor)
    return tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor


def kind(op: ReduceOp | ReduceOp.RedOpType) -> ReduceOp.RedOpType:
    """The operator without its scalar."""
    return getattr(op, "op", op)


def name(op: ReduceOp | ReduceOp.RedOpType) -> str:
    return str(kind(op)).rsplit(".", 1)[-1]


def reduction(dtype: torch.dtype, op: ReduceOp | ReduceOp.RedOpType) -> Reduction:
    """How `op` reduces elements of `dtype`.

    Raises TypeError where it cannot."""
    if kind(op) == _OP.PREMUL_SUM:
        return _scaled(dtype, op)
    return _plain(dtype, kind(op))


def _scaled(dtype: torch.dtype, op: ReduceOp) -> Reduction:
    if dtype not in (torch.float16, torch.float32, torch.float64, torch.bfloat16):
        raise TypeError(f"PREMUL_SUM reduces float16, float32, float64 and bfloat16, not {_short(dtype)}")
    return Reduction(dtype, nccl.SUM, factor=op.__getstate__()[1])


@functools.lru_cache(maxsize=None)
def _plain(dtype: torch.dtype, op: ReduceOp.RedOpType) -> Reduction:
    if dtype.is_complex:
        if op not in _LINEAR:
            raise TypeError(f"{name(op)} of complex numbers has no meaning: only SUM and AVG reduce {_short(dtype)}")
        return _plain(dtype.to_real(), op)
    if dtype == torch.bool and op in _BOOL_CODES:
        return Reduction(torch.uint8, _BOOL_CODES[op])
    if op in _FOLDS:
        return _bitwise(dtype, op)
    wire = WIDENED.get(dtype, dtype)
    if wire not in NATIVE or dtype == torch.bool:
        raise TypeError(f"{name(op)} cannot reduce {_short(dtype)}: cast the tensor to a type that NCCL reduces, e.g. float32")
    if op not in _CODES:
        raise TypeError(f"{op} is no operator that this backend knows")
    return Reduction(wire, _CODES[op])


def _bitwise(dtype: torch.dtype, op: ReduceOp.RedOpType) -> Reduction:
    if dtype.is_floating_point:
        raise TypeError(f"{name(op)} reduces whole numbers and truth values, not {_short(dtype)}")
    wire = torch.uint8 if dtype == torch.bool else dtype
    return Reduction(wire, nccl.SUM, fold=_FOLDS[op])


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
