"""FakeGPU for PyTorch: CUDA tensors on a machine without a GPU, and the c10d backend `fakegpu` for CPU tensors.

torch calls `autoload` at the end of `import torch` (entry point group `torch.backends`). It registers the backend's
name, and where the process's CUDA runtime is FakeGPU's, the operations of CUDA tensors. A program that does neither
pays nothing: the libraries are looked for when the first process group is made.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

__version__ = "0.0.0"

BACKEND = "fakegpu"

_registered = False


def init(devices: int = 1, gpu: str | None = None, cluster: str | os.PathLike[str] | None = None) -> None:
    """Gives a process that no launcher started, such as a notebook, CUDA devices; see `fakegpu.notebook.init`."""
    from fakegpu import notebook

    notebook.init(devices, gpu, cluster)


def autoload() -> None:
    """Registers the backend with torch. Never raises: torch would not import for programs that do not use us."""
    global _registered
    if _registered:
        return
    try:
        _register()
        _install_operations()
        _mend_pipelines()
        _registered = True
    except Exception as error:  # noqa: BLE001 - whatever is wrong, `import torch` must go on
        warnings.warn(f"fakegpu: the backend could not be registered with this torch: {error}", stacklevel=2)


def _install_operations() -> None:
    """Where the process's CUDA runtime is FakeGPU's, operations of CUDA tensors run here."""
    from fakegpu import streams

    if streams.is_ours():
        from fakegpu import barriers, compiling, operations

        operations.install()
        barriers.install()
        compiling.install()


def _mend_pipelines() -> None:
    from fakegpu import pipelines

    pipelines.install()


def _register() -> None:
    import torch.distributed as dist

    if dist.is_available():
        dist.Backend.register_backend(BACKEND, _create, extended_api=True, devices=["cpu"])


def _create(options: Any, backend_options: object | None = None) -> Any:
    from fakegpu.group import create

    return create(options)
