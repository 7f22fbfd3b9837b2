# SPDX-License-Identifier: Apache-2.0
"""Starts programs of several ranks by `cohort run`, with the package that was built."""

import os
import pathlib
import subprocess
import sys
import textwrap
import traceback
import unittest

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(os.environ["COHORT_TEST_BUILD"])
RUNNER = BUILD / "bin" / "cohort-run"


def environment(**more):
    """The tests' own, without what a launcher around them has left."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COHORT_", "OMPI_", "PMI"))}
    return {**kept, "PYTHONPATH": f"{BUILD / 'python'}:{HERE}", "COHORT_TEST_BUILD": str(BUILD),
            "OMP_NUM_THREADS": "1", **more}


def interpret(program):
    """What runs a file beside this one, or a text."""
    return [sys.executable, *(["-c", textwrap.dedent(program)] if "\n" in program else [str(HERE / program)])]


def run_ranks(ranks, program, *arguments, limit_s=60, **variables):
    """A file beside this one, or a text, on so many ranks: (status, output and errors)."""
    command = [str(RUNNER), "-n", str(ranks), "--timeout", str(limit_s), "--", *interpret(program)]
    done = subprocess.run([*command, *arguments], env=environment(**variables), text=True, timeout=limit_s + 30,
                          check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


class RanksTestCase(unittest.TestCase):
    """Tests whose work is done in other processes."""

    def check_ranks(self, ranks, program, *arguments, limit_s=60, **variables):
        status, output = run_ranks(ranks, program, *arguments, limit_s=limit_s, **variables)
        self.assertEqual(status, 0, output)
        return output


def run_parts(module, prefix="part_"):
    """In a rank: every function of the module that is called so, in order; the first failure ends it."""
    for name, part in sorted(vars(module).items(), key=lambda item: getattr(item[1], "__code__", None) is not None
                             and item[1].__code__.co_firstlineno or 0):
        if name.startswith(prefix):
            try:
                part()
            except BaseException:
                print(f"failed: {name}", flush=True)
                traceback.print_exc()
                raise
