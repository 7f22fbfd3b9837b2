# SPDX-License-Identifier: Apache-2.0
"""Process groups of torch.distributed, whatever started the ranks."""

import os
import pathlib
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))

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


KILLED = """
import os, signal, sys
import torch
import torch.distributed as dist
import cohort.torch

for turn in range(3):
    cohort.torch.init_process_group()
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [2.0, 2.0, 2.0]
    if turn < 2:
        dist.destroy_process_group()
print("met three times\\n", end="", flush=True)
dist.barrier()
if dist.get_rank() == int(sys.argv[1]):
    os.kill(os.getpid(), signal.SIGKILL)
dist.barrier()
"""


# Written for torchrun: not a line knows cohort.
PROGRAM_OF_TORCHRUN = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
tensor = torch.full((3,), float(os.environ["LOCAL_RANK"]) + 1)
dist.all_reduce(tensor)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} by {str(dist.get_backend_config()).split(',')[0]}: {tensor.tolist()}\\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
"""


class Launchers(unittest.TestCase):
    def test_programs_written_for_torchrun_run_under_cohort_run(self):
        # What torch does itself where the package is installed, and not only found.
        loaded = "import torch, cohort_autoload; cohort_autoload.autoload()\n" + PROGRAM_OF_TORCHRUN
        for program, variables, backend in ((PROGRAM_OF_TORCHRUN, {}, "gloo"), (loaded, {"COHORT_TORCH": "gloo"}, "cohort")):
            with self.subTest(backend=backend):
                status, output = launch("cohort run", 2, program, **variables)
                self.assertEqual(status, 0, output)
                for rank in range(2):
                    self.assertIn(f"rank {rank} of 2 by cpu:{backend}: [3.0, 3.0, 3.0]\n", output)
                self.assertNotIn("cohort[", output)  # nothing is said of a launcher that is half there

    def test_jobs_that_run_at_once_have_masters_of_their_own(self):
        results = []
        jobs = [threading.Thread(target=lambda: results.append(launch("cohort run", 2, PROGRAM_OF_TORCHRUN))) for _ in range(3)]
        for job in jobs:
            job.start()
        for job in jobs:
            job.join()
        self.assertEqual([status for status, _ in results], [0, 0, 0], results)

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

    def test_nothing_is_left_of_a_store_by_ranks_that_are_killed(self):
        for victim in (0, 1):
            with self.subTest(victim=victim), tempfile.TemporaryDirectory() as folder:
                output = launch("cohort run", 2, KILLED, str(victim), TMPDIR=folder)[1]
                self.assertEqual(output.count("met three times"), 2, output)
                self.assertIn(f"rank {victim} ", output)
                self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    unittest.main()
