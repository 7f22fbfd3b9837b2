# SPDX-License-Identifier: Apache-2.0
"""What the environment says holds for process groups of torch.distributed as for every communicator."""

import pathlib
import secrets
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))

from launchers import launch

# Each rank says that it is on a machine of its own, so that the ranks do not meet at a Unix address.
BETWEEN_HOSTS = """
import os
import torch
import torch.distributed as dist
import cohort.torch

rank = os.environ["RANK"]
meet, places = cohort.torch._meeting_place, []
cohort.torch._meeting_place = lambda *given: places.append(meet(*given)) or places[0]
if not HAS_DESCRIPTOR:
    del os.environ["COHORT_SECRET_FD"]  # the launcher's
os.environ.update(COHORT_MACHINE_ID=f"machine{rank}", **CHANGES[int(rank)])
try:
    dist.init_process_group("cohort")
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    print(f"rank {rank}: {tensor.tolist()}; in the store: {places[0]!r}\\n", end="", flush=True)
    dist.barrier()
    dist.destroy_process_group()
except RuntimeError as failure:
    print(f"rank {rank}: {failure}\\n", end="", flush=True)
    raise
"""


# Rank 1 does not make the call that rank 0 makes.
LATE = """
import sys
from datetime import timedelta
import torch
import torch.distributed as dist
import cohort.torch

dist.init_process_group("cohort")
world = dist.distributed_c10d._get_default_group()
seconds = float(sys.argv[1])
group = dist.new_group(timeout=timedelta(seconds=seconds)) if seconds else world
store = dist.distributed_c10d._get_default_store()
if dist.get_rank() == 0:
    print("limit", world._get_backend(torch.device("cpu")).options._timeout.total_seconds(), flush=True)
    try:
        dist.all_reduce(torch.ones(3), group=group)
    except RuntimeError as failure:
        print("told:", failure, flush=True)
    store.set("told", "")
store.wait(["told"], timedelta(seconds=200))
"""

# Rank 1 has a variable that cannot be read.
WRONG = """
import os
import sys
import torch.distributed as dist
import cohort.torch

rank = os.environ["RANK"]
if rank == "1":
    os.environ[sys.argv[1]] = "soon"
try:
    dist.init_process_group("cohort")
except RuntimeError as failure:
    print(f"rank {rank}: {failure}\\n", end="", flush=True)
"""


def between_hosts(*changes, begin="", **variables):
    """(status, output) of two ranks, with these variables on each. The first that fails ends the other."""
    program = f"{begin}\nHAS_DESCRIPTOR, CHANGES = {bool(begin)}, {changes or ({}, {})!r}\n{BETWEEN_HOSTS}"
    return launch("cohort run", 2, program, **variables)


class Settings(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "job.secret"
        self.file.write_text(secrets.token_hex(32))
        self.file.chmod(0o600)

    def check_sum(self, outcome, place):
        status, output = outcome
        self.assertEqual(status, 0, output)
        self.assertNotIn("Traceback", output)  # of what runs at the end
        for rank in range(2):
            self.assertRegex(output, rf"rank {rank}: \[2.0, 2.0, 2.0\]; in the store: '[^ ]+:{place}'")

    def test_the_secret_of_a_file_is_that_of_a_group_between_hosts_and_is_not_in_the_store(self):
        self.check_sum(between_hosts(COHORT_SECRET_FILE=str(self.file), COHORT_TLS="on"), r"\d+ ")

    def test_the_secret_in_a_variable_is_too(self):
        self.check_sum(between_hosts(COHORT_SECRET=secrets.token_hex(32)), r"\d+ ")

    def test_the_secret_of_a_descriptor_is_read_once_for_the_world_of_cohort_and_the_group(self):
        for begin in ("import cohort; cohort.init()", "import atexit, cohort; atexit.register(cohort.init)"):
            with self.subTest(begin):
                self.check_sum(between_hosts(begin=begin), r"\d+ ")

    def test_ranks_without_one_have_that_of_the_store(self):
        self.check_sum(between_hosts(), r"\d+ [0-9a-f]{64}")

    def test_ranks_with_other_secrets_do_not_meet(self):
        status, output = between_hosts({"COHORT_SECRET_FILE": str(self.file)}, {"COHORT_SECRET": secrets.token_hex(32)})
        self.assertNotEqual(status, 0, output)
        self.assertIn("AuthFailed", output)

    def test_a_rank_that_has_one_takes_none_of_the_store(self):
        status, output = between_hosts({}, {"COHORT_SECRET_FILE": str(self.file)})
        self.assertNotEqual(status, 0, output)
        self.assertIn(f"rank 1: AuthFailed: rank 1 of process group 'torch' has the secret of COHORT_SECRET_FILE={self.file}, and rank 0 "
                      "has none and put one into the store; give all ranks the same, or none", output)

    def test_a_file_that_others_may_read_is_refused_on_one_host_too(self):
        self.file.chmod(0o644)
        program = "import os\ndel os.environ['COHORT_SECRET_FD']\nimport torch.distributed as dist, cohort.torch\n" \
                  "dist.init_process_group('cohort')"
        status, output = launch("cohort run", 2, program, COHORT_SECRET_FILE=str(self.file))
        self.assertNotEqual(status, 0, output)
        self.assertIn("so that others may use it: chmod 600", output)

    def test_a_child_of_a_rank_of_cohort_run_makes_a_group_of_its_own(self):
        """It has the number of the secret's descriptor, and not the descriptor."""
        child = """
import os, sys
import torch, torch.distributed as dist, cohort.torch
store = dist.FileStore(sys.argv[1], 2)
dist.init_process_group("cohort", store=store, rank=int(sys.argv[2]), world_size=2)
tensor = torch.ones(3)
dist.all_reduce(tensor)
print(f"child {sys.argv[2]}: {tensor.tolist()}\\n", end="", flush=True)
dist.destroy_process_group()
"""
        program = f"""
import subprocess, sys, tempfile
with tempfile.TemporaryDirectory() as folder:
    children = [subprocess.Popen([sys.executable, "-c", {child!r}, folder + "/store", str(rank)]) for rank in range(2)]
    sys.exit(max(child.wait() for child in children))
"""
        status, output = launch("cohort run", 1, program)
        self.assertEqual(status, 0, output)
        self.assertEqual(output.count(": [2.0, 2.0, 2.0]"), 2, output)

    def test_ports_of_a_group_between_hosts_are_of_the_range(self):
        self.check_sum(between_hosts(COHORT_PORT_RANGE="23000-23199"), r"23[01]\d\d [0-9a-f]{64}")

    def check_limit(self, seconds, own_s, limit_s, name, **variables):
        output = launch("cohort run", 2, LATE, str(own_s), COHORT_WARN_AFTER="0.5", **variables)[1]
        self.assertIn(f"limit {limit_s}\n", output)
        self.assertRegex(output, rf"told: .*not finished within {seconds}\.\d+ s: .*give the call a longer deadline \({name}\)")
        self.assertRegex(output, rf"it is given up after another \d s \({name}\)")

    def test_the_environment_limits_calls_where_the_program_does_not(self):
        self.check_limit(2, 0, 2.0, "COHORT_TIMEOUT", COHORT_TIMEOUT="2")

    def test_a_variable_that_cannot_be_read_on_one_rank_is_told_on_all(self):
        for variable in ("COHORT_TIMEOUT", "COHORT_JOIN_TIMEOUT", "COHORT_TLS", "COHORT_HOST_TIMEOUT"):
            with self.subTest(variable):
                output = launch("cohort run", 3, WRONG, variable)[1]
                for rank in range(3):
                    self.assertRegex(output, rf"rank {rank}: InvalidArgument: .*{variable}='soon' is no")
                for rank in (0, 2):
                    self.assertRegex(output, rf"rank {rank}: InvalidArgument: .*rank 1 \(")

    def test_what_the_program_gives_holds_and_is_named(self):
        self.check_limit(3, 3, 300.0, "timeout= of the process group", COHORT_TIMEOUT="5min")

    def test_without_either_it_is_torch_s_own(self):
        self.check_limit(3, 3, 1800.0, "timeout= of the process group")


if __name__ == "__main__":
    unittest.main()
