#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Errors of invented predictions."""

import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))

from predictions.comparison import COLUMNS, Case, Pair, choices, median_error, parse_sim, row, summary, table  # noqa: E402


def pair(predicted_us, measured_us, algorithm="ring", ranks=2, calibrates=False):
    return Pair(Case("tcp", "all_reduce", algorithm, ranks, 8), predicted_us, measured_us, calibrates)


class Comparison(unittest.TestCase):
    def test_rows_of_the_simulator_are_read_and_other_lines_are_not(self):
        self.assertEqual(parse_sim("all_reduce,ring,4,1048576,43.457,24\n"), ("ring", 43.457))
        self.assertIsNone(parse_sim("collective,algorithm,ranks,bytes,us,messages"))
        self.assertIsNone(parse_sim("all_reduce,ring,4,8,-,24"))
        self.assertIsNone(parse_sim("fastest for 8: ring"))

    def test_the_error_is_of_what_was_measured(self):
        self.assertAlmostEqual(pair(12, 10).error, 0.2)
        self.assertAlmostEqual(pair(5, 10).error, -0.5)

    def test_the_median_is_of_absolute_errors_and_leaves_out_what_calibrates(self):
        pairs = [pair(12, 10), pair(5, 10), pair(10, 10), pair(90, 10, calibrates=True)]
        self.assertAlmostEqual(median_error(pairs), 0.2)
        self.assertIsNone(median_error([pair(10, 10, calibrates=True)]))

    def test_a_wrong_choice_costs_what_it_takes_longer(self):
        wrong = [pair(8, 12, "ring"), pair(9, 10, "mesh")]
        right = [pair(8, 10, "ring", ranks=4), pair(9, 12, "mesh", ranks=4)]
        alone = [pair(8, 10, "ring", ranks=8)]
        good, asked, losses = choices(wrong + right + alone)
        self.assertEqual((good, asked), (1, 2))
        self.assertAlmostEqual(max(losses), 0.2)

    def test_a_row_has_all_columns(self):
        self.assertEqual(dict(zip(COLUMNS, row(pair(12, 10, ranks=4), cores=2)))["error_percent"], "20.0")
        self.assertEqual(dict(zip(COLUMNS, row(pair(12, 10, ranks=4), cores=2)))["shares_cores"], 1)

    def test_the_table_tells_what_calibrates_and_who_shares_cores(self):
        lines = list(table([pair(12, 10, calibrates=True), pair(12, 10, ranks=4)], cores=2))
        self.assertIn("calibrates", lines[1])
        self.assertIn("+20%  shares cores", lines[2])

    def test_the_summary_separates_shared_cores(self):
        text = "\n".join(summary([pair(12, 10), pair(15, 10, ranks=4)], cores=2))
        self.assertIn("tcp, a core for each rank: median error 20% of 1", text)
        self.assertIn("tcp, ranks share cores: median error 50% of 1", text)


if __name__ == "__main__":
    unittest.main()
