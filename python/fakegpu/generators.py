"""CUDA generators as CUDA's API promises: a state is a seed and an offset, and each random operation moves the offset.

The numbers come from a CPU generator that is seeded from both, so restoring a state restores what follows. They are
not the numbers of a GPU, nor of the CPU's own generator.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch

#: How far one operation moves the offset; torch wants multiples of 4.
_STEP = 4

_MASK = (1 << 64) - 1


def mixed(seed: int, offset: int) -> int:
    """One seed out of two numbers (splitmix64's finalizer), so that neighbouring offsets share nothing."""
    value = (seed * 0x9E3779B97F4A7C15 + offset + 0x632BE59BD9B4E019) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def _advance(generator: torch.Generator) -> int:
    """The CPU seed of the next operation."""
    offset = generator.get_offset()
    generator.set_offset(offset + _STEP)
    return mixed(generator.initial_seed(), offset)


class Seeded:
    """The arguments of a random operation, with the CPU's generators standing in for CUDA's while it runs."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], device: torch.device | None) -> None:
        self.args = tuple(self._stand_in(each) for each in args)
        self.kwargs = {key: self._stand_in(value) for key, value in kwargs.items()}
        self._device = device
        self._saved: torch.Tensor | None = None

    def _stand_in(self, value: Any) -> Any:
        if isinstance(value, torch.Generator) and value.device.type == "cuda":
            return torch.Generator("cpu").manual_seed(_advance(value))
        return value

    def __enter__(self) -> Seeded:
        given = any(isinstance(each, torch.Generator) for each in (*self.args, *self.kwargs.values()))
        if not given:
            index = self._device.index if self._device is not None else None
            index = torch.cuda.current_device() if index is None else index
            self._saved = torch.default_generator.get_state()
            torch.default_generator.manual_seed(_advance(torch.cuda.default_generators[index]))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._saved is not None:
            torch.default_generator.set_state(self._saved)
