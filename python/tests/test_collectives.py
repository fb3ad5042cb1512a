"""Collectives have gloo's bits, and what gloo lacks NCCL's."""

import unittest

from tests import harness

CASES = ("reductions", "moves", "uneven", "strided", "beyond_gloo", "refused")


class Collectives(unittest.TestCase):
    def check(self, ranks: int) -> None:
        outcome = harness.under_fakegpu(ranks, "against_gloo.py")
        self.assertEqual(outcome.code, 0, outcome.output)
        for case in CASES:
            self.assertEqual(outcome.lines(f"ok {case}"), [f"ok {case}"] * ranks, outcome.output)

    def test_one_rank(self) -> None:
        self.check(1)

    def test_two_ranks(self) -> None:
        self.check(2)

    def test_three_ranks(self) -> None:
        self.check(3)

    def test_four_ranks(self) -> None:
        self.check(4)


if __name__ == "__main__":
    unittest.main()
