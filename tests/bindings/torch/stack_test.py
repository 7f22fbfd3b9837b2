# SPDX-License-Identifier: Apache-2.0
"""What of torch stands on a backend gives the same over "cohort" as over gloo."""

import os
import pathlib
import sys
import tempfile
import time
import unittest
from datetime import timedelta

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no processes of its own in each rank

import forked
import torch
import torch.distributed as dist
from support import run_parts

import cohort.torch  # noqa: F401: registers the backend
import stack_ranks


def run(rank, size, store, backend, folder, level):
    """Keeps what every part gives."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if backend == "cohort":
        dist.set_debug_level(level)  # over gloo DistributedDataParallel dies of it, by a signal
    dist.init_process_group(backend, store=dist.FileStore(f"{store}-{backend}", size), rank=rank, world_size=size,
                            timeout=timedelta(seconds=60))
    stack_ranks.RANK, stack_ranks.SIZE = rank, size
    results = {}
    for name in parts(level):
        part = getattr(stack_ranks, name)
        began = time.monotonic()

        def keep(name=name, part=part):
            results[name] = part()

        run_parts(type("One", (), {name: staticmethod(keep)}))
        if rank == 0 and os.environ.get("COHORT_TEST_TIMES"):
            print(f"{backend} {name} {time.monotonic() - began:.2f} s", flush=True)
    torch.save(results, os.path.join(folder, f"{backend}-{rank}"))
    dist.barrier()
    dist.destroy_process_group()


def parts(level):
    """All; of those with torch's own checks of every call, which cost two more calls each, some."""
    names = [name for name in vars(stack_ranks) if name.startswith("part_")]
    return names if level == dist.DebugLevel.OFF else ["part_ddp", "part_fsdp", "part_functional", "part_objects"]


class Stack(unittest.TestCase):
    def check_ranks(self, ranks, level=dist.DebugLevel.OFF):
        with tempfile.TemporaryDirectory() as folder:
            for backend in ("gloo", "cohort"):
                forked.check_ranks(self, ranks, run, backend, folder, level)
            for rank in range(ranks):
                of_gloo, ours = (torch.load(os.path.join(folder, f"{backend}-{rank}")) for backend in ("gloo", "cohort"))
                for name, expected in of_gloo.items():
                    for index, (one, other) in enumerate(zip(expected, ours[name], strict=True)):
                        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-5, msg=lambda text, at=(name, index): f"{at}: {text}")

    def test_on_two_ranks(self):
        self.check_ranks(2)

    def test_on_four_ranks(self):
        self.check_ranks(4)

    def test_in_debug_mode(self):
        self.check_ranks(2, dist.DebugLevel.DETAIL)


if __name__ == "__main__":
    unittest.main()
