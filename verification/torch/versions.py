"""The Python tests under other versions of torch, each in an environment of its own that is kept in the user's cache.

    python3 verification/torch/versions.py [VERSION ...]     2.9.1 (CUDA 12) and 2.15.0 (CUDA 13) where none is named

Needs `cargo xtask build`. Prints the tests' words where they fail, a line for each version, and ends with 1 if any failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAYOUT = Path(os.environ.get("FAKEGPU_LAYOUT", ROOT / "target/fakegpu"))
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fakegpu"
VERSIONS = ("2.9.1", "2.15.0")


def passes(version: str) -> bool:
    """Sets one version up and runs the tests with it."""
    venv = CACHE / f"torch-{version}"
    setup = [LAYOUT / "bin/fakegpu", "setup", "torch", "--venv", venv, "--version", f"=={version}"]
    if subprocess.run(setup).returncode != 0:
        print(f"torch {version}: could not be set up; the words above say why", flush=True)
        return False
    tests = [venv / "bin/python", "-m", "unittest", "discover", "--start-directory", "tests", "--top-level-directory", "."]
    env = {**os.environ, "FAKEGPU_LAYOUT": str(LAYOUT), "PYTHONDONTWRITEBYTECODE": "1"}
    outcome = subprocess.run(tests, cwd=ROOT / "python", env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if outcome.returncode != 0:
        print(outcome.stdout)
    print(f"torch {version}: {outcome.stdout.strip().splitlines()[-1]}", flush=True)
    return outcome.returncode == 0


def main() -> None:
    outcomes = [passes(version) for version in sys.argv[1:] or VERSIONS]
    sys.exit(0 if all(outcomes) else 1)


if __name__ == "__main__":
    main()
