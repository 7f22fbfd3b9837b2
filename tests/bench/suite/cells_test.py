#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rows as programs print them, and the figure that their rounds make."""

import unittest

from support import FAR, NEAR, cell, row
from suite.cells import Missing, choose_kind, figure_of, kind_between, parse_line, parse_size, size_text


class Lines(unittest.TestCase):
    def test_a_row_is_read_whole(self):
        found = parse_line("openmpi,shm-ucx,all_reduce,4,4096,1.0,2.5,9.0,700,131,129\n", 3)
        self.assertEqual(found.program, "openmpi/shm-ucx")
        self.assertEqual(found.cell, cell(ranks=4, size=4096))
        self.assertEqual((found.median_us, found.iterations, found.kind, found.round), (2.5, 700, "near", 3))
        self.assertEqual(",".join(map(str, found.fields())),
                         "openmpi,shm-ucx,all_reduce,4,4096,1.000,2.500,9.000,700,131,129,3")

    def test_a_barrier_has_no_size_whatever_was_asked_for(self):
        self.assertEqual(parse_line("gloo,tcp,barrier,2,8,1,2,3,5,0,0").cell, cell("barrier", size=0, transport="tcp"))

    def test_a_point_that_cannot_be_measured_says_why(self):
        found = parse_line("gloo,tcp-busy,reduce,2,8,-,there is none, at all")
        self.assertEqual(found, Missing("gloo/tcp-busy", cell("reduce", transport="tcp"), "there is none, at all"))

    def test_other_lines_are_no_rows(self):
        for line in ("", "peer,transport,collective,ranks,bytes,min_us,median_us", "WARNING: a, b, c, d, e, f, g, h"):
            self.assertIsNone(parse_line(line), line)

    def test_broken_rows_are_refused(self):
        for line in ("gloo,tcp,barrier,2,0,1,2,3,5", "gloo,tcp,barrier,2,0,1,nan,3,5,0,0",
                     "gloo,tcp,barrier,2,0,1,0,3,5,0,0", "gloo,tcp,barrier,two,0,1,2,3,5,0,0"):
            with self.assertRaises(ValueError, msg=line):
                parse_line(line)

    def test_sizes_are_read_as_they_are_written(self):
        for text, size in (("8", 8), ("4K", 4096), ("64M", 64 << 20)):
            self.assertEqual(parse_size(text), size)
            self.assertEqual(size_text(size), text)
        for text in ("2", "4X", "", "-4K"):
            with self.assertRaises((ValueError, IndexError), msg=text):
                parse_size(text)


class Kinds(unittest.TestCase):
    def test_cores_that_moved_meanwhile_are_of_no_kind(self):
        self.assertEqual([kind_between(a, b) for a, b in ((60, 70), (130, 140), (500, 400), (130, 480), (0, 0))],
                         ["siblings", "near", "far", "moved", "unknown"])

    def test_the_kind_is_one_that_all_programs_have(self):
        both = [row("a/shm", cell(), 1, NEAR), row("a/shm", cell(), 3, FAR)]
        far = [row("b/shm", cell(), 4, FAR)]
        self.assertEqual(choose_kind([both, far]), "far")
        self.assertEqual(choose_kind([both, both]), "near")

    def test_a_figure_is_the_median_of_the_rounds_of_its_kind(self):
        rows = [row("a/shm", cell(), us, trip) for us, trip in ((1, NEAR), (1.2, NEAR), (1.4, NEAR), (9, FAR))]
        near = figure_of(rows, "near")
        self.assertEqual((near.us, near.is_of_kind, near.varies, near.rounds), (1.2, True, False, 3))

    def test_a_figure_of_another_kind_is_marked(self):
        figure = figure_of([row("a/shm", cell(), 1), row("a/shm", cell(), 2.1)], "far")
        self.assertEqual((figure.is_of_kind, figure.varies), (False, True))
        self.assertIsNone(figure_of([], "near"))


if __name__ == "__main__":
    unittest.main()
