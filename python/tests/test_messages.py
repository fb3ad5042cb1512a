"""Point to point, asynchronous works, coalescing, groups and objects, under every launcher."""

import unittest

from tests import harness

CASES = (
    "blocking",
    "crossing",
    "a_batch_meets_single_calls",
    "tags",
    "any_source",
    "to_itself",
    "asynchronous",
    "coalesced",
    "groups",
    "objects",
)


class Messages(unittest.TestCase):
    def check(self, ranks: int, outcome: harness.Outcome) -> None:
        self.assertEqual(outcome.code, 0, outcome.output)
        for case in CASES:
            self.assertEqual(outcome.lines(f"ok {case}"), [f"ok {case}"] * ranks, outcome.output)

    def test_under_fakegpu_run(self) -> None:
        for ranks in (2, 3, 4):
            with self.subTest(ranks=ranks):
                self.check(ranks, harness.under_fakegpu(ranks, "messages.py"))

    def test_under_torchrun(self) -> None:
        self.check(2, harness.under_torchrun(2, "messages.py"))

    def test_with_plain_variables(self) -> None:
        self.check(3, harness.plain(3, "messages.py"))

    def test_over_sockets(self) -> None:
        """Ranks that share no memory."""
        self.check(3, harness.under_fakegpu(3, "messages.py", FAKEGPU_STAGING_FORCE_SOCKET="1"))


if __name__ == "__main__":
    unittest.main()
