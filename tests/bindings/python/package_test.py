# SPDX-License-Identifier: Apache-2.0
"""What the package is without other ranks: launchers, exceptions, types, what an import costs."""

import os
import socket
import subprocess
import sys
import tempfile
import traceback
import unittest
from unittest import mock

import cohort
from cohort import errors

from support import BUILD, environment


class Package(unittest.TestCase):
    def place(self, **variables):
        """(rank, size, address) of a process with these variables, or what it says in its place."""
        done = subprocess.run([sys.executable, "-c", "from cohort._cohort import launched_place; print(*launched_place())"],
                              env=environment(**variables), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                              check=False)
        return done.stdout.rstrip("\n").split(" ") if done.returncode == 0 else done.stdout

    def test_a_launcher_says_which_rank_this_is(self):
        mpi = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_SIZE": "8"}
        rank, size, address = self.place(**mpi)
        self.assertEqual((rank, size), ("3", "8"))
        self.assertEqual(self.place(**{**mpi, "OMPI_COMM_WORLD_RANK": "0"})[2], address)
        torch = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "29500"}
        self.assertEqual(self.place(**torch)[1], "2")
        self.assertEqual(self.place(**torch, COHORT_RANK="0", COHORT_SIZE="1")[1], "1")
        self.assertIn("COHORT_ADDR=HOST:PORT", self.place(**{**torch, "LOCAL_WORLD_SIZE": "1"}))

    def test_ranks_behind_scripts_meet_and_those_of_other_jobs_do_not(self):
        # What starts ranks stands between this process and them, as a launcher does.
        launcher = """
import os, subprocess, sys
say = [sys.executable, "-c", "from cohort._cohort import launched_place; print(launched_place()[2])"]
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

    def test_the_bytes_of_root_info_are_all_that_ranks_need(self):
        info = cohort.root_info()
        self.assertEqual((type(info), len(info)), (bytes, 128))
        program = ("import cohort, numpy, sys; info = bytes.fromhex(sys.argv[1]); "
                   "cohort.init(root_info=info, rank=int(sys.argv[2]), size=2); assert cohort.all_reduce(numpy.ones(3)).sum() == 6")
        ranks = [subprocess.Popen([sys.executable, "-c", program, info.hex(), str(rank)], env=environment()) for rank in (0, 1)]
        self.assertEqual([rank.wait(60) for rank in ranks], [0, 0])
        with self.assertRaisesRegex(cohort.InvalidArgument, "send all 128"):
            cohort.init(root_info=info[1:], rank=0, size=1)
        with self.assertRaisesRegex(cohort.InvalidArgument, "root_info needs rank and size"):
            cohort.init(root_info=info)

    def test_exceptions_are_a_tree_with_attributes(self):
        text = "collective #7 on 'world': rank 1 gives 3 elements; give 4"
        error = errors.error_of("Mismatch", text, 1, "scan", 7, "x")
        self.assertIsInstance(error, cohort.Mismatch)
        self.assertEqual((error.kind, error.rank, error.op, error.sequence, error.advice),
                         ("Mismatch", 1, "scan", 7, "give 4"))
        self.assertEqual(str(error), f"{text} (this rank gave x)")
        self.assertEqual(traceback.format_exception_only(error), [f"cohort.errors.Mismatch: {error}\n"])
        self.assertEqual(str(errors.error_of("NewKind", "text", None, "", None, "")), "NewKind: text")
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

    def test_what_is_for_another_library_says_so_where_that_is_missing(self):
        for library in ("lightgbm", "ray"):
            program = f"import sys; sys.modules['{library}'] = None; import cohort.{library}"
            done = subprocess.run([sys.executable, "-c", program], env=environment(), text=True, timeout=60, check=False,
                                  stderr=subprocess.PIPE)
            self.assertRegex(done.stderr, f"\\nImportError: cohort.{library} needs .*: pip install {library} ")

    def test_types_are_there_for_checkers(self):
        package = BUILD / "python" / "cohort"
        self.assertTrue((package / "py.typed").exists() and (package / "_cohort.pyi").exists())
        for name in cohort.__all__:
            self.assertTrue(hasattr(cohort, name), name)
            self.assertTrue(getattr(cohort, name).__doc__, name)


if __name__ == "__main__":
    unittest.main()
