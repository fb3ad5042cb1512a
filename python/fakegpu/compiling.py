"""`torch.compile` for CUDA: what would write GPU kernels is refused, before it fails in words about something else."""

from __future__ import annotations

import functools
from typing import Any

import torch

REFUSAL = (
    "torch.compile's default backend `inductor` writes GPU kernels (Triton), which FakeGPU cannot run: no GPU code "
    'runs here. Use torch.compile(backend="aot_eager"), or run this part without torch.compile'
)


def install() -> None:
    """Refuses graphs that hold CUDA tensors, where `inductor` is to compile them. Graphs of the CPU it compiles."""
    wrapper = getattr(torch, "_TorchCompileInductorWrapper", None)
    if wrapper is None or hasattr(wrapper.__call__, "__wrapped__"):
        return
    compile_graph = wrapper.__call__

    @functools.wraps(compile_graph)
    def refuse_or_compile(self: Any, model: Any, inputs: Any) -> Any:
        if _is_on_cuda(inputs) or any(_is_on_cuda(node.meta.get("example_value")) for node in _nodes(model)):
            raise RuntimeError(REFUSAL)
        return compile_graph(self, model, inputs)

    wrapper.__call__ = refuse_or_compile


def _nodes(model: Any) -> Any:
    graph = getattr(model, "graph", None)
    return getattr(graph, "nodes", ())


def _is_on_cuda(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return value.device.type == "cuda"
    return isinstance(value, (list, tuple)) and any(map(_is_on_cuda, value))
