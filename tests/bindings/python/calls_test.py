# SPDX-License-Identifier: Apache-2.0
"""Every call of the package gives what it says, over every transport."""

import unittest

from support import RanksTestCase

LIMIT_S = 240  # of a hang: where torch is installed, every rank imports it, which takes seconds of a core


class Calls(RanksTestCase):
    def test_on_three_ranks_over_shared_memory(self):
        self.check_ranks(3, "calls_ranks.py", limit_s=LIMIT_S)

    def test_on_two_ranks_over_tcp(self):
        self.check_ranks(2, "calls_ranks.py", limit_s=LIMIT_S, COHORT_TRANSPORT="tcp")

    def test_ranks_that_say_to_be_on_other_machines_share_no_memory(self):
        self.check_ranks(2, """
            import os
            import cohort
            with cohort.join(machine_id=os.environ["COHORT_RANK"]) as comm:
                assert comm.transport == "tcp", comm.transport
        """, limit_s=LIMIT_S)


if __name__ == "__main__":
    unittest.main()
