# SPDX-License-Identifier: Apache-2.0
"""Every call of torch.distributed over the backend "cohort"."""

import multiprocessing
import os
import pathlib
import sys
import tempfile
import unittest

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))

import torch.distributed as dist

import backend_ranks

LIMIT_S = 240  # of a hang: each rank makes a hundred calls, and models


class Backend(unittest.TestCase):
    """Ranks are forked: torch takes seconds of a core to import, which each of them would spend."""

    def test_on_three_ranks(self):
        self.check_ranks(dist.DebugLevel.OFF)

    def test_with_all_that_torch_checks_in_debug_mode(self):
        self.check_ranks(dist.DebugLevel.DETAIL)

    def check_ranks(self, debug_level):
        with tempfile.TemporaryDirectory() as folder:
            fork = multiprocessing.get_context("fork")
            store = os.path.join(folder, "store")
            ranks = [fork.Process(target=backend_ranks.run, args=(rank, 3, store, debug_level)) for rank in range(3)]
            for rank in ranks:
                rank.start()
            try:
                for rank in ranks:
                    rank.join(LIMIT_S)
                self.assertEqual([rank.exitcode for rank in ranks], [0, 0, 0], "None: not over in time")
            finally:
                for rank in ranks:
                    rank.kill()
                    rank.join()


if __name__ == "__main__":
    unittest.main()
