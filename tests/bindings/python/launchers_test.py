# SPDX-License-Identifier: Apache-2.0
"""cohort.init() finds its place by itself whatever started the ranks."""

import os
import pathlib
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

    def test_what_launchers_say_means_what_it_means_to_cpp(self):
        table = pathlib.Path(__file__).parents[2] / "net/join/launched_places.txt"
        rows = [line for line in table.read_text().splitlines() if line and not line.startswith("#")]
        for row in rows:
            variables, meaning = row.split(" -> ")
            environment = dict(word.split("=", 1) for word in variables.split())
            with self.subTest(row):
                kind, *words = meaning.split()
                if kind == "refused":
                    with self.assertRaises(RuntimeError) as raised:
                        place_from(environment)
                    for word in words:
                        self.assertIn(word.replace("|", " "), str(raised.exception))
                elif kind == "unknown":
                    self.assertEqual(place_from(environment), {})
                elif kind == "alone":
                    self.assertEqual(place_from(environment), {"rank": 0, "size": 1})
                else:
                    place, address = place_from(environment), words[-1]
                    self.assertEqual(f"{place['rank']} of {place['size']}", f"{kind} of {words[1]}")
                    end = "[0-9a-f]{16}" if address == "here" else address
                    self.assertRegex(place["address"], f"^{end}$" if ":" in address else rf"^unix:cohort-{os.getuid()}-{end}$")
        self.assertGreater(len(rows), 10)

    def test_jobs_are_named_by_the_launcher_that_knows_the_hosts(self):
        step = {"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_TASKS_PER_NODE": "4"}
        self.assertEqual(place_from({**step, "PMI_RANK": "2", "PMI_SIZE": "4"}), place_from(step))


if __name__ == "__main__":
    unittest.main()
