"""Groups come and go without traces."""

import unittest

from tests import harness

CASES = ("again", "open_receives_do_not_hold_up_the_end", "forked_workers", "autograd_and_modes")


class Lifecycle(unittest.TestCase):
    def check(self, outcome: harness.Outcome) -> None:
        self.assertEqual(outcome.code, 0, outcome.output)
        for case in CASES:
            self.assertEqual(len(outcome.lines(f"ok {case}")), 2, outcome.output)

    def test_under_fakegpu_run(self) -> None:
        self.check(harness.under_fakegpu(2, "lifecycle.py", TORCH_DISTRIBUTED_DEBUG="DETAIL"))

    def test_with_plain_variables(self) -> None:
        self.check(harness.plain(2, "lifecycle.py"))


if __name__ == "__main__":
    unittest.main()
