#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mpi4py's own suite, as far as cohort has what it is about, on cohort's libmpi.so.12.

    PYTHON tests/bindings/mpi/suite.py FOLDER [--ranks 4] [TEST...]

FOLDER is test/ of mpi4py's source distribution. The files run one after the other in the same ranks, which `cohort run` starts.
expectations.json says which tests may be skipped, and why; any other skip, a failure, or an expected one that is not skipped
on any rank fails this.
"""

import argparse
import importlib
import json
import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
FILES = ("test_cco_buf", "test_cco_nb_buf", "test_cco_vec", "test_cco_obj", "test_p2p_buf", "test_p2p_obj", "test_comm")


def read_arguments():
    parser = argparse.ArgumentParser(description="runs mpi4py's own suite")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rank-of-suite", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("tests", nargs="*", help="parts of names; all without")
    return parser.parse_args()


def names_in(tests):
    for test in tests:
        if isinstance(test, unittest.TestSuite):
            yield from names_in(test)
        else:
            yield test


def wrong_skips(result, is_whole):
    """What was skipped and should not have been, and the other way round. Expectations are by file and name, for all classes."""
    expected = json.loads((HERE / "expectations.json").read_text())
    skipped = {}
    for test, reason in result.skipped:
        file, _, name = test.id().split(".")
        skipped[f"{file}.{name}"] = reason
    for name, reason in skipped.items():
        if name not in expected:
            yield f"{name} was skipped, which is not expected: {reason}"
    for name in expected:
        if is_whole and name not in skipped:
            yield f"{name} was not skipped: take it out of expectations.json"


def is_chosen(test, arguments):
    """Communicators of one rank are what they are with any number of ranks: once four share the cores, others are enough."""
    if arguments.tests:
        return any(part in test.id() for part in arguments.tests)
    return arguments.ranks < 4 or "Self" not in type(test).__name__


def run_rank(arguments):
    """What each rank does."""
    sys.path.insert(0, str(arguments.folder))
    loader = unittest.TestLoader()
    chosen = unittest.TestSuite()
    for name in FILES:
        for test in names_in(loader.loadTestsFromModule(importlib.import_module(name))):
            if is_chosen(test, arguments):
                chosen.addTest(test)
    result = unittest.TextTestRunner(verbosity=int(os.environ.get("COHORT_SUITE_VERBOSITY", "1"))).run(chosen)
    wrong = list(wrong_skips(result, is_whole=not arguments.tests))
    for line in wrong:
        print(line, file=sys.stderr)
    # MPI ends with the interpreter, and this rank with it: the others need not wait for it.
    return 0 if result.wasSuccessful() and not wrong else 1


def main():
    arguments = read_arguments()
    if arguments.rank_of_suite:
        sys.exit(run_rank(arguments))
    build = pathlib.Path(os.environ["COHORT_TEST_BUILD"])
    command = [build / "bin" / "cohort-run", "--mpi", "-n", str(arguments.ranks), "--timeout", "1000", "--", sys.executable,
               __file__, arguments.folder, "--ranks", str(arguments.ranks), "--rank-of-suite", *arguments.tests]
    environment = {**os.environ, "COHORT_TIMEOUT": "120"}
    sys.exit(subprocess.run(list(map(str, command)), env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
