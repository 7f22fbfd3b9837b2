# SPDX-License-Identifier: Apache-2.0
"""Every call of the package gives what it says, over every transport."""

import unittest

from support import RanksTestCase


class Calls(RanksTestCase):
    def test_on_three_ranks_over_shared_memory(self):
        self.check_ranks(3, "calls_ranks.py")

    def test_on_two_ranks_over_tcp(self):
        self.check_ranks(2, "calls_ranks.py", COHORT_TRANSPORT="tcp")


if __name__ == "__main__":
    unittest.main()
