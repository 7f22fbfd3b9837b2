# SPDX-License-Identifier: Apache-2.0
"""What no collective can be faster than, from what this machine does without any library (bench/limits).

The figures of one kind of placement together make `Limits`; limit_us() computes the bound of a cell. Assumed: fresh
inputs in the memory of the ranks that contribute them, results in the memory of those that get them, every byte read
and written once, all cores busy all the time.
"""

import bisect
import collections
import math
import statistics

from suite.cells import KINDS, kind_between

LEAST_FOR_RATE = 32 << 10  # what a smaller message takes beyond the latency is too little to measure


def parse_line(line):
    """(name, bytes, us, kind) of a line of `limits`, or None."""
    fields = line.strip().split(",")
    if len(fields) != 6:
        return None
    name, size, median, _, before, after = fields
    return name, int(size), float(median), kind_between(float(before), float(after))


def choose(entries, kind):
    """{(name, bytes): us}: of this kind; what was not measured in it, in the kind that comes first in KINDS."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for name, size, us, of_kind in entries:
        found[name, size][of_kind].append(us)
    chosen = {}
    for key, by_kind in found.items():
        order = [kind, *KINDS]
        chosen[key] = statistics.median(next(by_kind[k] for k in order if k in by_kind))
    return chosen


def interpolate(points, x):
    """Of {x: y}: linear in log x, constant beyond the ends."""
    xs = sorted(points)
    if x <= xs[0]:
        return points[xs[0]]
    if x >= xs[-1]:
        return points[xs[-1]]
    right = bisect.bisect(xs, x)
    a, b = xs[right - 1], xs[right]
    part = (math.log(x) - math.log(a)) / (math.log(b) - math.log(a))
    return points[a] * (1 - part) + points[b] * part


class Limits:
    """Times in us, rates in bytes per us."""

    def __init__(self, entries, kind, cores, cache_bytes):
        us = choose(entries, kind)
        self.cores = cores
        self.cache_bytes = cache_bytes
        self.one_way = us["one_way", 0]
        self.timer = us["timer", 0]
        self.switch = us["switch", 0]
        # One core takes what another, or it itself, has just written: copies or adds it, whichever is faster.
        self.pull = self._fastest(us, "pull", "pull_sum")
        self.copy = self._fastest(us, "copy", "sum")
        # Two cores together, in copies: a sum of two vectors moves as much as a copy and a half.
        copies = [2 * size / us[name, size] * (1.5 if name == "stream_sum" else 1)
                  for name, size in us if name in ("stream", "stream_sum")]
        self.stream = max(copies)
        self.tcp_one_way = us["tcp_round_trip", 8] / 2
        # Both ends send first, and receive then.
        self.tcp_exchange = max(us["tcp_exchange", 8], self.tcp_one_way)
        self.tcp_stream = self._rates(us, "tcp_stream", 1, 2 * self.tcp_one_way)
        self.tcp_duplex = self._rates(us, "tcp_duplex", 2, self.tcp_one_way)

    def _fastest(self, us, *names):
        rates = {}
        for name, size in us:
            if name in names:
                rates[size] = max(size / max(us[name, size] - self.timer, 1e-3), rates.get(size, 0))
        return rates

    def touch(self, copies, cores):
        """Us that copies in the cache take, spread over cores: a core's part of them is of its own bytes."""
        per_core = copies / cores
        own, others = per_core / cores, per_core * (cores - 1) / cores
        return own / interpolate(self.copy, max(own, 64)) + others / interpolate(self.pull, max(others, 64))

    @staticmethod
    def _rates(us, name, directions, latency):
        """Bytes a us, in all directions together, beyond the latency."""
        return {size: directions * size / max(us[key, size] - latency, 1e-3)
                for key, size in us if key == name and size >= LEAST_FOR_RATE}

    def crowd(self, ranks):
        """How many ranks share the busiest core."""
        return ranks / min(ranks, self.cores)


# Of a vector of n bytes with p ranks: bytes read and written, and copies if all is in the cache.
TRAFFIC = {
    "broadcast": lambda p, n: (n, (p - 1) * n, (p - 1) * n),
    "all_reduce": lambda p, n: (p * n, p * n, p * n),
    "all_gather": lambda p, n: (n, p * n, p * n),
    "reduce_scatter": lambda p, n: (p * n, n, (p + 1) * n / 2),
    "reduce": lambda p, n: (p * n, n, (p + 1) * n / 2),
    "all_to_all": lambda p, n: (p * n, p * n, p * n),
    "gather": lambda p, n: (n, n, n),
    "scatter": lambda p, n: (n, n, n),
    "scan": lambda p, n: (p * n, p * n, p * n),
    "exclusive_scan": lambda p, n: ((p - 1) * n, (p - 1) * n, (p - 1) * n),
}

# Messages that have to follow each other or share the cores.
MESSAGES = {
    "barrier": lambda p: 2 * (p - 1),
    "all_reduce": lambda p: 2 * (p - 1),
    "broadcast": lambda p: p - 1,
    "reduce": lambda p: p - 1,
    "all_gather": lambda p: 2 * (p - 1),
    "reduce_scatter": lambda p: 2 * (p - 1),
    "all_to_all": lambda p: p * (p - 1),
    "gather": lambda p: p - 1,
    "scatter": lambda p: p - 1,
    "scan": lambda p: p - 1,
    "exclusive_scan": lambda p: p - 1,
}

# Every rank needs something of every other one.
EXCHANGES = {"barrier", "all_reduce", "all_gather", "reduce_scatter", "all_to_all"}

# One rank has all blocks, the others one each.
ROOTED_BLOCKS = ("gather", "scatter", "gather_v", "scatter_v")

# With counts, of blocks that are alike: as without.
for _form, _of in (("all_gather_v", "all_gather"), ("reduce_scatter_v", "reduce_scatter"), ("gather_v", "gather"),
                   ("scatter_v", "scatter"), ("all_to_all_vc", "all_to_all")):
    TRAFFIC[_form] = TRAFFIC[_of]
    MESSAGES[_form] = MESSAGES[_of]
    if _of in EXCHANGES:
        EXCHANGES.add(_form)


def shm_limit_us(limits, operator, ranks, size, in_process):
    crowd = 1 if in_process else limits.crowd(ranks)
    latency = limits.one_way + limits.timer if crowd <= 1 else limits.switch * crowd
    if operator == "barrier":
        return latency
    if operator == "send_recv":
        there = limits.one_way + size / interpolate(limits.pull, size)
        beyond = max(0, 4 * size - limits.cache_bytes) / 2 / limits.stream
        return max(2 * there + limits.timer, beyond)
    reads, writes, copies = TRAFFIC[operator](ranks, size)
    in_cache = limits.touch(copies, min(ranks, limits.cores))
    beyond = max(0, reads + writes - limits.cache_bytes) / 2 / limits.stream
    return latency + max(in_cache, beyond)


def tcp_limit_us(limits, operator, ranks, size, _in_process):
    one_way = limits.tcp_one_way
    if operator == "send_recv":
        return 2 * (one_way + size / interpolate(limits.tcp_stream, size)) if size >= 4096 else 2 * one_way
    crowd = limits.crowd(ranks)
    latency = one_way if ranks <= 2 else one_way * 2
    if crowd > 1:
        latency = max(latency, MESSAGES[operator](ranks) * one_way / limits.cores)
    least = max(latency, limits.tcp_exchange if operator in EXCHANGES else 0)
    if operator == "barrier" or size < 4096:
        return least
    total = (2 if operator == "all_reduce" else 1) * (ranks - 1) * size
    if operator in ROOTED_BLOCKS:
        total //= ranks
    if ranks == 2 and operator in ("broadcast", "reduce"):
        return latency + total / interpolate(limits.tcp_stream, size)
    message = size if operator == "broadcast" or (operator == "all_reduce" and ranks == 2) else size // ranks
    return max(least, latency + total / interpolate(limits.tcp_duplex, message))


def limit_us(limits, cell, in_process=False):
    """`in_process`: ranks may share a thread, so that none of them needs a switch between processes."""
    of_transport = shm_limit_us if cell.transport == "shm" else tcp_limit_us
    return of_transport(limits, cell.operator, cell.ranks, cell.bytes, in_process)
