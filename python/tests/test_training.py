"""Models train to the numbers that gloo gives, whatever distributes them and whoever launches them."""

import unittest

from tests import harness

RESULTS = 9


class Training(unittest.TestCase):
    def results(self, outcome: harness.Outcome) -> list[str]:
        self.assertEqual(outcome.code, 0, outcome.output)
        results = outcome.lines("result")
        self.assertEqual(len(results), RESULTS, outcome.output)
        return results

    def test_two_ranks_under_every_launcher(self) -> None:
        wanted = self.results(harness.plain(2, "training.py", "gloo"))
        for launch in (harness.under_fakegpu, harness.under_torchrun, harness.plain):
            with self.subTest(launch=launch.__name__):
                self.assertEqual(self.results(launch(2, "training.py", "fakegpu")), wanted)

    def test_four_ranks(self) -> None:
        wanted = self.results(harness.plain(4, "training.py", "gloo"))
        self.assertEqual(self.results(harness.under_fakegpu(4, "training.py", "fakegpu")), wanted)


if __name__ == "__main__":
    unittest.main()
