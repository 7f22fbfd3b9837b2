# SPDX-License-Identifier: Apache-2.0
"""What an installed package has to do: two ranks meet and add; with torch, over its backend, too."""

import importlib.util
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
    torch.distributed.destroy_process_group()
elif importlib.util.find_spec("torch") is None:
    try:
        import cohort.torch
    except ImportError as error:
        assert "torch" in str(error), error
print(cohort.__file__)
