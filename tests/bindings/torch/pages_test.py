# SPDX-License-Identifier: Apache-2.0
"""docs/use/torch.md shows Python that runs."""

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


class Pages(PageTestCase):
    def test_torch_md(self):
        self.check_page("docs/use/torch.md", FIRST_CALL, MAPPED)


if __name__ == "__main__":
    unittest.main()
