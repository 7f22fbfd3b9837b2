# SPDX-License-Identifier: Apache-2.0
"""Bucket sizes that follow what is measured."""

from __future__ import annotations

from .. import _cohort


class DynamicBucketScheduler:
    """Adjusts a bucket's size, in MiB, to the throughput that is observed. Rule "seed" halves it below 0.8 of the target and
    doubles it otherwise, and so ends at a bound, 1 or 256; "steady" changes it after three observations beyond that band,
    takes back what gains nothing, and rests until throughput changes."""

    def __init__(self, target_throughput: float, bucket_size: int = 25, rule: str = "steady") -> None:
        self.target_throughput = target_throughput
        self._native = _cohort.DynamicBucketScheduler(target_throughput, bucket_size, rule)

    @property
    def bucket_size(self) -> int:
        return int(self._native.bucket_size)

    def adjust_bucket_size(self, current_throughput: float) -> int:
        """One observation, in the unit of the target; the size from now on."""
        return int(self._native.adjust_bucket_size(current_throughput))
