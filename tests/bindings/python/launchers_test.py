# SPDX-License-Identifier: Apache-2.0
"""cohort.init() finds its place by itself whatever started the ranks."""

import unittest

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


if __name__ == "__main__":
    unittest.main()
