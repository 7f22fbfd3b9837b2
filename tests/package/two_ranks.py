# SPDX-License-Identifier: Apache-2.0
"""What an installed package has to do: two ranks meet and add; with torch, over its backend, too."""

import sys

import cohort
import numpy

comm = cohort.init()
assert comm.size == 2
assert (comm.all_reduce(numpy.ones(3)) == 2).all()
if "torch" in sys.argv[1:]:
    import cohort.torch
    import torch

    cohort.torch.init_process_group()
    tensor = torch.ones(3)
    torch.distributed.all_reduce(tensor)
    assert (tensor == 2).all()
    from ge_graph_optimizer import GEDistributedOptimizer

    model = torch.nn.Linear(3, 2)
    optimizer = GEDistributedOptimizer(model=model)
    model(tensor * comm.rank).sum().backward()
    optimizer.step()
    assert (model.weight.grad == 1).all(), model.weight.grad  # the mean of none and two
    torch.distributed.destroy_process_group()
print(cohort.__file__)
