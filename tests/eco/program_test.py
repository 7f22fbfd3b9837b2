# SPDX-License-Identifier: Apache-2.0
"""A program that never heard of cohort gives gloo's losses on it, and is told which rank was killed.
Usage: program_test.py PROGRAM [ARGUMENT...], of those in programs/."""

import signal
import sys
import unittest

from support import losses_of, run_ranks

KILL_AT, STEPS = 4, 6
PROGRAM = sys.argv[1:]
# The exception that ends the program; some log it before, too.
TOLD = "Error: PeerDied: rank 1 ("


class Program(unittest.TestCase):
    def test_losses_are_those_over_gloo(self):
        over_gloo = run_ranks(2, *PROGRAM)  # which sometimes aborts as the interpreter ends, when all is told
        expected = losses_of(over_gloo[0][1])
        self.assertEqual(len(expected), STEPS, over_gloo)
        over_cohort = run_ranks(2, *PROGRAM, COHORT_TORCH="gloo")
        for rank, (status, output) in enumerate(over_cohort):
            self.assertEqual(status, 0, f"rank {rank}: {output}")
        self.assertEqual(losses_of(over_cohort[0][1]), expected)

    def test_a_killed_rank_is_named(self):
        (status, told), (killed, _) = run_ranks(2, *PROGRAM, COHORT_TORCH="gloo", KILL_AT=str(KILL_AT))
        self.assertEqual(killed, -signal.SIGKILL)
        self.assertNotEqual(status, 0)
        self.assertEqual(len(losses_of(told)), KILL_AT, told)
        self.assertEqual(told.count(TOLD), 1, told)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
