# SPDX-License-Identifier: Apache-2.0
"""docs/use/torch.md and docs/use/graph-pytorch.md show Python that runs."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))

from pages import PageTestCase

FIRST_CALL = """
...
assert dist.get_backend() == "cohort"
assert (tensor == 2).all()
"""

TRACED = """
import os, pathlib, pickle, signal, tempfile

os.environ["TORCH_FR_BUFFER_SIZE"] = "10"
import cohort.torch
import torch
import torch.distributed as dist

cohort.torch.init_process_group()
...
os.chdir(tempfile.mkdtemp())
os.mkdir("traces")
dist.all_reduce(torch.ones(3))
os.kill(os.getpid(), signal.SIGUSR1)
(entry,) = pickle.loads(pathlib.Path(f"traces/rank_{dist.get_rank()}").read_bytes())["entries"]
assert entry["profiling_name"] == "gloo:all_reduce" and entry["state"] == "completed", entry
"""

MAPPED = """
import cohort.torch
import torch
from torch.nn.parallel import DistributedDataParallel

def train(model):
    for _ in range(3):
        model(torch.full((4, 256), float(cohort.get_rank()))).sum().backward()

cohort.torch.init_process_group()
model = torch.nn.Linear(256, 256, bias=False)
...
# Each step adds the average of both ranks' gradients: 0 and four images of ones.
assert (model.module.weight.grad == 3 * 2).all(), model.module.weight.grad
"""


PLANNED = """
import torch

model = torch.nn.Linear(4, 2)
loader = [(torch.rand(3, 4), torch.rand(3, 2)) for _ in range(4)]

def loss_of(outputs, labels):
    return (outputs - labels).pow(2).mean()

...
assert optimizer.step_count == 4
shared = [torch.empty_like(model.weight) for _ in range(2)]
torch.distributed.all_gather(shared, model.weight.detach())
assert torch.equal(*shared)
"""

ACCUMULATED = """
import cohort.torch
import torch
from cohort.graph import GEDistributedOptimizer

cohort.torch.init_process_group()
optimizer = GEDistributedOptimizer(model=torch.nn.Linear(4, 2))
first, second = torch.rand(2, 3, 4)
loader = [first] * (1 + torch.distributed.get_rank())

def loss_of(batch):
    return optimizer.model(batch).pow(2).mean()

...
        loss_of(batch).backward()
        optimizer.step()
        optimizer.zero_grad()
assert optimizer.reduction.counts["steps"] == 4, optimizer.reduction.counts
"""

COMPILED = """
import cohort.torch
import torch

torch._dynamo.config.disable = True  # compiling takes long; tests of the backend do it
cohort.torch.init_process_group()
model = torch.nn.Linear(4, 2)
...
assert optimizer.param_groups
"""


class Pages(PageTestCase):
    def test_torch_md(self):
        self.check_page("docs/use/torch.md", FIRST_CALL, TRACED, MAPPED)

    def test_graph_pytorch_md(self):
        self.check_page("docs/use/graph-pytorch.md", PLANNED, ACCUMULATED, COMPILED)


if __name__ == "__main__":
    unittest.main()
