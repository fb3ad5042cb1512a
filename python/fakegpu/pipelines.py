"""Pipelines of torch up to 2.9 greet their neighbours with messages of unequal size: one side sends an integer of 8 bytes,
the other receives a float of 4. A GPU's NCCL lets that pass; here it is a mismatch. The greeting means nothing, so both
sides get the float."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import Any

_STAGE = "torch.distributed.pipelining.stage"


def install() -> None:
    """Mends the greeting, now or when the module is imported: importing it costs programs without pipelines time."""
    loaded = sys.modules.get(_STAGE)
    if loaded is not None:
        _mend(loaded)
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _mend(stage: ModuleType) -> None:
    base = getattr(stage, "_PipelineStageBase", None)
    greet = getattr(base, "_get_init_p2p_neighbors_ops", None)
    if base is None or greet is None or hasattr(greet, "__wrapped__"):
        return

    @functools.wraps(greet)
    def mended(self: Any) -> Any:
        ops = greet(self)
        for op in ops:
            # Both ends of a greeting are one element; the receiver's is a float.
            if op.tensor.numel() == 1:
                op.tensor = op.tensor.float()
        return ops

    base._get_init_p2p_neighbors_ops = mended


class _Finder(importlib.abc.MetaPathFinder):
    """Mends the module after its import, and is gone with it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != _STAGE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        loader = spec.loader if spec is not None else None
        if loader is None:
            return spec
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _mend(module)

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
