"""CUDA devices in a process that no launcher started: a notebook, a shell, a script run by hand."""

from __future__ import annotations

import ctypes
import os
import sys

from fakegpu.nccl import library_folder

#: What a program is linked to, in the order in which they need each other.
_LIBRARIES = ("libcuda.so.1", "libcudart.so.12", "libcudart.so.13", "libnccl.so.2")

_made: dict[str, str] | None = None


def init(devices: int = 1, gpu: str | None = None, cluster: str | os.PathLike[str] | None = None) -> None:
    """Gives this process `devices` GPUs of FakeGPU's, of the profile `gpu` or as a cluster file has them.

    Call it before `import torch`: libraries that torch has loaded cannot be exchanged. Under `fakegpu run` it does
    nothing, since the devices are there. A second call may only ask for the same.
    """
    global _made
    wanted = _settings(devices, gpu, cluster)
    if _made is not None:
        if wanted != _made:
            raise RuntimeError(f"fakegpu.init was called with {_made} before, and now with {wanted}: restart the process")
        return
    if "FAKEGPU_COORDINATOR_ADDR" in os.environ:
        return
    if "torch" in sys.modules:
        raise RuntimeError(
            "fakegpu.init comes too late: torch was imported already, with the libraries it found. Restart the process "
            "(the notebook's kernel), and call fakegpu.init before `import torch`"
        )
    folder = library_folder()
    # Read at the first call of the library, not when it is loaded.
    os.environ.update(wanted)
    for name in _LIBRARIES:
        if (folder / name).is_file():
            # Global, and under the names that torch's libraries ask for: they take these.
            ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
    _made = wanted


def _settings(devices: int, gpu: str | None, cluster: str | os.PathLike[str] | None) -> dict[str, str]:
    if isinstance(devices, bool) or not isinstance(devices, int) or not 1 <= devices <= 64:
        raise ValueError(f"devices is {devices!r}: a process has 1 to 64")
    if gpu is not None and cluster is not None:
        raise ValueError("give a gpu or a cluster, not both: a cluster file names its GPUs")
    settings = {"FAKEGPU_GPU_COUNT": str(devices)}
    if gpu is not None:
        settings["FAKEGPU_GPU_PROFILE"] = gpu
    if cluster is not None:
        settings["FAKEGPU_CLUSTER_CONFIG"] = os.fspath(cluster)
    return settings
