#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Verdicts on invented figures."""

import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))

from selection.verdict import COLUMNS, SELECTED, lines_of, rivals_of, row, verdict_of  # noqa: E402

CELL = ("tcp", "all_reduce", 4, 4096)


class Verdicts(unittest.TestCase):
    def test_the_best_is_by_the_median_of_rounds(self):
        verdict = verdict_of(CELL, "ring", {SELECTED: [12, 12, 90], "ring": [12, 13, 14], "mesh": [10, 10, 1]})
        self.assertEqual((verdict.best, verdict.best_us, verdict.selected_us), ("mesh", 10, 12))
        self.assertFalse(verdict.is_good)
        self.assertAlmostEqual(verdict.ratio, 1.2)

    def test_noise_between_two_figures_of_the_selected_algorithm_is_no_fault(self):
        verdict = verdict_of(CELL, "ring", {SELECTED: [15], "ring": [10], "mesh": [11]})
        self.assertEqual((verdict.best, verdict.ratio), ("ring", 1))
        self.assertTrue(verdict.is_good)

    def test_a_tenth_is_tolerated(self):
        self.assertTrue(verdict_of(CELL, "ring", {SELECTED: [10.9], "mesh": [10]}).is_good)
        self.assertFalse(verdict_of(CELL, "ring", {SELECTED: [11.1], "mesh": [10]}).is_good)

    def test_rivals_are_all_that_are_faster_than_tolerated(self):
        rounds = {SELECTED: [12], "ring": [12.5], "mesh": [10, 10, 40], "tree": [9], "nhr": [11.5], "nb": []}
        self.assertEqual(rivals_of(verdict_of(CELL, "ring", rounds), rounds), ["mesh", "tree"])

    def test_nothing_is_said_without_a_figure_of_the_selected(self):
        self.assertIsNone(verdict_of(CELL, "ring", {SELECTED: [], "mesh": [10]}))

    def test_bad_cells_are_printed_worst_first_and_the_share_of_good_ones(self):
        cells = [verdict_of(CELL, "ring", {SELECTED: [us], "mesh": [10]}) for us in (10, 20, 30)]
        lines = list(lines_of(cells))
        self.assertEqual(len(lines), 3)
        self.assertIn("ring 30.00 us, mesh 10.00 us: 3.00", lines[0])
        self.assertIn("in 1 of 3 cells (33.3 %", lines[2])
        self.assertEqual(len(row(cells[0])), len(COLUMNS))


if __name__ == "__main__":
    unittest.main()
