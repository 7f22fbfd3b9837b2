# SPDX-License-Identifier: Apache-2.0
"""cohort.init() finds its place by itself whatever started the ranks."""

import unittest

from cohort._launch import place_from
from launchers import launch
from support import RUNNER

PROGRAM = """
import cohort, numpy

cohort.init(join_timeout=90)
rank, size = cohort.get_rank(), cohort.get_world_size()
assert cohort.all_reduce(numpy.full(4, rank + 1.0))[0] == size * (size + 1) / 2
print(f"rank {rank} of {size}\\n", end="", flush=True)
"""


# A rank of C++ in the place of the interpreter.
COMMAND = RUNNER.with_name("cohort")
EXECUTE = """
import os, sys
os.execv(sys.argv[1], [sys.argv[1], "bench", "all_reduce", "--sizes", "8", "--iters", "3"])
"""


class Launchers(unittest.TestCase):
    def check_of_cpp(self, launcher):
        if not COMMAND.exists():
            self.skipTest(f"{COMMAND} is not built")
        status, output = launch(launcher, 3, EXECUTE, str(COMMAND))
        self.assertEqual(status, 0, output)
        self.assertEqual(output.count("# cohort all_reduce: 3 processes over shm"), 1, output)

    def test_programs_of_cpp_under_cohort_run(self):
        self.check_of_cpp("cohort run")

    def test_programs_of_cpp_under_mpirun(self):
        self.check_of_cpp("mpirun of Open MPI")

    def test_programs_of_cpp_under_mpiexec(self):
        self.check_of_cpp("mpiexec of MPICH")

    def test_programs_of_cpp_under_torch_distributed_run(self):
        self.check_of_cpp("torch.distributed.run")

    def check(self, launcher):
        status, output = launch(launcher, 3, PROGRAM)
        self.assertEqual(status, 0, output)
        for rank in range(3):
            self.assertIn(f"rank {rank} of 3\n", output)

    def test_cohort_run(self):
        self.check("cohort run")

    def test_mpirun_of_open_mpi(self):
        self.check("mpirun of Open MPI")

    def test_mpiexec_of_mpich(self):
        self.check("mpiexec of MPICH")

    def test_torch_distributed_run(self):
        self.check("torch.distributed.run")

    def test_master_addr_by_hand(self):
        self.check("MASTER_ADDR by hand")

    def test_variables_of_srun(self):
        step = {"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_TASKS_PER_NODE": "4"}
        place = place_from(step)
        self.assertEqual((place["rank"], place["size"]), (2, 4))
        self.assertRegex(place["address"], r"^unix:cohort-\d+-[0-9a-f]{16}$")
        several = {**step, "SLURM_STEP_TASKS_PER_NODE": "2(x2)"}
        with self.assertRaisesRegex(RuntimeError, "on several hosts"):
            place_from(several)
        self.assertEqual(place_from({**several, "COHORT_ADDR": "10.0.0.1:1"})["address"], "10.0.0.1:1")


if __name__ == "__main__":
    unittest.main()
