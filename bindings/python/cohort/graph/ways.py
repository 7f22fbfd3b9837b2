# SPDX-License-Identifier: Apache-2.0
"""How a bucket is averaged over the ranks: over cohort, where buckets have groups of their own, or over any backend."""

from __future__ import annotations

import dataclasses
import statistics
import time
from typing import Any, Dict, List, Tuple

import torch
import torch.distributed as dist

from .._cohort import LinearCost, fit
from .errors import DistGraphBuildError
from .options import MIB, Options

# What a cost is measured with: bytes of buckets, and how often.
SIZES = (4096, 65536, MIB, 4 * MIB)
REPETITIONS = 5


@dataclasses.dataclass
class Started:
    """A bucket that is under way, or over: moments of time.perf_counter()."""

    bucket: int
    work: Any
    launched: float
    is_timed: bool  # the work knows how long it took
    over: float = 0.0

    def wait(self) -> None:
        self.work.wait()
        self.over = time.perf_counter()
        if self.is_timed:
            self.over = min(self.over, self.launched + self.work._get_duration() / 1e3)


def is_divided_first(kind: torch.dtype) -> bool:
    """By each rank, before values are added up: the sum over all ranks may be beyond what 16 bits hold."""
    return kind in (torch.float16, torch.bfloat16)


class AnyWay:
    """Over whatever backend the group has."""

    is_timed = False  # works know when they were over

    def __init__(self, group: Any) -> None:
        self.group = group
        self.size = dist.get_world_size(group)

    def start(self, tensor: torch.Tensor, name: str, compresses: bool = False, bucket: int = 0) -> Started:
        launched = time.perf_counter()
        if is_divided_first(tensor.dtype):
            tensor.mul_(1.0 / self.size)
        op = dist.ReduceOp.SUM if is_divided_first(tensor.dtype) else dist.ReduceOp.AVG
        work = dist.all_reduce(tensor, op, group=self.group, async_op=True)
        return Started(bucket, work, launched, self.is_timed)

    def decide(self, cost: LinearCost, elements: int) -> Tuple[bool, str]:
        return False, "not asked for"

    def state(self) -> Dict[str, torch.Tensor]:
        return {}

    def restore(self, state: Dict[str, torch.Tensor]) -> None:
        if state:
            raise DistGraphBuildError("load_state_dict", "it holds residuals of compression, which is not asked for here",
                                      "give enable_compression, over the backend 'cohort'")


class CohortWay(AnyWay):
    """Over groups of buckets' own, one after another: other calls of the program may come between. Host by host and in
    compressed form where that is asked for."""

    is_timed = True

    def __init__(self, group: Any, options: Options) -> None:
        super().__init__(group)
        from .. import torch as backend

        form = options.form if options.allreduce_strategy == "hierarchical" else "flat"
        compression = options.enable_compression
        keywords = {} if compression is None else {
            "compression": compression.kind, "has_error_feedback": compression.error_feedback,
            "top_ratio": compression.top_ratio, "momentum": compression.momentum, "rank": compression.rank}
        self._always = compression is not None and compression.always
        self._buckets = backend._torch.Buckets(backend._backend_of(group), form=form, **keywords)
        # What a rank computes to compress an element; all have the slowest one's.
        self._work_us = 0.0 if compression is None or self._always else self._buckets.measure_work()

    def start(self, tensor: torch.Tensor, name: str, compresses: bool = False, bucket: int = 0) -> Started:
        launched = time.perf_counter()
        return Started(bucket, self._buckets.reduce(tensor, name, compresses), launched, self.is_timed)

    def decide(self, cost: LinearCost, elements: int) -> Tuple[bool, str]:
        if self._always:
            return True, "compressed, as was asked for"
        pays, text = self._buckets.decide(cost.idle_us, cost.byte_us, elements, self._work_us)
        return pays, text

    def state(self) -> Dict[str, torch.Tensor]:
        return dict(self._buckets.state())

    def restore(self, state: Dict[str, torch.Tensor]) -> None:
        self._buckets.restore(state)


def way_of(group: Any, options: Options) -> AnyWay:
    """A collective where it is cohort's."""
    from .. import torch as backend

    if backend.is_of_cohort(group):
        return CohortWay(group, options)
    name = dist.get_backend(group)
    if options.enable_compression is not None:
        raise DistGraphBuildError("enable_compression", f"the group's backend is {name!r}", "make it with the backend 'cohort'")
    if options.allreduce_strategy == "hierarchical":
        raise DistGraphBuildError("allreduce_strategy", f"hierarchical, and the group's backend is {name!r}",
                                  "make it with the backend 'cohort', or take smart_overlap")
    return AnyWay(group)


def most_of_all(values: List[float], group: Any) -> List[float]:
    """Of each the most that a rank has. A collective, of lists that are as long on all ranks."""
    shared = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(shared, dist.ReduceOp.MAX, group=group)
    return [float(value) for value in shared.tolist()]


def measure_cost(way: AnyWay, most_bytes: int) -> LinearCost:
    """Of buckets as they are sent here: single ones, and such that are queued behind another one; the slowest rank's, and the
    same on all. Of sizes up to the bytes of all gradients, but two at least. A collective."""
    from .memory import mapped

    sizes = [size for size in SIZES if size <= max(most_bytes, SIZES[1])]
    with mapped(way.group):
        memory = torch.zeros(2 * sizes[-1] // 4)
    times: List[float] = []
    for size in sizes:
        single, queued = [], []
        for _ in range(REPETITIONS):
            one = _time_of(way, [memory[:size // 4]])
            two = _time_of(way, [memory[:size // 4], memory[size // 4:size // 2]])
            single.append(one)
            queued.append(max(0.0, two - one))
        times += [statistics.median(single), min(statistics.median(queued), statistics.median(single))]
    times = most_of_all(times, way.group)
    return fit(list(zip(sizes, times[::2])), list(zip(sizes, times[1::2])))


def _time_of(way: AnyWay, tensors: List[torch.Tensor]) -> float:
    """Microseconds from when all ranks are there until these are averaged."""
    dist.barrier(group=way.group)
    begin = time.perf_counter()
    for one in [way.start(tensor, "measured") for tensor in tensors]:
        one.wait()
    return (time.perf_counter() - begin) * 1e6
