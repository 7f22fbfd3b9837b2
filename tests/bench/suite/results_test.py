#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who is best, what is short of its target, and the table that says so."""

import unittest

from support import FAR, LIMITS, cell, results_of, row
from suite import bounds, table, targets
from suite.cells import Missing
from suite.programs import PROGRAMS

TARGETS = [targets.Target(("all_reduce",), (2,), "cohort/shm", 8, 8, 1.3, ("*/shm*",)),
           targets.Target(("all_reduce",), (2,), "cohort/shm", 0, 1 << 40, 1.1, ("*/shm*",)),
           targets.Target(("all_reduce",), (2,), "cohort/shm", 0, 1 << 40, 3, ("torch/tcp",))]


def program(name):
    return next(p for p in PROGRAMS if p.name == name)


class Ratios(unittest.TestCase):
    def test_the_best_peer_is_of_the_same_kind_and_never_cohort(self):
        results = results_of([row("openmpi/shm", cell(), 3), row("openmpi/shm", cell(), 0.1, FAR),
                              row("mpich/shm", cell(), 2), row("cohort/shm", cell(), 1),
                              row("cohort/shm-shared", cell(), 0.5)])
        self.assertEqual(results.best_peer(cell()), (2, "mpich/shm"))
        self.assertEqual(results.entry(program("cohort/shm"), cell()).times_faster, 2)
        self.assertEqual(results.entry(program("cohort/shm-shared"), cell()).times_faster, 4)

    def test_the_limit_is_stated_as_a_part_of_cohorts_time(self):
        barrier = cell("barrier", size=0)
        results = results_of([row("cohort/shm", barrier, 0.24)], LIMITS)
        self.assertAlmostEqual(results.entry(program("cohort/shm"), barrier).of_limit, 0.5)
        self.assertIsNone(results_of([row("cohort/shm", barrier, 1)]).entry(program("cohort/shm"), barrier).of_limit)

    def test_a_later_row_takes_the_place_of_a_reason(self):
        results = results_of([row("cohort/shm", cell(), 1)])
        results.add_missing(Missing("mpich/shm", cell(), "no answer"))
        self.assertEqual(list(results.missing.values()), ["no answer"])
        results.add_untried(Missing("mpich/shm", cell(), "the time was over"))
        self.assertEqual(list(results.missing.values()), ["no answer"])
        results.add(row("mpich/shm", cell(), 1))
        results.add_missing(Missing("mpich/shm", cell(), "no answer"))
        self.assertEqual(results.missing, {})


class Targets(unittest.TestCase):
    def test_of_two_targets_against_the_same_peers_the_higher_one_counts(self):
        results = results_of([row("openmpi/shm", cell(), 1.2), row("cohort/shm", cell(), 1)])
        [verdict] = targets.judge(results, TARGETS)
        self.assertEqual((verdict.wanted, verdict.reached, verdict.rival), (1.3, 1.2, "openmpi/shm"))
        self.assertTrue(verdict.is_short)

    def test_a_rival_may_use_another_transport(self):
        results = results_of([row("torch/tcp", cell(transport="tcp"), 90), row("cohort/shm", cell(), 1)])
        [verdict] = targets.judge(results, TARGETS)
        self.assertEqual((verdict.reached, verdict.rival, verdict.is_short), (90, "torch/tcp", False))

    def test_nothing_is_judged_without_a_rival_or_a_figure(self):
        self.assertEqual(targets.judge(results_of([row("cohort/shm", cell(), 1)]), TARGETS), [])
        self.assertEqual(targets.judge(results_of([row("openmpi/shm", cell(), 1)]), TARGETS), [])

    def test_a_shortfall_is_explained_by_the_first_bound_that_fits(self):
        results = results_of([row("openmpi/shm", cell(), 1.2), row("cohort/shm", cell(), 1)])
        [verdict] = targets.judge(results, TARGETS)
        fitting = bounds.Bound(("all_reduce",), (2,), "cohort/shm*", 0, 8, "a line", "much")
        others = [bounds.Bound(("barrier",), (2,), "*", 0, 8, "", ""), bounds.Bound(("all_reduce",), (4,), "*", 0, 8, "", ""),
                  bounds.Bound(("all_reduce",), (2,), "cohort/tcp", 0, 8, "", ""),
                  bounds.Bound(("all_reduce",), (2,), "*", 9, 16, "", "")]
        self.assertEqual(bounds.explain(verdict, [*others, fitting, fitting]), 5)
        self.assertIsNone(bounds.explain(verdict, others))

    def test_the_bounds_that_are_known_say_what_was_tried(self):
        for bound in bounds.read():
            self.assertTrue(bound.bound and bound.tried, bound)

    def test_the_file_names_known_programs_and_holds_the_promises(self):
        read = targets.read()
        names = {p.name for p in PROGRAMS} | {"cohort"}
        self.assertLessEqual({target.program for target in read}, names)
        for target in read:
            rivals = [p.name for p in PROGRAMS if target.is_rival(p.name)]
            self.assertTrue(rivals or target.operators == (targets.OVERLAP,), target)
        found = [t.times for t in read if t.applies("cohort/shm-shared", cell(ranks=8, size=64 << 20))]
        self.assertEqual(found, [4])
        found = [t.times for t in read if t.applies("cohort/tcp", cell("reduce", 2, 1 << 20, "tcp"))]
        self.assertEqual(sorted(found), [1, 1.3])


class Text(unittest.TestCase):
    def test_every_missing_figure_has_its_reason(self):
        results = results_of([row("openmpi/shm", cell(), 2), row("cohort/shm", cell(), 1)])
        results.add_missing(Missing("mpich/shm", cell(), "no answer within 30 s"))
        lines = list(table.lines_of(results, ["shm"]))
        [line] = [line for line in lines if line.startswith("all_reduce")]
        self.assertIn("1.00   2.00", line)
        self.assertTrue(any("mpich/shm: no answer within 30 s" in one for one in lines))
        marks = [word for word in line.split() if word.startswith("[")]
        for mark in marks:
            self.assertTrue(any(one.startswith(mark) for one in lines), mark)


if __name__ == "__main__":
    unittest.main()
