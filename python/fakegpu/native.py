"""The native half of :mod:`fakegpu.operations`: built once for each version of torch, loaded where it is there.

Ranks never build it: they would do so all at once, at import. Without it, operations go through Python, at some twenty
microseconds each.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

import torch

_SOURCE = Path(__file__).with_name("operations.cpp")


def folder() -> Path:
    """Where built libraries are kept: the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fakegpu"


def path() -> Path:
    """The library for this torch and this source."""
    abi = int(torch.compiled_with_cxx11_abi())
    source = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]
    return folder() / f"operations-{torch.__version__}-abi{abi}-{source}.so"


def load() -> bool:
    """Loads it; whether it is there."""
    if not _SOURCE.is_file():
        return False
    found = path()
    if not found.is_file():
        return False
    torch.ops.load_library(str(found))
    return True


def build(compiler: str = "c++") -> Path:
    """Builds it, unless it is there already: one process at a time, put in place whole."""
    wanted = path()
    wanted.parent.mkdir(parents=True, exist_ok=True)
    with open(wanted.parent / "build.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if wanted.is_file():
            return wanted
        with tempfile.TemporaryDirectory(dir=wanted.parent) as scratch:
            draft = Path(scratch) / "operations.so"
            outcome = subprocess.run(_command(compiler, draft), capture_output=True, text=True)
            if outcome.returncode != 0:
                raise RuntimeError(f"{compiler} cannot build {_SOURCE.name} for torch {torch.__version__}:\n{outcome.stderr}")
            draft.rename(wanted)
    return wanted


def _command(compiler: str, output: Path) -> list[str]:
    root = Path(torch.__file__).parent
    include = root / "include"
    abi = int(torch.compiled_with_cxx11_abi())
    return [
        compiler, "-std=c++20", "-O2", "-fPIC", "-shared", f"-D_GLIBCXX_USE_CXX11_ABI={abi}",
        "-I", str(include), "-I", str(include / "torch/csrc/api/include"), str(_SOURCE), "-o", str(output),
        "-L", str(root / "lib"), "-ltorch", "-ltorch_cpu", "-lc10",
    ]  # fmt: skip
