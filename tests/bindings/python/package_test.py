# SPDX-License-Identifier: Apache-2.0
"""What the package is without other ranks: launchers, exceptions, types, what an import costs."""

import os
import socket
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import cohort
from cohort import errors
from cohort._launch import place_from

from support import BUILD, environment


class Package(unittest.TestCase):
    def test_a_launcher_says_which_rank_this_is(self):
        mpi = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_SIZE": "8"}
        place = place_from(mpi)
        self.assertEqual((place["rank"], place["size"]), (3, 8))
        self.assertEqual(place_from({**mpi, "OMPI_COMM_WORLD_RANK": "0"})["address"], place["address"])
        self.assertNotEqual(place_from({**mpi, "PMIX_NAMESPACE": "2"}), place_from({**mpi, "PMIX_NAMESPACE": "3"}))
        torch = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "29500"}
        self.assertEqual(place_from(torch)["size"], 2)
        self.assertEqual(place_from({**torch, "COHORT_RANK": "0", "COHORT_SIZE": "1"}), {})
        self.assertEqual(place_from({}), {})
        with self.assertRaisesRegex(RuntimeError, "COHORT_ADDR=HOST:PORT"):
            place_from({**torch, "LOCAL_WORLD_SIZE": "1"})

    def test_ranks_behind_scripts_meet_and_those_of_other_jobs_do_not(self):
        # What starts ranks stands between this process and them, as a launcher does.
        launcher = """
import os, subprocess, sys
say = [sys.executable, "-c", "from cohort._launch import place_from; print(place_from()['address'])"]
script = ["sh", "-c", '"$@"; exit $?', "sh"]  # a shell that stays
for scripts in (0, 0, 1, 2):
    environment = {**os.environ, "PMI_RANK": str(scripts), "PMI_SIZE": "4", "MPI_LOCALNRANKS": "4"}
    subprocess.run(scripts * script + say, env=environment, check=True)
"""
        jobs = [subprocess.run([sys.executable, "-c", launcher], env=environment(), check=True, timeout=60,
                               stdout=subprocess.PIPE, text=True).stdout.split() for _ in range(2)]
        for addresses in jobs:
            self.assertEqual(len(addresses), 4)
            self.assertEqual(len(set(addresses)), 1, addresses)
        self.assertNotEqual(jobs[0][0], jobs[1][0])

    def test_torch_s_ranks_meet_by_their_port_wherever_they_are_started(self):
        torch = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "29500"}
        first = place_from(torch)["address"]
        with mock.patch("os.getppid", return_value=1):
            self.assertEqual(place_from({**torch, "RANK": "1"})["address"], first)
        self.assertNotEqual(place_from({**torch, "MASTER_PORT": "29501"})["address"], first)
        self.assertNotEqual(place_from({**torch, "TORCHELASTIC_RESTART_COUNT": "1"})["address"], first)

    def test_exceptions_are_a_tree_with_attributes(self):
        text = "collective #7 on 'world': rank 1 gives 3 elements; give 4"
        error = errors.error_of("Mismatch", text, 1, "scan", 7, "x")
        self.assertIsInstance(error, cohort.Mismatch)
        self.assertEqual((error.kind, error.rank, error.op, error.sequence, error.advice),
                         ("Mismatch", 1, "scan", 7, "give 4"))
        self.assertTrue(str(error).startswith("Mismatch: collective #7") and str(error).endswith("(this rank gave x)"))
        self.assertTrue(issubclass(cohort.DeadlineExceeded, TimeoutError))
        self.assertTrue(issubclass(cohort.InvalidArgument, ValueError))
        self.assertIs(type(errors.error_of("NewKind", "text", None, "", None, "")), cohort.CohortError)

    def test_one_rank_is_a_world(self):
        program = "import cohort, numpy; cohort.init(); assert cohort.all_reduce(numpy.ones(3)).sum() == 3"
        subprocess.run([sys.executable, "-c", program], env=environment(), check=True, timeout=60)

    def test_ranks_of_another_launcher_use_the_secret_that_is_given(self):
        with socket.socket() as probe, tempfile.NamedTemporaryFile() as secret:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
            probe.close()
            secret.write(os.urandom(32).hex().encode())
            secret.flush()
            program = "import cohort, numpy; cohort.init(join_timeout=30); assert cohort.all_reduce(numpy.ones(1)) == 2"
            common = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "COHORT_ADDR": address, "COHORT_SECRET_FILE": secret.name}
            ranks = [subprocess.Popen([sys.executable, "-c", program], env=environment(RANK=str(rank), **common),
                                      stderr=subprocess.PIPE, text=True) for rank in range(2)]
            for rank in ranks:
                errors_of_rank = rank.communicate(timeout=60)[1]
                self.assertEqual(rank.returncode, 0, errors_of_rank)
                self.assertNotIn("rank 0 of 1", errors_of_rank)

    def test_finalize_leaves_all_and_raises_the_first_failure(self):
        class Fails:
            is_closed = False
            tries = 0

            def close(self):
                Fails.tries += 1
                raise cohort.PeerDied(f"the end of {Fails.tries}")

        several = [Fails(), Fails()]
        with mock.patch.object(cohort, "_open", set(several)), self.assertRaisesRegex(cohort.PeerDied, "the end of 1"):
            cohort.finalize()
        self.assertEqual(Fails.tries, 2)

    def test_the_package_imports_nothing_large_until_it_needs_it(self):
        program = "import cohort, sys; assert not {'numpy', 'torch', 'asyncio'} & set(sys.modules)"
        subprocess.run([sys.executable, "-c", program], env=environment(), check=True, timeout=60)

    def test_types_are_there_for_checkers(self):
        package = BUILD / "python" / "cohort"
        self.assertTrue((package / "py.typed").exists() and (package / "_cohort.pyi").exists())
        for name in cohort.__all__:
            self.assertTrue(hasattr(cohort, name), name)
            self.assertTrue(getattr(cohort, name).__doc__, name)


if __name__ == "__main__":
    unittest.main()
