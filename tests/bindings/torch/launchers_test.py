# SPDX-License-Identifier: Apache-2.0
"""Process groups of torch.distributed, whatever started the ranks."""

import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))

import cohort.torch
from launchers import launch

GROUP = """
import torch
import torch.distributed as dist
import cohort.torch

cohort.torch.init_process_group()
assert dist.get_backend() == "cohort"
tensor = torch.ones(3)
dist.all_reduce(tensor)
group = dist.new_group([0])
dist.barrier()  # rank 0 may hold the store that others still ask
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {tensor.tolist()}\\n", end="", flush=True)
dist.destroy_process_group()
"""


class Launchers(unittest.TestCase):
    def check_group(self, launcher):
        status, output = launch(launcher, 2, GROUP)
        self.assertEqual(status, 0, output)
        for rank in range(2):
            self.assertIn(f"rank {rank} of 2: [2.0, 2.0, 2.0]\n", output)

    def test_group_by_cohort_run(self):
        self.check_group("cohort run")

    def test_group_by_mpirun_of_open_mpi(self):
        self.check_group("mpirun of Open MPI")

    def test_group_by_mpiexec_of_mpich(self):
        self.check_group("mpiexec of MPICH")

    def test_group_by_torch_distributed_run(self):
        self.check_group("torch.distributed.run")

    def test_group_by_hand(self):
        self.check_group("MASTER_ADDR by hand")

    def test_ranks_that_leave_at_the_same_time_remove_their_folder(self):
        folder = tempfile.mkdtemp()
        list_names = os.listdir

        def list_after_the_other_has_left(path):
            with mock.patch("os.listdir", list_names):
                cohort.torch._leave(folder, 1, 2)
            return list_names(path)

        with mock.patch("os.listdir", list_after_the_other_has_left):
            cohort.torch._leave(folder, 0, 2)
        self.assertFalse(os.path.exists(folder))


if __name__ == "__main__":
    unittest.main()
