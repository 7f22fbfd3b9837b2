# SPDX-License-Identifier: Apache-2.0
"""What the package is without other ranks: launchers, exceptions, types, what an import costs."""

import subprocess
import sys
import unittest

import cohort
from cohort import errors
from cohort._launch import place_from

from support import BUILD, environment


class Package(unittest.TestCase):
    def test_a_launcher_says_which_rank_this_is(self):
        mpi = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_SIZE": "8"}
        place = place_from(mpi, parent=7)
        self.assertEqual((place["rank"], place["size"]), (3, 8))
        self.assertEqual(place_from({**mpi, "OMPI_COMM_WORLD_RANK": "0"}, parent=7)["address"], place["address"])
        self.assertNotEqual(place_from(mpi, parent=8)["address"], place["address"])
        torch = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "29500"}
        self.assertEqual(place_from(torch)["size"], 2)
        self.assertEqual(place_from({**torch, "COHORT_RANK": "0", "COHORT_SIZE": "1"}), {})
        self.assertEqual(place_from({}), {})
        with self.assertRaisesRegex(RuntimeError, "COHORT_ADDR=HOST:PORT"):
            place_from({**torch, "LOCAL_WORLD_SIZE": "1"})

    def test_exceptions_are_a_tree_with_attributes(self):
        error = errors.error_of("Mismatch", "collective #7 on 'world': rank 1 gives 3 elements; give 4", 1, "scan", "x")
        self.assertIsInstance(error, cohort.Mismatch)
        self.assertEqual((error.kind, error.rank, error.op, error.sequence, error.advice),
                         ("Mismatch", 1, "scan", 7, "give 4"))
        self.assertTrue(str(error).startswith("Mismatch: collective #7") and str(error).endswith("(this rank gave x)"))
        self.assertTrue(issubclass(cohort.DeadlineExceeded, TimeoutError))
        self.assertTrue(issubclass(cohort.InvalidArgument, ValueError))
        self.assertIs(type(errors.error_of("NewKind", "text", None, "", "")), cohort.CohortError)

    def test_one_rank_is_a_world(self):
        program = "import cohort, numpy; cohort.init(); assert cohort.all_reduce(numpy.ones(3)).sum() == 3"
        subprocess.run([sys.executable, "-c", program], env=environment(), check=True, timeout=60)

    def test_the_package_asks_for_no_numpy_until_it_needs_it(self):
        program = "import cohort, sys; assert 'numpy' not in sys.modules and 'torch' not in sys.modules"
        subprocess.run([sys.executable, "-c", program], env=environment(), check=True, timeout=60)

    def test_types_are_there_for_checkers(self):
        package = BUILD / "python" / "cohort"
        self.assertTrue((package / "py.typed").exists() and (package / "_cohort.pyi").exists())
        for name in cohort.__all__:
            self.assertTrue(hasattr(cohort, name), name)
            self.assertTrue(getattr(cohort, name).__doc__, name)


if __name__ == "__main__":
    unittest.main()
