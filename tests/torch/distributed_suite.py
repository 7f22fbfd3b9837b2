#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own suite of backends of torch.distributed, which Debian's python3-torch carries, on gloo and on "cohort".

    PYTHONPATH=build/release/python tests/torch/distributed_suite.py [--ranks 2] [--backend cohort] [--record] [TEST...]

Many of its tests ask for gloo by name. So cohort answers to that name here, but for UNDER_OWN_NAME: what is run is the same
on both, and what gloo passes is the aim. expectations.json says for each number of ranks what gloo passes, and why cohort fails what it fails of
that; this fails where the outcome is another one. --record writes what passed on gloo there.

What the suite needs and the package lacks is made up here: expecttest, and a check of Python 3.11 that one of its modules
does not pass. Ranks are forked, so that torch is imported once.
"""

import argparse
import dataclasses
import inspect
import json
import logging
import os
import pathlib
import sys
import tempfile
import types
import unittest

# Where gloo's name means its class, whose own settings they read.
UNDER_OWN_NAME = ("test_ddp_logging_data_cpu",)
EXPECTATIONS = pathlib.Path(__file__).with_name("expectations.json")


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


def read_arguments():
    parser = argparse.ArgumentParser(description="runs PyTorch's own suite of backends")
    parser.add_argument("--ranks", type=int, default=2, choices=(2, 4))
    parser.add_argument("--backend", default="cohort", choices=("cohort", "gloo"))
    parser.add_argument("--record", action="store_true", help="write down what passes on gloo")
    parser.add_argument("tests", nargs="*", help="names; all without")
    arguments = parser.parse_args()
    if arguments.record and (arguments.backend != "gloo" or arguments.tests):
        parser.error("--record takes --backend gloo and all tests")
    return arguments


def prepare(ranks, folder):
    """What the suite reads when it is imported."""
    for name in ("barrier", "test_dir", "init_dir"):
        os.makedirs(os.path.join(folder, name))
    os.environ.update(BACKEND="gloo", WORLD_SIZE=str(ranks), TEMP_DIR=folder, OMP_NUM_THREADS="1",
                      INIT_METHOD=f"file://{folder}/init_dir/shared_init_file")
    os.environ.setdefault("DISTRIBUTED_TESTS_DEFAULT_TIMEOUT", "120")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    allow_mutable_defaults()
    stand_in_for_expecttest()


def let_cohort_answer():
    """To the name of gloo. The group beside it that compares calls in debug mode is gloo's own: torch asks for its class."""
    import cohort.torch
    from torch.distributed import distributed_c10d

    gloo, wrap = distributed_c10d.ProcessGroupGloo, distributed_c10d._create_process_group_wrapper

    def create(store, rank, size, timeout):
        return cohort.torch.create(store, rank, size, timeout, label="gloo")

    def create_wrapper(**options):
        distributed_c10d.ProcessGroupGloo = gloo
        try:
            return wrap(**options)
        finally:
            distributed_c10d.ProcessGroupGloo = create

    distributed_c10d.ProcessGroupGloo = create
    distributed_c10d._create_process_group_wrapper = create_wrapper


def make_suite(backend):
    import torch
    from torch.testing._internal.distributed import distributed_test
    from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

    class Suite(TestDistBackend, DistributedTest._DistTestBase):
        """Each test in processes of its own."""

        def setUp(self):
            super().setUp()
            own_name = backend == "cohort" and self._testMethodName in UNDER_OWN_NAME
            distributed_test.BACKEND = "cohort" if own_name else "gloo"
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return Suite


class Outcomes(unittest.TextTestResult):
    """Which tests passed, too."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.passed = set()

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed.add(test._testMethodName)


def deviations(backend, expected, asked, passed, failed):
    """What is not as expectations.json says, in words."""
    reasons = expected["reasons"] if backend == "cohort" else {}
    for name in sorted(asked):
        if name in reasons and name in passed:
            yield f"{name} passes, and has a reason not to: {reasons[name]}"
        elif name in expected["gloo"] and name not in reasons and name not in passed:
            yield f"{name} {'failed' if name in failed else 'was skipped'}"
        elif name not in expected["gloo"] and name in failed and backend == "cohort":
            yield f"{name} failed, which gloo skips"
        elif backend == "gloo" and name in passed and name not in expected["gloo"]:
            yield f"{name} passes on gloo, and is not listed"


def main():
    arguments = read_arguments()
    with tempfile.TemporaryDirectory() as folder:
        prepare(arguments.ranks, folder)
        if arguments.backend == "cohort":
            let_cohort_answer()
        logging.disable(logging.INFO)
        kind = make_suite(arguments.backend)
        names = set(arguments.tests or unittest.TestLoader().getTestCaseNames(kind))
        suite = unittest.TestSuite(kind(name) for name in sorted(names))
        result = unittest.TextTestRunner(resultclass=Outcomes, verbosity=2).run(suite)
    failed = {test._testMethodName for test, _ in result.failures + result.errors}
    expectations = json.loads(EXPECTATIONS.read_text(encoding="utf-8"))
    expected = expectations[str(arguments.ranks)]
    if arguments.record:
        expected["gloo"] = sorted(result.passed)
        EXPECTATIONS.write_text(json.dumps(expectations, indent=1) + "\n", encoding="utf-8")
    of_gloo = len(result.passed & set(expected["gloo"]))
    print(f"{len(result.passed)} passed, {len(failed)} failed, {len(result.skipped)} skipped of {result.testsRun}; "
          f"{of_gloo} of {len(names & set(expected['gloo']))} that gloo passes")
    found = list(deviations(arguments.backend, expected, names, result.passed, failed))
    for deviation in found:
        print(f"not as expected: {deviation}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
