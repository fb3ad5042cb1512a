"""Starts jobs as a user would, and gives back what they said."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
LAYOUT = Path(os.environ.get("FAKEGPU_LAYOUT", HERE.parent.parent / "target" / "fakegpu"))
JOBS = HERE / "jobs"


@dataclass
class Outcome:
    """How a job ended."""

    code: int
    output: str
    seconds: float

    def lines(self, start: str) -> list[str]:
        """Lines of output with that beginning, without the launcher's prefix."""
        bare = [line.split("] ", 1)[1] if line.startswith("[") and "] " in line else line for line in self.output.splitlines()]
        return [line for line in bare if line.startswith(start)]


def environment(**more: str) -> dict[str, str]:
    """The caller's environment with this package in it and nothing of another launcher's."""
    # Unbuffered, Python writes a line and its end apart, and ranks' lines mix.
    strange = ("FAKEGPU_", "OMPI_", "NCCL_", "PYTHONUNBUFFERED")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(strange)}
    path = [str(package_folder()), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1", "FAKEGPU_LIB_DIR": str(LAYOUT / "lib"), **more}


def package_folder() -> Path:
    """The folder with the package and its entry point."""
    return Path(os.environ.get("FAKEGPU_PYTHON", LAYOUT / "python"))


def under_fakegpu(
    ranks: int, job: str, *arguments: str, timeout: float = 240, processes: int | None = None, **env: str
) -> Outcome:
    """`fakegpu run`, with a process for each rank unless told."""
    started = [] if processes is None else ["-n", str(processes)]
    program = [str(LAYOUT / "bin" / "fakegpu"), "run", "--ranks-per-node", str(ranks), *started, "--"]
    return _run([*program, sys.executable, str(JOBS / job), *arguments], timeout, environment(**env))


def under_torchrun(ranks: int, job: str, *arguments: str, timeout: float = 240, **env: str) -> Outcome:
    """`torchrun`, which knows nothing of FakeGPU."""
    program = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    return _run([*program, str(JOBS / job), *arguments], timeout, environment(**env))


def plain(ranks: int, job: str, *arguments: str, timeout: float = 240, **env: str) -> Outcome:
    """Processes with env:// variables and nothing else."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        processes = []
        for rank in range(ranks):
            place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
            variables = environment(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **place, **env)
            command = [sys.executable, str(JOBS / job), *arguments]
            processes.append(_start(command, variables, folder))
        outputs = [process.communicate(timeout=timeout)[0] for process in processes]
    code = max(abs(process.returncode) for process in processes)
    return Outcome(code, "".join(outputs), time.monotonic() - begun)


def _start(command: list[str], variables: dict[str, str], folder: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, env=variables, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def _run(command: list[str], timeout: float, variables: dict[str, str]) -> Outcome:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = _start(command, variables, folder)
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
            raise AssertionError(f"{command} did not end within {timeout} s; it said:\n{output}") from None
    return Outcome(process.returncode, output, time.monotonic() - begun)
