"""Runs the tutorials' scripts as they are: on CUDA and nccl here, and on the CPU and gloo, and compares what they print.

    python run.py     with the Python of `fakegpu setup torch`
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FAKEGPU = Path(os.environ.get("FAKEGPU_LAYOUT", HERE.parents[2] / "target/fakegpu")) / "bin/fakegpu"

#: Scripts, and how far apart their numbers may be, relatively: gloo rounds a sum of bfloat16 after every addend, NCCL
#: and FakeGPU once.
SCRIPTS = {"ddp.py": 5e-5, "fsdp.py": 0.0, "tensor_parallel.py": 0.0}


def results(script: str, **env: str) -> list[str]:
    """What four ranks print, under torchrun."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", str(HERE / script)]
    command = [str(FAKEGPU), "exec", "--ranks-per-node", "4", "--report", f"/tmp/fakegpu-tutorial-{os.getpid()}", "--", *launch]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **env})
    if outcome.returncode != 0:
        raise SystemExit(f"{script} ended with {outcome.returncode}:\n{outcome.stdout[-6000:]}{outcome.stderr[-6000:]}")
    # Ranks' lines may run into each other.
    return sorted(line.strip() for line in re.findall(r"result (?:(?!result)[^\n])*", outcome.stdout))


def is_same(one: str, other: str, tolerance: float) -> bool:
    """Whether two lines agree, number by number."""

    def agrees(here: str, there: str) -> bool:
        try:
            return here == there or abs(float(here) - float(there)) <= tolerance * abs(float(there))
        except ValueError:
            return False

    (ones, others) = (one.split(), other.split())
    return len(ones) == len(others) and all(map(agrees, ones, others))


def main() -> None:
    wrong = 0
    for script, tolerance in SCRIPTS.items():
        here, there = results(script), results(script, CUDA_VISIBLE_DEVICES="")
        differing = [pair for pair in zip(here, there) if not is_same(*pair, tolerance)]
        is_right = bool(here) and len(here) == len(there) and not differing
        wrong += not is_right
        print(f"{'same' if is_right else 'DIFFERENT'}  {script}: {len(here)} lines against {len(there)}", flush=True)
        for one, other in differing:
            print(f"    {one}  against  {other}", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
