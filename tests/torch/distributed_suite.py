#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own suite for backends of torch.distributed, which Debian's python3-torch carries, on "cohort".

    PYTHONPATH=build/release/python tests/torch/distributed_suite.py [--ranks 2] [--backend cohort] [TEST...]

Each test starts ranks of its own. What the suite needs and the package lacks is made up here: expecttest, and a check of
Python 3.11 that one of its modules does not pass. The suite knows backends by name; ours counts as a plug-in. Prints the
outcome of every test that was not skipped, and compares it with EXPECTED_FAILURES; fails if it differs.
"""

import argparse
import dataclasses
import inspect
import logging
import os
import sys
import tempfile
import types
import unittest

# Those that do not pass on cohort, and why.
EXPECTED_FAILURES = {}


def allow_mutable_defaults():
    """As before Python 3.11: a default without a hash is refused only if it is a list, a dict or a set."""
    source = inspect.getsource(dataclasses._get_field)
    changed = source.replace("f.default.__class__.__hash__ is None", "isinstance(f.default, (list, dict, set))")
    exec(compile(changed, dataclasses.__file__, "exec"), vars(dataclasses))  # pylint: disable=exec-used


def stand_in_for_expecttest():
    """What the suite takes of it: a base class that is a test case, of whose comparisons it uses none here."""
    module = types.ModuleType("expecttest")
    module.TestCase = type("TestCase", (unittest.TestCase,), {})
    module.ACCEPT = False
    sys.modules.setdefault("expecttest", module)


def prepare():
    """Also in the ranks, which import this file again."""
    allow_mutable_defaults()
    stand_in_for_expecttest()
    os.environ.setdefault("BACKEND", "cohort")
    os.environ.setdefault("WORLD_SIZE", "2")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TEMP_DIR", tempfile.mkdtemp())
    os.environ.setdefault("INIT_METHOD", "env://")
    for folder in ("barrier", "test_dir", "init_dir"):
        os.makedirs(os.path.join(os.environ["TEMP_DIR"], folder), exist_ok=True)


def read_arguments():
    parser = argparse.ArgumentParser(description="runs PyTorch's own suite of backends")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--backend", default="cohort")
    parser.add_argument("tests", nargs="*", help="names; all without")
    arguments = parser.parse_args()
    os.environ["WORLD_SIZE"] = str(arguments.ranks)
    os.environ["BACKEND"] = arguments.backend
    return arguments


ARGUMENTS = read_arguments() if __name__ == "__main__" else None
prepare()

import torch  # noqa: E402
from torch.testing._internal import common_distributed  # noqa: E402

if os.environ["BACKEND"] == "cohort":
    import cohort.torch  # noqa: E402,F401: registers the backend

    for feature in ("plugin", "ddp", "subgroup"):
        common_distributed.DistTestCases.backend_feature[feature].add("cohort")

from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend  # noqa: E402


class SuiteOfBackend(TestDistBackend, DistributedTest._DistTestBase):
    """Each test in processes of its own."""

    def setUp(self):
        super().setUp()
        self._spawn_processes()
        torch.backends.cudnn.flags(enabled=True, allow_tf32=False).__enter__()


class Outcomes(unittest.TextTestResult):
    """Which tests passed, too."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.passed = []

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed.append(test._testMethodName)


def main():
    logging.disable(logging.INFO)
    names = ARGUMENTS.tests or sorted(unittest.TestLoader().getTestCaseNames(SuiteOfBackend))
    suite = unittest.TestSuite(SuiteOfBackend(name) for name in names)
    result = unittest.TextTestRunner(resultclass=Outcomes, verbosity=2).run(suite)
    failed = {test._testMethodName for test, _ in result.failures + result.errors}
    expected = {name for name in EXPECTED_FAILURES if name in names} if os.environ["BACKEND"] == "cohort" else set()
    print(f"{len(result.passed)} passed, {len(failed)} failed, {len(result.skipped)} skipped of {result.testsRun}")
    for name in sorted(failed - expected):
        print(f"failed: {name}")
    for name in sorted(expected - failed):
        print(f"passed, and was expected to fail: {name}")
    return 1 if failed != expected else 0


if __name__ == "__main__":
    sys.exit(main())
