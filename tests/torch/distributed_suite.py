#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own suite of backends, which torch carries, on gloo and on "cohort".

    PYTHONPATH=build/release/python PYTHON tests/torch/distributed_suite.py [--ranks 2] [--as gloo] [--backend cohort] [TEST...]

Which of its tests run is decided when the suite is imported, by the name of a backend: --as gloo, or mpi, which has those of
all_to_all on CPUs and of sub-groups of few ranks. Then the ranks use their own backend, by its own name. Where a test's body
asks for the name gloo, that stands for the own one. expectations.json says for each number of ranks and name what gloo passes,
and why cohort fails what it fails; this fails where the outcome is another one. --record writes what passed on gloo there.
Ranks are forked, so that torch is imported once. It needs expecttest.
"""

import argparse
import json
import logging
import os
import pathlib
import sys
import tempfile
import unittest
from datetime import timedelta

EXPECTATIONS = pathlib.Path(__file__).with_name("expectations.json")
# Tests whose bodies compare the backend's name to gloo, and do nothing on CPUs for others.
ASK_FOR_GLOO = ("test_accumulate_gradients", "test_grads_same_across_ranks")


def read_arguments():
    parser = argparse.ArgumentParser(description="runs PyTorch's own suite of backends")
    parser.add_argument("--ranks", type=int, default=2, choices=(2, 3, 4))
    parser.add_argument("--as", dest="kind", default="gloo", choices=("gloo", "mpi"), help="whose tests are run")
    parser.add_argument("--backend", default="cohort", choices=("cohort", "gloo"))
    parser.add_argument("--record", action="store_true", help="write down what passes on gloo")
    parser.add_argument("tests", nargs="*", help="names; all without")
    arguments = parser.parse_args()
    if arguments.record and (arguments.backend != "gloo" or arguments.tests):
        parser.error("--record takes --backend gloo and all tests")
    return arguments


def prepare(ranks, kind, backend, folder):
    """What the suite reads when it is imported."""
    for name in ("barrier", "test_dir", "init_dir"):
        os.makedirs(os.path.join(folder, name))
    os.environ.update(BACKEND=kind, WORLD_SIZE=str(ranks), TEMP_DIR=folder, OMP_NUM_THREADS="1",
                      INIT_METHOD=f"file://{folder}/init_dir/shared_init_file")
    os.environ.setdefault("DISTRIBUTED_TESTS_DEFAULT_TIMEOUT", "120")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    if backend == "cohort":
        import cohort.torch  # noqa: F401: registers it
        from torch.testing._internal.common_distributed import DistTestCases

        for feature in ("plugin", "ddp", "subgroup"):
            DistTestCases.backend_feature[feature].add(backend)


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """As torch's own, which refuses all but gloo by its name."""
    import cohort.torch
    from torch.distributed import distributed_c10d

    if distributed_c10d._rank_not_in_group(group):
        distributed_c10d._warn_not_in_group("monitored_barrier")
        return
    seconds = timedelta(seconds=timeout) if isinstance(timeout, (int, float)) else timeout
    cohort.torch.monitored_barrier(group, seconds, wait_all_ranks)


def answer_for_gloo(backend):
    """In this rank the name gloo, where init_process_group gets it, stands for the backend."""
    import torch.distributed as dist

    init = dist.init_process_group
    dist.init_process_group = lambda *arguments, **options: init(*arguments, **{**options, "backend": backend})


def make_suite(backend):
    import torch
    import torch.distributed as dist
    from torch.testing._internal.distributed import distributed_test
    from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

    class Suite(TestDistBackend, DistributedTest._DistTestBase):
        """Each test in processes of its own."""

        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

        @classmethod
        def _run(cls, rank, test_name, file_name, pipe, **options):
            distributed_test.BACKEND = backend
            if backend == "cohort":
                dist.monitored_barrier = monitored_barrier
                if test_name.startswith(ASK_FOR_GLOO):
                    distributed_test.BACKEND = "gloo"
                    answer_for_gloo(backend)
            super()._run(rank, test_name, file_name, pipe, **options)

    return Suite


class Outcomes(unittest.TextTestResult):
    """Which tests passed, too."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
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
        elif name in failed and name not in reasons and (backend == "cohort" or name in expected["gloo"]):
            yield f"{name} failed"
        elif name in expected["gloo"] and name not in passed | failed:
            yield f"{name} was skipped"
        elif backend == "gloo" and name in passed and name not in expected["gloo"]:
            yield f"{name} passes on gloo, and is not listed"


def main():
    arguments = read_arguments()
    with tempfile.TemporaryDirectory() as folder:
        prepare(arguments.ranks, arguments.kind, arguments.backend, folder)
        logging.disable(logging.INFO)
        kind = make_suite(arguments.backend)
        names = set(arguments.tests or unittest.TestLoader().getTestCaseNames(kind))
        suite = unittest.TestSuite(kind(name) for name in sorted(names))
        result = unittest.TextTestRunner(resultclass=Outcomes, verbosity=2).run(suite)
    failed = {test._testMethodName for test, _ in result.failures + result.errors}
    expectations = json.loads(EXPECTATIONS.read_text(encoding="utf-8"))
    case = f"{arguments.ranks} ranks as {arguments.kind}"
    expected = expectations.setdefault(case, {"gloo": [], "reasons": {}})
    if arguments.record:
        expected["gloo"] = sorted(result.passed)
        EXPECTATIONS.write_text(json.dumps(expectations, indent=1) + "\n", encoding="utf-8")
    of_gloo = len(result.passed & set(expected["gloo"]))
    print(f"{case}, {arguments.backend}: {len(result.passed)} passed, {len(failed)} failed, {len(result.skipped)} skipped of "
          f"{result.testsRun}; {of_gloo} of {len(names & set(expected['gloo']))} that gloo passes")
    found = list(deviations(arguments.backend, expected, names, result.passed, failed))
    for deviation in found:
        print(f"not as expected: {deviation}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
