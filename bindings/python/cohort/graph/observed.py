# SPDX-License-Identifier: Apache-2.0
"""What buckets cost beside backward: where cores compute and send at once, more than they do alone."""

from __future__ import annotations

import statistics
from typing import Any, Dict, List, Sequence, Tuple

from .._cohort import LinearCost

Point = Tuple[int, float]  # bytes, and what they took behind another bucket, in microseconds


class Observed:
    """When each bucket of a plan was averaged in the steps that were made with it, on this rank."""

    def __init__(self, buckets: int) -> None:
        self._ends: List[List[float]] = [[] for _ in range(buckets)]

    def add(self, ends_us: Dict[int, float]) -> None:
        """A step's, by the bucket."""
        for bucket, us in ends_us.items():
            self._ends[bucket].append(us)

    def medians(self) -> List[float]:
        """Of each bucket; below 0 where nothing is known."""
        return [statistics.median(ends) if ends else -1.0 for ends in self._ends]


def points_of(sizes: Sequence[int], ready_us: Sequence[float], ends_us: Sequence[float], cost: LinearCost) -> List[Point]:
    """Of buckets in their order: what each took from when it could begin, the start-up from idle taken away. Those of which
    nothing is known are left out."""
    points, before = [], float("-inf")
    for size, ready, end in zip(sizes, ready_us, ends_us):
        if end < 0:
            continue
        hidden = cost.idle_us - cost.queued_us if ready >= before else 0.0
        points.append((size, max(0.0, end - max(ready, before) - hidden)))
        before = end
    return points


def cost_beside(alone: LinearCost, points: Sequence[Point]) -> LinearCost:
    """The line nearest to the points, by squares, nowhere below what a bucket costs where nothing is computed."""
    if not points:
        return alone
    sizes, times = [float(size) for size, _ in points], [us for _, us in points]
    size, us = statistics.fmean(sizes), statistics.fmean(times)
    spread = sum((one - size) ** 2 for one in sizes)
    slope = sum((one - size) * (time - us) for one, time in zip(sizes, times)) / spread if spread > 0 else 0.0
    byte_us = max(alone.byte_us, slope)
    start = us - byte_us * size
    if start < alone.queued_us:
        start = alone.queued_us
        through = sum(one * (time - start) for one, time in zip(sizes, times)) / max(1.0, sum(one**2 for one in sizes))
        byte_us = max(alone.byte_us, through)
    return LinearCost(alone.idle_us + start - alone.queued_us, start, byte_us)
