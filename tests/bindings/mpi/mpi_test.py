#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of MPI that know nothing of cohort: of mpi4py's wheel, and compiled for MPICH."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["COHORT_TEST_BUILD"])
HERE = pathlib.Path(__file__).resolve().parent


def run(*command, **environment):
    done = subprocess.run(list(map(str, command)), env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def run_ranks(ranks, *command, options=(), **environment):
    return run(BUILD / "bin" / "cohort-run", "--mpi", "-n", ranks, "--timeout", 200, *options, "--", *command, **environment)


class Mpi4py(unittest.TestCase):
    def check(self, case, *ranks, **environment):
        for number in ranks:
            with self.subTest(ranks=number):
                status, text = run_ranks(number, sys.executable, HERE / "mpi_ranks.py", case, **environment)
                self.assertEqual(status, 0, text)

    def test_calls_that_are_wrong_on_all_ranks_leave_the_communicator_usable(self):
        self.check("wrong", 2)

    def test_what_is_not_here_fails_by_its_name(self):
        self.check("missing", 2)

    def test_messages_of_any_length_source_and_tag(self):
        self.check("messages", 1, 3)
        self.check("messages", 2, COHORT_TRANSPORT="tcp")

    def test_reductions_that_cohort_has_no_operation_for(self):
        self.check("reductions", 1, 3)

    def test_communicators_of_some_ranks(self):
        self.check("groups", 3)

    def test_threads_have_communicators_of_their_own(self):
        self.check("threads", 2)

    def test_a_program_without_a_launcher_is_a_world_of_its_own(self):
        library = BUILD / "lib" / "cohort" / "mpi" / "libmpi.so.12"
        status, text = run(sys.executable, HERE / "mpi_ranks.py", "messages", MPI4PY_LIBMPI=str(library))
        self.assertEqual(status, 0, text)

    def test_a_killed_rank_is_named_in_the_error_string(self):
        _, text = run_ranks(3, sys.executable, HERE / "mpi_ranks.py", "killed", options=["--keep-going"])
        for rank in (0, 2):
            self.assertRegex(text, rf"rank {rank}: MPI_\w+: PeerDied: rank 1 ")

    def test_ranks_that_disagree_read_who_has_what(self):
        _, text = run_ranks(2, sys.executable, HERE / "mpi_ranks.py", "disagreeing")
        for rank in (0, 1):
            self.assertRegex(text, rf"rank {rank}: MPI_Allreduce_c: Mismatch: .*count differs: rank 1 has 5, rank 0 has 4")


@unittest.skipIf(shutil.which("mpicc.mpich") is None, "there is no mpicc of MPICH: Debian package libmpich-dev")
class Compiled(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.program = pathlib.Path(cls.folder.name) / "program"
        subprocess.run(["mpicc.mpich", "-Wall", "-Werror", HERE / "program.c", "-o", cls.program], check=True)

    def test_a_program_for_mpich_runs(self):
        for ranks in (1, 2, 4):
            status, text = run_ranks(ranks, self.program)
            self.assertEqual((status, text.count(f"all is well among {ranks}")), (0, ranks), text)

    def test_an_error_ends_a_program_that_has_no_handler(self):
        status, text = run_ranks(2, self.program, "fatal")
        self.assertNotEqual(status, 0, text)
        self.assertIn("MPI_Bcast: root 2 of a communicator of 2", text)

    def test_a_program_gives_up_inside_its_operation(self):
        status, text = run_ranks(2, self.program, "in_operation")
        self.assertNotEqual(status, 0, text)
        self.assertIn("MPI_Abort with code 5", text)
        self.assertNotIn("timeout", text)

    def test_no_code_of_an_abort_looks_like_success(self):
        status, text = run_ranks(1, self.program, "code_256")
        self.assertNotEqual(status, 0, text)


if __name__ == "__main__":
    unittest.main()
