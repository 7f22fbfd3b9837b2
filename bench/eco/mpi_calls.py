# SPDX-License-Identifier: Apache-2.0
"""Times calls of mpi4py on buffers: mpi_calls.py BYTES..., by each of two ranks. Rank 0 prints the microseconds."""

import statistics
import sys
import time

import numpy
from mpi4py import MPI

PARTS = 5
PART_S = 0.04
MOST_CALLS = 2000

world = MPI.COMM_WORLD


def calls_of(size):
    """Of which each rank gives so many bytes, to each other one in an alltoall."""
    own, got = numpy.ones(size // 4, numpy.float32), numpy.empty(size // 4, numpy.float32)
    blocks, turned = numpy.ones(size // 4 * world.size, numpy.float32), numpy.empty(size // 4 * world.size, numpy.float32)

    def back_and_forth():
        if world.rank == 0:
            world.Send(own, 1)
            world.Recv(got, 1)
        else:
            world.Recv(got, 0)
            world.Send(own, 0)

    yield "allreduce", 1, lambda: world.Allreduce(own, got)
    yield "bcast", 1, lambda: world.Bcast(own, 0)
    yield "allgather", 1, lambda: world.Allgather(own, blocks)
    yield "alltoall", 1, lambda: world.Alltoall(blocks, turned)
    yield "send and recv", 2, back_and_forth


def seconds_of(call, number):
    """Of the rank that took longest, for so many calls."""
    world.Barrier()
    began = time.perf_counter()
    for _ in range(number):
        call()
    return world.allreduce(time.perf_counter() - began, MPI.MAX)


for size in map(int, sys.argv[1:]):
    for name, messages, call in calls_of(size):
        warm = seconds_of(call, 10) / 10
        number = max(5, min(MOST_CALLS, int(PART_S / warm)))
        parts = [seconds_of(call, number) / number for _ in range(PARTS)]
        if world.rank == 0:
            what, us = name.replace(" ", "_"), statistics.median(parts) / messages * 1e6
            print(f"figure mpi4py_{what}_of_2_ranks {size}_bytes {us:.3f}", flush=True)
