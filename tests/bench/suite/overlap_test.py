#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much is hidden, and by which form."""

import unittest

from support import cell, results_of, row
from suite import overlap, table, targets

LINE = "overlap,openmpi,shm,MPI_Iallreduce,device,2,16777216,1000.0,1100.0,{both}"


def parsed(both, program="openmpi,shm", form="MPI_Iallreduce"):
    return overlap.parse_line(LINE.format(both=both).replace("openmpi,shm", program).replace("MPI_Iallreduce", form))


class Overlaps(unittest.TestCase):
    def test_hidden_is_the_part_of_the_shorter_one_that_costs_nothing(self):
        self.assertEqual([parsed(both).hidden for both in (2100, 1600, 1100, 900, 5000)], [0, 0.5, 1, 1, 0])

    def test_other_lines_are_no_overlaps(self):
        for line in ("", "overlap,peer,transport,form,computing,ranks,bytes,comm_us,compute_us,both_us",
                     "gloo,tcp,barrier,2,0,1,2,3,5,0,0", LINE.format(both=0)):
            self.assertIsNone(overlap.parse_line(line), line)

    def test_the_better_form_counts(self):
        best = overlap.best_forms([parsed(2000), parsed(1200, form="with MPI_Test"), parsed(1900)])
        self.assertEqual([one.form for one in best.values()], ["with MPI_Test"])

    def test_too_little_beside_a_device_is_short(self):
        results = results_of([row("cohort/shm", cell(), 1)])
        results.overlaps = [parsed(1500, "cohort,shm"), parsed(1150, "cohort,tcp"), parsed(2000, "openmpi,shm")]
        [(what, reached, wanted)] = overlap.shortfalls(results, targets.read())
        self.assertIn("cohort/shm", what)
        self.assertEqual((round(reached, 2), wanted), (0.6, 0.8))
        text = "\n".join(table.lines_of(results, ["shm"]))
        self.assertIn("60 % (1000 -> 1500)", text)


if __name__ == "__main__":
    unittest.main()
