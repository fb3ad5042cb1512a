"""The command `fakegpu` of the wheel: the program that lies in this package."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Becomes the program, so that signals and exit codes are its own."""
    program = Path(__file__).resolve().parent / "bin" / "fakegpu"
    if not program.is_file():
        sys.exit(
            f"fakegpu: {program} is not there: this package was installed without its programs. Install the wheel of "
            "`cargo xtask wheel`, or call target/fakegpu/bin/fakegpu"
        )
    os.execv(program, [str(program), *sys.argv[1:]])
