"""Barriers of torch are all-reduces of one element to NCCL; the library is told of each, so that reports can count them."""

from __future__ import annotations

import ctypes
import functools
from typing import Any


def install() -> None:
    """Lets `torch.distributed.barrier` say that it is one. A library without the hint is left alone."""
    import torch.distributed as dist

    if not dist.is_available():
        return
    try:
        mark = ctypes.CDLL("libnccl.so.2").fakegpu_mark_barrier
    except (OSError, AttributeError):
        return
    mark.argtypes, mark.restype = [], None
    barrier = dist.distributed_c10d.barrier

    @functools.wraps(barrier)
    def marked(*args: Any, **kwargs: Any) -> Any:
        mark()
        return barrier(*args, **kwargs)

    dist.distributed_c10d.barrier = marked
    dist.barrier = marked
