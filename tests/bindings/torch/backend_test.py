# SPDX-License-Identifier: Apache-2.0
"""Every call of torch.distributed over the backend "cohort"."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))

import forked
import backend_ranks
import interface_ranks
import torch.distributed as dist


class Backend(unittest.TestCase):
    def test_on_three_ranks(self):
        forked.check_ranks(self, 3, backend_ranks.run, dist.DebugLevel.OFF)

    def test_with_all_that_torch_checks_in_debug_mode(self):
        forked.check_ranks(self, 3, backend_ranks.run, dist.DebugLevel.DETAIL)

    def test_the_interface_on_two_and_four_ranks(self):
        for ranks in (2, 4):
            with self.subTest(ranks):
                forked.check_parts(self, ranks, interface_ranks.__name__)


if __name__ == "__main__":
    unittest.main()
