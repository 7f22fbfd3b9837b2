# SPDX-License-Identifier: Apache-2.0
"""How `./run bench eco` takes turns, and what it says of figures."""

import contextlib
import io
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "bench" / "eco"))

import comparing


class Comparing(unittest.TestCase):
    def test_ways_take_turns_and_the_median_counts(self):
        order, figures = [], {"gloo": iter([9.0, 1.0, 2.0]), "cohort": iter([3.0, 5.0, 4.0])}

        def way(name):
            order.append(name)
            return next(figures[name])

        medians = comparing.in_turn(3, {name: lambda name=name: way(name) for name in figures})
        self.assertEqual(medians, {"gloo": 2.0, "cohort": 4.0})
        self.assertEqual(order, ["gloo", "cohort", "cohort", "gloo", "gloo", "cohort"])

    def test_cohort_is_held_against_the_other_one(self):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            comparing.show("a call", "us", {"GLOO": 30.0, "COHORT": 10.0})
        self.assertEqual(output.getvalue(), "| a call | GLOO 30 us | 10 us | 3 |\n")


if __name__ == "__main__":
    unittest.main()
