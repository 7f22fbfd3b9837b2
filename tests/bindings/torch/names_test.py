# SPDX-License-Identifier: Apache-2.0
"""By which names torch's users get the backend, and what failures call ranks."""

import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))

from launchers import launch
from support import environment

# What users' programs say, with nothing of cohort in it; the entry point is called as torch does it.
UNCHANGED = """
import sys
import torch
import cohort_autoload
cohort_autoload.autoload()
assert "cohort.torch" not in sys.modules, "it is loaded with the first group"
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(*sys.argv[1:])
groups = (None, dist.new_group(), dist.new_group(backend="gloo"), init_device_mesh("cpu", (2,)).get_group())
backends = [dist.get_backend(group) for group in groups]
true = ["cohort" if "cpu:cohort" in dist.get_backend_config(group) else "other" for group in groups]
tensor = torch.ones(3)
dist.all_reduce(tensor)
DistributedDataParallel(torch.nn.Linear(3, 3))(tensor).sum().backward()
print(f"{tensor.tolist()} {' '.join(backends)}: {' '.join(true)}\\n", end="", flush=True)
dist.destroy_process_group()
"""

BY_DEVICE = """
import warnings
warnings.simplefilter("error")
import torch, torch.distributed as dist
import cohort.torch

config = dist.distributed_c10d.BackendConfig(dist.Backend("cpu:cohort,cuda:nccl"))
assert config.get_device_backend_map() == {"cpu": "cohort", "cuda": "nccl"}
cohort.torch.init_process_group("cpu:cohort")
tensor = torch.ones(3)
dist.all_reduce(tensor)
dist.barrier()
assert tensor.tolist() == [2, 2, 2]
dist.destroy_process_group()
"""

KILLED = """
import os, signal, time
import torch, torch.distributed as dist
import cohort.torch

cohort.torch.init_process_group()
group = dist.new_group([0, 2])
dist.all_reduce(torch.ones(1))
if dist.get_rank() == 2:
    os.kill(os.getpid(), signal.SIGKILL)
for asked in (None, group) if dist.get_rank() == 0 else (None,):
    began = time.monotonic()
    try:
        while True:  # not until a deadline, which are minutes away
            dist.all_reduce(torch.ones(100_000), group=asked)
    except RuntimeError as error:
        assert time.monotonic() - began < 30
        print("told:", str(error).replace(chr(10), " "), flush=True)
"""

SHRUNKEN = """
import os, signal
import torch, torch.distributed as dist
import cohort.torch

cohort.torch.init_process_group()
dist.all_reduce(torch.ones(1))
if dist.get_rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    while True:
        dist.all_reduce(torch.ones(1))
except RuntimeError as error:
    assert "rank 1" in str(error), error
dist.shrink_group([1])
tensor = torch.ones(100_000)
dist.all_reduce(tensor)
assert (tensor == 2).all() and dist.get_world_size() == 2
pair = dist.new_group()
dist.all_reduce(tensor, group=pair)
print(f"survived as {dist.get_rank()} {tensor[0].item()}\\n", end="", flush=True)
"""


class Names(unittest.TestCase):
    def check_unchanged(self, expected, *arguments, **variables):
        status, output = launch("torch.distributed.run", 2, UNCHANGED, *arguments, **variables)
        self.assertEqual(status, 0, output)
        self.assertEqual(output.count(f"[2.0, 2.0, 2.0] {expected}\n"), 2, output)

    def test_default(self):
        self.check_unchanged("cohort cohort gloo cohort: cohort cohort other cohort", COHORT_TORCH="default")

    def test_gloo_that_is_asked_for_stays_what_it_is_by_default(self):
        self.check_unchanged("gloo gloo gloo gloo: other other other other", "gloo", COHORT_TORCH="default")

    def test_gloo_is_still_told_gloo_which_programs_branch_on(self):
        self.check_unchanged("gloo gloo gloo gloo: cohort cohort cohort cohort", "gloo", COHORT_TORCH="gloo")
        self.check_unchanged("cpu:gloo cpu:gloo gloo cpu:gloo: cohort cohort cohort cohort", "cpu:gloo", COHORT_TORCH="gloo")
        self.check_unchanged("cohort cohort gloo cohort: cohort cohort cohort cohort", COHORT_TORCH="gloo")

    def test_nothing_without_the_variable_and_no_failure_with_a_wrong_one(self):
        program = ("import torch, cohort_autoload, warnings; before = len(torch.distributed.Backend.backend_list)\n"
                   "with warnings.catch_warnings(record=True) as seen: cohort_autoload.autoload()\n"
                   "assert len(torch.distributed.Backend.backend_list) == before\n"
                   "print([str(one.message) for one in seen])")
        for wanted, text in (("", "[]"), ("mpi", "['COHORT_TORCH=mpi has no effect: give default or gloo']")):
            done = subprocess.run([sys.executable, "-c", program], env=environment(COHORT_TORCH=wanted), text=True, check=True,
                                  stdout=subprocess.PIPE)
            self.assertEqual(done.stdout.strip(), text)

    def test_backends_by_device(self):
        status, output = launch("torch.distributed.run", 2, BY_DEVICE)
        self.assertEqual(status, 0, output)

    def test_survivors_of_a_rank_go_on_without_it(self):
        output = launch("MASTER_ADDR by hand", 3, SHRUNKEN)[1]
        self.assertIn("survived as 0 4.0", output)
        self.assertIn("survived as 1 4.0", output)

    def test_a_killed_rank_is_named_on_every_survivor(self):
        output = launch("cohort run", 3, KILLED)[1]
        told = [line for line in output.splitlines() if "told:" in line]
        self.assertEqual(len(told), 3, output)
        for line in told:
            self.assertRegex(line, r"PeerDied: rank (2|1 \(world rank 2)\b", output)


if __name__ == "__main__":
    unittest.main()
