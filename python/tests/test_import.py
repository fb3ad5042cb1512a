"""Importing costs nothing, and a broken installation breaks nobody who does not use it."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from tests import harness


def run(program: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "always::UserWarning", "-c", program]
    return subprocess.run(
        command, env=harness.environment(**env), capture_output=True, text=True, cwd=tempfile.gettempdir(), check=False
    )


class Import(unittest.TestCase):
    def test_the_backend_is_known_and_nothing_of_it_is_loaded(self) -> None:
        done = run(
            "import sys, torch, torch.distributed as d\n"
            "print(d.is_backend_available('fakegpu'), 'fakegpu.nccl' in sys.modules)"
        )
        self.assertEqual((done.returncode, done.stdout), (0, "True False\n"), done.stderr)

    def test_registering_takes_milliseconds(self) -> None:
        done = run(
            "import time, os; os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'] = '0'\n"
            "import torch; begun = time.perf_counter()\n"
            "import fakegpu; fakegpu.autoload(); print(time.perf_counter() - begun)"
        )
        self.assertLess(float(done.stdout), 0.5, done.stderr)

    def test_what_waits_for_pipelines_is_gone_once_they_are_imported(self) -> None:
        done = run(
            "import sys, torch\n"
            "count = lambda: sum('fakegpu' in type(finder).__module__ for finder in sys.meta_path)\n"
            "before = count()\n"
            "import torch.distributed.pipelining as pipelining\n"
            "print(before, count(), pipelining.PipelineStage.__name__)"
        )
        self.assertEqual((done.returncode, done.stdout), (0, "1 0 PipelineStage\n"), done.stderr)

    def test_a_missing_library_is_told_at_first_use_alone(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            package = Path(folder) / "python"
            package.mkdir()
            for entry in harness.package_folder().iterdir():
                (package / entry.name).symlink_to(entry.resolve(), target_is_directory=True)
            # A copy of the package far from any library.
            (package / "fakegpu").unlink()
            (package / "fakegpu").mkdir()
            for module in (harness.package_folder() / "fakegpu").glob("*.py"):
                (package / "fakegpu" / module.name).write_text(module.read_text())
            env = {"PYTHONPATH": str(package), "FAKEGPU_LIB_DIR": "", "LD_LIBRARY_PATH": ""}
            fine = run("import torch; print(torch.ones(2).sum().item())", **env)
            self.assertEqual((fine.returncode, fine.stdout, fine.stderr), (0, "2.0\n", ""))
            used = run(
                "import torch.distributed as d\n"
                "d.init_process_group('fakegpu', init_method='tcp://127.0.0.1:0', rank=0, world_size=1)",
                **env,
            )
            self.assertIn("FakeGPU's libnccl.so.2 was not found", used.stderr)
            self.assertIn("start the program with `fakegpu run`, or set FAKEGPU_LIB_DIR", used.stderr)


if __name__ == "__main__":
    unittest.main()
