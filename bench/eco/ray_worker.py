# SPDX-License-Identifier: Apache-2.0
"""An actor that measures."""

import time

import numpy
import ray
from ray.util import collective


@ray.remote(num_cpus=0)
class Worker:
    """One rank, in a group of each backend."""

    def join(self, size, rank, backend):
        collective.init_collective_group(size, rank, backend, f"of {backend}")

    def all_reduce_us(self, backend, size_bytes, calls=50):
        """The mean time of a call, after one that counts for nothing."""
        group, data = f"of {backend}", numpy.ones(size_bytes // 4, numpy.float32)
        collective.allreduce(data, group)
        collective.barrier(group)
        began = time.perf_counter()
        for _ in range(calls):
            collective.allreduce(data, group)
        return (time.perf_counter() - began) / calls * 1e6
