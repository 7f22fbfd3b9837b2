# SPDX-License-Identifier: Apache-2.0
"""Ranks that are forked: torch takes seconds of a core to import, which each of them would spend."""

import multiprocessing
import os
import sys
import tempfile
from datetime import timedelta

os.environ["OMP_NUM_THREADS"] = "1"

import torch.distributed as dist

from support import run_parts

LIMIT_S = 240  # of a hang: each rank makes hundreds of calls, and models


def run_rank(module, prefix, rank, size, store, backend):
    """Every part of the module, with its RANK and SIZE, in this process."""
    dist.init_process_group(backend, store=dist.FileStore(store, size), rank=rank, world_size=size,
                            timeout=timedelta(seconds=60))
    module.RANK, module.SIZE = rank, size
    run_parts(module, prefix)
    dist.destroy_process_group()


def check_ranks(case, size, target, *arguments):
    """target(rank, size, store, *arguments) ends well on so many ranks."""
    with tempfile.TemporaryDirectory() as folder:
        fork = multiprocessing.get_context("fork")
        store = os.path.join(folder, "store")
        ranks = [fork.Process(target=target, args=(rank, size, store, *arguments)) for rank in range(size)]
        for rank in ranks:
            rank.start()
        try:
            for rank in ranks:
                rank.join(LIMIT_S)
            case.assertEqual([rank.exitcode for rank in ranks], [0] * size, "None: not over in time")
        finally:
            for rank in ranks:
                rank.kill()
                rank.join()


def check_parts(case, size, module_name, prefix="part_", backend="cohort"):
    """Every part of that module on so many ranks."""
    check_ranks(case, size, _run, module_name, prefix, backend)


def _run(rank, size, store, module_name, prefix, backend):
    run_rank(sys.modules[module_name], prefix, rank, size, store, backend)
