# SPDX-License-Identifier: Apache-2.0
"""A topology of this host, for the simulator, from what was measured on it.

Two ranks that exchange blocks (all_gather, ring) say what a link costs: the smallest block what a message takes, each
larger one what its bytes take. What memory and cores do comes from bench/limits. Nothing else is fitted: ranks, other
operators, other algorithms and shared cores are left to the simulator.
"""

import dataclasses

from suite.model import interpolate

OPERATOR, ALGORITHM, RANKS = "all_gather", "ring", 2
SMALLEST = 8
NS_PER_US = 1e3
GB_PER_S = 1e-3  # of bytes a us
UNBOUNDED_GB_PER_S = 1e6  # on one host bytes are moved by cores alone


@dataclasses.dataclass(frozen=True)
class Machine:
    """Figures of bench/limits: times in us, rates in bytes a us."""

    one_way_us: float
    switch_us: float
    copy: dict  # {bytes: rate} of a core that copies what it has written itself
    pull: dict  # the same, of what another core has just written
    reduce: dict  # bytes of operands, of which another core has just written half
    stream: float  # of a core that copies past the caches while all others do
    cores: int
    core_cache_bytes: int
    cache_bytes: int


def machine_of(us, cores, core_cache_bytes, cache_bytes):
    """Of {(name, bytes): us} as suite.model.choose() gives it, which holds the time of reading the clock, too."""
    clock = us["timer", 0]

    def rates(name, operands=1):
        return {size: operands * size / max(taken - clock, 1e-3) for (of, size), taken in us.items() if of == name}

    stream = max(size / taken for (of, size), taken in us.items() if of == "stream")
    return Machine(us["one_way", 0], us["switch", 0], rates("copy"), rates("pull"), rates("pull_sum", 2), stream, cores,
                   core_cache_bytes, cache_bytes)


def link(transport, size, exchanges_us, machine):
    """The members of LinkSpeed for blocks of half the size; `exchanges_us` is {bytes: us} of the calibrating runs."""
    is_shm = transport == "shm"
    latency_us = machine.one_way_us if is_shm else 0  # loopback does all its work on the cores of the two ends
    # Over shared memory the ranks meet before they exchange, and either takes a line's way.
    message_us = max(exchanges_us[SMALLEST] - 2 * latency_us, 0) / 2
    moving_us = max(interpolate(exchanges_us, max(size, SMALLEST)) - exchanges_us[SMALLEST], 0)
    speed = {"latency_ns": latency_us * NS_PER_US, "message_ns": message_us * NS_PER_US,
             "gigabytes_per_second": UNBOUNDED_GB_PER_S, "core_gigabytes_per_second": 0, "header_bytes": 0}
    if moving_us > 0:  # each rank's core moves the block that goes and the one that comes
        speed["core_gigabytes_per_second"] = size / moving_us * GB_PER_S
    return speed


def topology(transport, ranks, size, exchanges_us, machine):
    """What `cohort sim --topology` reads, for messages of one size."""
    in_cache = 2 * ranks * size <= machine.cache_bytes
    at = max(size, SMALLEST)
    copy = interpolate(machine.pull if transport == "shm" else machine.copy, at)
    reduce = interpolate(machine.reduce, at)
    if not in_cache:
        copy, reduce = min(copy, machine.stream), min(reduce, 2 * machine.stream)
    return {
        "ranks_per_host": ranks,
        "cores_per_host": machine.cores,
        "shared_memory": transport == "shm",
        "inside": link(transport, size, exchanges_us, machine),
        "core_switch_ns": machine.switch_us * NS_PER_US,
        "cache_bytes": machine.core_cache_bytes,
        "copy_gigabytes_per_second": copy * GB_PER_S,
        "reduce_gigabytes_per_second": reduce * GB_PER_S,
    }
