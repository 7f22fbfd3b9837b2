# SPDX-License-Identifier: Apache-2.0
"""How `./run bench eco` takes turns, and what it says of figures."""

import contextlib
import io
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "bench" / "eco"))

import turns


def printed(call):
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        call()
    return output.getvalue()


class TakingTurns(unittest.TestCase):
    def test_every_other_round_goes_the_other_way_round_and_the_median_counts(self):
        order, figures = [], {"gloo": iter([9.0, 1.0, 2.0]), "cohort": iter([3.0, 5.0, 4.0])}

        def way(name):
            order.append(name)
            return {"a call": next(figures[name])}

        medians = turns.Turns(3).points({name: lambda name=name: way(name) for name in figures})
        self.assertEqual(medians, {"gloo": {"a call": 2.0}, "cohort": {"a call": 4.0}})
        self.assertEqual(order, ["gloo", "cohort", "cohort", "gloo", "gloo", "cohort"])

    def test_the_lowest_third_is_what_was_disturbed_least(self):
        self.assertEqual(turns.lowest_third([9.0, 1.0, 5.0, 3.0, 7.0, 8.0]), 2.0)
        self.assertEqual(turns.lowest_third([4.0]), 4.0)

    def test_a_row_says_how_many_times_as_fast(self):
        text = printed(lambda: turns.Turns(1).row("a call", "us", {"GLOO": lambda: 30.0, "COHORT": lambda: 10.0}))
        self.assertEqual(text, "| a call | GLOO 30 us | 10 us | 3 |\n")

    def test_rows_end_with_geometric_means(self):
        ways = {"mpich": lambda: {("bcast", "8"): 4.0, ("bcast", "1M"): 9.0}, "cohort": lambda: {("bcast", "8"): 2.0, ("bcast", "1M"): 1.0}}
        lines = printed(lambda: turns.Turns(2).rows("us", ways)).splitlines()
        self.assertEqual(lines[:2], ["| bcast, 8 | mpich 4 us | 2 us | 2 |", "| bcast, 1M | mpich 9 us | 1 us | 9 |"])
        self.assertEqual(lines[2:], ["| bcast: geometric mean | mpich | | 4.24 |", "| all of these: geometric mean | mpich | | 4.24 |"])


if __name__ == "__main__":
    unittest.main()
