"""The queue behind the current CUDA stream: operations that run on the caller first let it end."""

from __future__ import annotations

import ctypes
import os

import torch

#: What CUDA answers in a stream that captures.
_CAPTURE_UNSUPPORTED = 900


class _Runtime:
    """FakeGPU's CUDA runtime, as this process has loaded it."""

    def __init__(self) -> None:
        library = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        self.is_idle = library.fakegpu_cuda_is_idle
        self.is_idle.restype = ctypes.c_int
        self.drain_stream = library.fakegpu_cuda_drain_stream
        self.drain_stream.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self.drain_stream.restype = ctypes.c_int


_runtime: _Runtime | None = None


def is_ours() -> bool:
    """Whether the process's CUDA runtime is FakeGPU's. Nothing is loaded for the question."""
    global _runtime
    if _runtime is None:
        try:
            _runtime = _Runtime()
        except (OSError, AttributeError):
            return False
    return True


def drain(operation: str, device: torch.device | None) -> None:
    """Ends what the current stream holds, before an operation runs on the caller; other streams go on."""
    runtime = _runtime
    if runtime is None or runtime.is_idle():
        return
    stream = torch.cuda.current_stream(device)
    outcome = runtime.drain_stream(stream.cuda_stream, stream.device_index)
    if outcome == _CAPTURE_UNSUPPORTED:
        raise RuntimeError(
            f"{operation} cannot be captured into a CUDA graph: FakeGPU runs operations when they are called, so a "
            "graph replays copies and collectives only. Run this part without a graph"
        )
    if outcome != 0:
        # The failure is the stream's; synchronizing it raises torch's error with the sentence.
        stream.synchronize()
