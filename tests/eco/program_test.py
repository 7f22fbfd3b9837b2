# SPDX-License-Identifier: Apache-2.0
"""A program that never heard of cohort gives gloo's losses on it, and is told which rank was killed.
Usage: program_test.py PROGRAM [ARGUMENT...], of those in programs/."""

import os
import signal
import sys
import unittest

from support import losses_of, run_ranks

KILL_AT = 4
PROGRAM = sys.argv[1:]
# What says of the calls of torch that they were cohort's.
TOLD = "PeerDied: rank 1 "


class Program(unittest.TestCase):
    def run_program(self, **variables):
        results = run_ranks(2, *PROGRAM, **variables)
        for rank, (status, output) in enumerate(results):
            self.assertEqual(status, 0, f"rank {rank}: {output}")
        return losses_of(results[0][1])

    def test_losses_are_those_over_gloo(self):
        over_gloo = self.run_program()
        self.assertGreater(len(over_gloo), KILL_AT)
        self.assertEqual(self.run_program(COHORT_TORCH="gloo"), over_gloo)

    def test_a_killed_rank_is_named(self):
        (status, told), (killed, _) = run_ranks(2, *PROGRAM, COHORT_TORCH="gloo", KILL_AT=str(KILL_AT))
        self.assertEqual(killed, -signal.SIGKILL)
        self.assertNotEqual(status, 0)
        self.assertEqual(len(losses_of(told)), KILL_AT, told)
        self.assertEqual(told.count(TOLD), 1, told)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *filter(None, os.environ.get("ECO_TEST", "").split())])
