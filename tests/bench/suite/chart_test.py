#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The chart of the README shows the figures of its page, or of a run of the suite."""

import pathlib
import unittest
import xml.etree.ElementTree as xml

from support import ROOT
import chart

MEASURED = ROOT / "docs/measured"
CELLS = """transport,collective,ranks,bytes,placement,cohort,cohort_us,best_peer,best_us,best/cohort,limit_us,limit/cohort
shm,all_reduce,2,1048576,near,cohort/shm,40.000,mpich/shm,80.000,2.000,,
shm,all_reduce,2,8,near,cohort/shm,0.120,mpich/shm,0.180,1.500,,
shm,broadcast,2,8,near,cohort/shm,0.120,mpich/shm,0.180,1.500,,
tcp,all_reduce,4,8,near,cohort/tcp,25.000,,,,,
"""


class Chart(unittest.TestCase):
    def test_the_committed_one_is_that_of_its_page(self):
        lines = (MEASURED / "all-reduce.md").read_text(encoding="utf-8").splitlines()
        self.assertEqual(chart.chart(chart.from_page(lines)), (MEASURED / "all-reduce.svg").read_text(encoding="utf-8"))

    def test_each_line_of_it_is_drawn(self):
        root = xml.fromstring((MEASURED / "all-reduce.svg").read_text(encoding="utf-8"))
        self.assertEqual(len(root.findall("{http://www.w3.org/2000/svg}polyline")), len(chart.LINES))

    def test_cells_of_the_suite_are_read_in_order_of_size(self):
        self.assertEqual(chart.from_suite(CELLS.splitlines()), {("cohort/shm", 2): [(8, 1.5), (1 << 20, 2.0)]})

    def test_sizes_are_read_and_written(self):
        for words in ("8 B", "4 KiB", "256 KiB", "64 MiB"):
            self.assertEqual(chart.size_text(chart.bytes_of(words)), words)


if __name__ == "__main__":
    unittest.main()
