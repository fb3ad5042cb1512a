"""What goes wrong is told by name in the traceback of the ranks that it concerns, within seconds."""

import re
import unittest

from tests import harness

TOLD = re.compile(r"told (?P<seconds>[\d.]+) (?P<kind>\w+) (?P<sentence>.*)")

# What must be in every sentence; who is told; how many seconds that may take.
CASES = {
    "counts_differ": (r"count differs: rank 1 called ncclAllReduce\(count=3, float32, sum\)", 3, 2),
    "operators_differ": (r"reduction operator differs: rank 1 called ncclAllReduce\(count=4, float32, max\)", 3, 2),
    "operations_differ": (r"operation differs: rank 1 called ncclBroadcast\(count=4, float32, root=0\)", 3, 2),
    "told_by_wait": (r"count differs: rank 1 called ncclAllReduce\(count=3, float32, sum\)", 3, 2),
    "told_by_future": (r"count differs: rank 1 called ncclAllReduce\(count=3, float32, sum\)", 3, 2),
    "sizes_differ_in_a_message": (r"rank 0 sends 16 bytes .* rank 1 receives 12 bytes", 2, 2),
    "sizes_differ_in_a_tagged_message": (r"rank 0 sent 16 bytes with tag 5, the receive takes 12", 1, 2),
    "parameters_differ": (r"[Rr]ank 1 has (6|inconsistent 6) params", 3, 30),
    "a_batch_is_skipped": (r"rank 1 called ncclAllReduce\(count=1, uint8, sum\); ranks 0, 2 called ncclAllReduce\(count=40", 3, 5),
    "a_rank_raises_in_training": (r"rank 1 \(pid \d+, python[\d.]*\) exited (after|before) .* while others wait", 2, 8),
    "a_rank_raises": (r"rank 1 \(pid \d+, python[\d.]*\) exited (after|before) .* while others wait", 2, 8),
    "a_rank_raises_before_it_sends": (r"rank 1 has left before it met this rank here", 1, 8),
    "a_rank_is_killed": (r"rank 1 of communicator 1 \(pid \d+, python[\d.]*\) died", 2, 5),
    "a_rank_is_killed_before_it_sends": (r"rank 1 of communicator 1 \(pid \d+, python[\d.]*\) died", 1, 5),
    "any_source_is_killed": (r"rank [12] of communicator 1 \(pid \d+, python[\d.]*\) died", 1, 5),
}

# With a time-out of four seconds.
LATE = {
    "a_rank_is_late": (r"timeout after 4.0 s: .* misses rank 1 \(alive and outside NCCL", 2, 7),
    "a_sender_is_late": (r"timeout: rank 1 has not come to meet this rank within the group's 4 s", 1, 8),
    "any_sender_is_late": (r"timeout: no rank has sent within the group's 4 s", 1, 6),
}


class Failures(unittest.TestCase):
    def check(self, case: str, words: str, how_many: int, seconds: float, **env: str) -> None:
        outcome = harness.under_fakegpu(3, "failures.py", case, **env)
        told = [TOLD.fullmatch(line) for line in outcome.lines("told")]
        self.assertEqual(len(told), how_many, outcome.output)
        self.assertNotEqual(outcome.code, 0, outcome.output)
        for match in told:
            self.assertRegex(match["sentence"], words)
            self.assertLess(float(match["seconds"]), seconds, outcome.output)

    def test_what_goes_wrong_is_named(self) -> None:
        for case, (words, how_many, seconds) in CASES.items():
            with self.subTest(case=case):
                self.check(case, words, how_many, seconds)

    def test_a_sender_with_a_tag_that_leaves_is_named(self) -> None:
        self.check("a_rank_raises_before_it_sends", "rank 1 has left before it met this rank here", 1, 8, JOB_TAG="7")

    def test_who_is_late_is_named_at_the_time_out(self) -> None:
        for case, (words, how_many, seconds) in LATE.items():
            with self.subTest(case=case):
                self.check(case, words, how_many, seconds, JOB_TIMEOUT="4")

    def test_an_abort_ends_what_is_under_way(self) -> None:
        outcome = harness.under_fakegpu(2, "failures.py", "aborted")
        self.assertEqual(len(outcome.lines("told")), 2, outcome.output)
        self.assertIn("the process group was aborted", outcome.output)
        self.assertRegex(outcome.output, r"rank 0 \(pid \d+\) aborted communicator 1")

    def test_programs_that_destroy_nothing_end_in_silence(self) -> None:
        for launch in (harness.plain, harness.under_torchrun):
            outcome = launch(2, "failures.py", "nothing_is_destroyed")
            self.assertEqual((outcome.code, outcome.output), (0, "end\nend\n"))
        outcome = harness.under_fakegpu(2, "failures.py", "nothing_is_destroyed")
        self.assertEqual((outcome.code, len(outcome.lines("end"))), (0, 2), outcome.output)

    def test_open_operations_do_not_hold_up_the_end(self) -> None:
        outcome = harness.plain(2, "failures.py", "something_is_open_at_the_end")
        self.assertEqual((outcome.code, outcome.lines("end")), (0, ["end", "end"]), outcome.output)
        self.assertLess(outcome.seconds, 30)


if __name__ == "__main__":
    unittest.main()
