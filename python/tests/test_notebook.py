"""A process without a launcher asks for its devices."""

import subprocess
import sys
import tempfile
import unittest

from tests import harness


def run(program: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, env=harness.environment(**env), capture_output=True, text=True, cwd=tempfile.gettempdir(), check=False
    )


class Notebook(unittest.TestCase):
    def test_devices_of_a_profile_compute(self) -> None:
        done = run(
            "import fakegpu; fakegpu.init(devices=2, gpu='a100'); fakegpu.init(devices=2, gpu='a100')\n"
            "import torch\n"
            "print(torch.cuda.device_count(), torch.cuda.get_device_name(1))\n"
            "print(torch.arange(4.0, device='cuda:1').square().sum().item())"
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        count, total = done.stdout.splitlines()
        self.assertTrue(count.startswith("2 NVIDIA A100"), count)
        self.assertEqual(total, "14.0")

    def test_one_rank_reduces(self) -> None:
        done = run(
            "import fakegpu; fakegpu.init()\n"
            "import torch, torch.distributed as dist\n"
            "dist.init_process_group('nccl', init_method='tcp://127.0.0.1:0', rank=0, world_size=1)\n"
            "x = torch.ones(3, device='cuda'); dist.all_reduce(x); print(x.tolist()); dist.destroy_process_group()"
        )
        self.assertEqual((done.returncode, done.stdout), (0, "[1.0, 1.0, 1.0]\n"), done.stderr)

    def test_inductor_is_refused_for_cuda_alone(self) -> None:
        program = (
            "import fakegpu; fakegpu.init()\n"
            "import torch\n"
            "def double(x): return (x * 2 + 1).relu()\n"
            "print(torch.compile(double, backend='aot_eager')(torch.ones(2, device='cuda')).tolist())\n"
            "try: torch.compile(double)(torch.ones(2, device='cuda'))\n"
            "except Exception as error: print(str(error).splitlines()[0:3])\n"
            "def inside(): return torch.ones(2, device='cuda') * 2\n"
            "try: torch.compile(inside)()\n"
            "except Exception as error: print(str(error).splitlines()[0:3])\n"
        )
        done = run(program)
        self.assertEqual(done.returncode, 0, done.stderr)
        eager, given, made = done.stdout.splitlines()
        self.assertEqual(eager, "[3.0, 3.0]")
        for refusal in (given, made):
            self.assertIn("writes GPU kernels (Triton), which FakeGPU cannot run", refusal)

    def test_after_torch_it_comes_too_late(self) -> None:
        done = run("import torch, fakegpu; fakegpu.init()")
        self.assertIn("call fakegpu.init before `import torch`", done.stderr)

    def test_two_wishes_are_one_too_many(self) -> None:
        done = run("import fakegpu; fakegpu.init(devices=2); fakegpu.init(devices=4)")
        self.assertIn("restart the process", done.stderr)

    def test_a_bad_wish_is_refused(self) -> None:
        for wish, words in (("devices=0", "1 to 64"), ("gpu='h100', cluster='x.yaml'", "not both")):
            with self.subTest(wish=wish):
                self.assertIn(words, run(f"import fakegpu; fakegpu.init({wish})").stderr)


if __name__ == "__main__":
    unittest.main()
