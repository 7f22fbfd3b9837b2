# SPDX-License-Identifier: Apache-2.0
"""What `./run bench torch` says of figures."""

import contextlib
import io
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "bench" / "torch"))

import launching


class Table(unittest.TestCase):
    def table(self, *rows):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            launching.print_table(list(rows))
        return output.getvalue()

    def test_durations_have_a_unit_that_fits(self):
        self.assertEqual([launching.duration(us) for us in (1.25, 999, 1500, 2_000_000)],
                         ["1.2 us", "999.0 us", "1.50 ms", "2.00 s"])

    def test_cohort_is_held_against_the_other_one(self):
        text = self.table({"ranks": 2, "what": "all_reduce", "us": {"gloo": 30.0, "cohort": 10.0}})
        self.assertIn("3.00 times as fast", text)

    def test_training_alone_is_no_rival(self):
        text = self.table({"ranks": 2, "what": "epoch", "us": {"gloo": 30.0, "cohort": 10.0, "hushed": 9.0, "alone": 6.0}})
        self.assertIn("3.00 times as fast", text)
        self.assertIn("communication is 70%, all that training alone does not take 80%", text)

    def test_gradients_that_are_views_are_held_against_such(self):
        text = self.table({"ranks": 2, "what": "epoch", "us": {"gloo": 30.0, "cohort": 10.0, "gloo views": 20.0,
                                                               "cohort views": 8.0, "mapped": 5.0, "hushed": 1.0, "alone": 1.0}})
        self.assertIn("3.00 times as fast", text)
        self.assertIn("with views both:   2.50, in memory that peers map   4.00", text)

    def test_what_has_no_rival_is_not_held_against_one(self):
        self.assertNotIn("times", self.table({"ranks": 2, "what": "await", "us": {"cohort": 10.0}}))


if __name__ == "__main__":
    unittest.main()
