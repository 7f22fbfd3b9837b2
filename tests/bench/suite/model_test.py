#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lower bounds of a machine with round figures."""

import unittest

from support import CACHE_BYTES, LIMITS, cell
from suite.cells import OPERATORS
from suite.model import Limits, choose, interpolate, limit_us, parse_line


def bound(operator, ranks=2, size=8, transport="shm"):
    return limit_us(Limits(LIMITS, "near", 2, CACHE_BYTES), cell(operator, ranks, size, transport))


class Bounds(unittest.TestCase):
    def test_a_barrier_of_two_is_a_line_and_the_clock(self):
        self.assertAlmostEqual(bound("barrier", 2, 0), 0.12)

    def test_more_ranks_than_cores_switch_once_each(self):
        self.assertAlmostEqual(bound("barrier", 4, 0), 3.0)
        self.assertAlmostEqual(bound("barrier", 8, 0), 6.0)

    def test_ranks_of_one_process_need_not_switch(self):
        limits = Limits(LIMITS, "near", 2, CACHE_BYTES)
        self.assertAlmostEqual(limit_us(limits, cell("barrier", 8, 0), in_process=True), 0.12)

    def test_in_the_cache_both_cores_move_every_byte_once(self):
        size = 1 << 20
        self.assertAlmostEqual(bound("all_reduce", 2, size), 0.12 + size / 10000, places=3)
        self.assertAlmostEqual(bound("reduce_scatter", 2, size), 0.12 + 3 * size / 4 / 10000, places=3)
        self.assertAlmostEqual(bound("broadcast", 2, size), 0.12 + size / 2 / 10000, places=3)

    def test_beyond_the_cache_memory_is_the_wall(self):
        size = 64 << 20
        expected = (4 * size - CACHE_BYTES) / 2 / 20000
        in_cache = size / 10000
        self.assertAlmostEqual(bound("all_reduce", 2, size), 0.12 + max(expected, in_cache), places=2)

    def test_a_ping_pong_goes_both_ways(self):
        self.assertAlmostEqual(bound("send_recv", 2, 4096), 2 * (0.1 + 0.4096) + 0.02, places=4)
        self.assertAlmostEqual(bound("send_recv", 2, 8, "tcp"), 8.0)

    def test_who_needs_something_of_each_other_sends_before_it_receives(self):
        self.assertAlmostEqual(bound("all_to_all", 2, 8, "tcp"), 5.0)
        self.assertAlmostEqual(bound("all_gather_v", 2, 8, "tcp"), 5.0)
        self.assertAlmostEqual(bound("scatter", 2, 8, "tcp"), 4.0)

    def test_loopback_carries_the_least_bytes(self):
        size = 1 << 20
        self.assertAlmostEqual(bound("all_reduce", 2, size, "tcp"), 4 + 2 * size / 8000, places=3)
        self.assertAlmostEqual(bound("broadcast", 2, size, "tcp"), 4 + size / 5000, places=3)
        self.assertAlmostEqual(bound("all_gather", 4, size, "tcp"), 12 + 3 * size / 8000, places=3)

    def test_no_bound_falls_with_size_or_ranks(self):
        for transport in ("shm", "tcp"):
            for operator in OPERATORS:
                for ranks in (2, 4, 8):
                    times = [bound(operator, ranks, size, transport) for size in (8, 4096, 1 << 20, 64 << 20)]
                    self.assertEqual(times, sorted(times), (transport, operator, ranks))
                    self.assertGreaterEqual(bound(operator, 8, 4096, transport), bound(operator, 2, 4096, transport))


class Measured(unittest.TestCase):
    def test_lines_of_limits_are_read(self):
        self.assertEqual(parse_line("pull,4096,0.5,0.4,130,131"), ("pull", 4096, 0.5, "near"))
        self.assertIsNone(parse_line("limits: needs two cores"))

    def test_a_kind_that_lacks_a_figure_borrows_it(self):
        entries = [("one_way", 0, 0.3, "far"), ("one_way", 0, 0.1, "near"), ("timer", 0, 0.02, "near")]
        self.assertEqual(choose(entries, "far"), {("one_way", 0): 0.3, ("timer", 0): 0.02})

    def test_interpolation_is_linear_in_the_logarithm_and_constant_outside(self):
        points = {1: 10.0, 100: 30.0}
        self.assertAlmostEqual(interpolate(points, 10), 20)
        self.assertEqual((interpolate(points, 0.1), interpolate(points, 1000)), (10, 30))


if __name__ == "__main__":
    unittest.main()
