"""Scripts for `nccl` and CUDA, as users write them, on a machine without a GPU."""

import os
import unittest

from tests import harness

#: Ways of training, and rank 0's and the last rank's lines of each.
RESULTS = 28


class Cuda(unittest.TestCase):
    def results(self, outcome: harness.Outcome) -> list[str]:
        self.assertEqual(outcome.code, 0, outcome.output)
        results = sorted(outcome.lines("result"))
        self.assertEqual(len(results), RESULTS, outcome.output)
        return results

    def test_every_way_of_training_gives_gloos_numbers(self) -> None:
        wanted = self.results(harness.under_fakegpu(4, "on_devices.py", "gloo", "cpu"))
        self.assertEqual(self.results(harness.under_fakegpu(4, "on_devices.py", "nccl", "cuda")), wanted)
        with self.subTest("communicators that do not block"):
            outcome = harness.under_fakegpu(4, "on_devices.py", "nccl", "cuda", TORCH_NCCL_USE_COMM_NONBLOCKING="1")
            self.assertEqual(self.results(outcome), wanted)

    def test_barriers_are_counted_as_such(self) -> None:
        outcome = harness.under_fakegpu(4, "on_devices.py", "nccl", "cuda")
        counted = [line.split() for line in outcome.output.splitlines() if line.split()[:1] == ["barrier"]]
        self.assertTrue(counted and int(counted[0][1]) >= 1, outcome.output)

    def test_a_device_is_what_cuda_promises(self) -> None:
        outcome = harness.under_fakegpu(1, "one_device.py", FAKEGPU_GPU_PROFILE="a100")
        self.assertEqual(outcome.code, 0, outcome.output)
        self.assertGreater(len(outcome.lines("holds")), 15, outcome.output)

    def test_random_schedules_over_streams_end_as_in_program_order(self) -> None:
        outcome = harness.under_fakegpu(2, "schedules.py", "--count", os.environ.get("TEST_SCHEDULES", "200"))
        self.assertEqual(outcome.code, 0, outcome.output)
        self.assertEqual(len(outcome.lines("schedules")), 2, outcome.output)

    def test_two_gpus_of_one_process_do_not_hold_each_other_up(self) -> None:
        outcome = harness.under_fakegpu(2, "one_process.py", processes=1)
        self.assertEqual(outcome.lines("result"), ["result 1048576.0 1048576.0"], outcome.output)
        # A call took a third of a second when each stream's thread slept while it kept the other from moving.
        self.assertLess(float(outcome.lines("took")[0].split()[1]), 6, outcome.output)

    def test_ranks_that_disagree_read_why_in_their_tracebacks(self) -> None:
        for way, words in (("count", "count differs"), ("batch", "mismatch"), ("raises", "rank 1")):
            with self.subTest(way):
                outcome = harness.under_fakegpu(2, "disagreeing.py", way)
                # torch may hear of it in the call, where it says no more than that, and tell the sentence on its own.
                self.assertTrue(outcome.lines("told 0"), outcome.output)
                self.assertIn(words, outcome.output)
                self.assertLess(outcome.seconds, 60, outcome.output)


if __name__ == "__main__":
    unittest.main()
