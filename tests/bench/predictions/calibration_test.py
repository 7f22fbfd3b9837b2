#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Topologies of a machine with round figures."""

import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))

from predictions.calibration import link, machine_of, topology  # noqa: E402

# A line takes 0.1 us, a switch 1.5; a core copies 10 GB/s of its own and 5 of another's, and combines 8.
FIGURES = {("one_way", 0): 0.1, ("switch", 0): 1.5, ("timer", 0): 0.0, ("copy", 64000): 6.4, ("pull", 64000): 12.8,
           ("pull_sum", 64000): 16.0, ("stream", 64000000): 16000.0}
MACHINE = machine_of(FIGURES, cores=2, core_cache_bytes=1 << 20, cache_bytes=32 << 20)
EXCHANGES = {8: 7.0, 64000: 71.0}


class Links(unittest.TestCase):
    def test_the_smallest_block_over_tcp_is_the_work_of_both_ends(self):
        self.assertAlmostEqual(link("tcp", 8, EXCHANGES, MACHINE)["message_ns"], 3500)
        self.assertEqual(link("tcp", 8, EXCHANGES, MACHINE)["latency_ns"], 0)

    def test_over_shared_memory_ranks_meet_before_and_a_line_takes_its_time(self):
        speed = link("shm", 8, EXCHANGES, MACHINE)
        self.assertAlmostEqual(speed["latency_ns"], 100)
        self.assertAlmostEqual(2 * speed["message_ns"] + 2 * speed["latency_ns"], 7000)

    def test_what_a_block_takes_more_is_moved_by_cores(self):
        self.assertAlmostEqual(link("tcp", 64000, EXCHANGES, MACHINE)["core_gigabytes_per_second"], 1.0)
        # Left out, they would be what the library does where nobody has measured.
        self.assertEqual(link("tcp", 8, EXCHANGES, MACHINE)["core_gigabytes_per_second"], 0)
        self.assertEqual(link("tcp", 8, EXCHANGES, MACHINE)["header_bytes"], 0)

    def test_a_message_faster_than_a_line_costs_nothing_rather_than_less(self):
        self.assertEqual(link("shm", 8, {8: 0.1}, MACHINE)["message_ns"], 0)


class Topologies(unittest.TestCase):
    def test_ranks_share_the_cores_of_one_host(self):
        made = topology("tcp", 8, 64000, EXCHANGES, MACHINE)
        self.assertEqual((made["ranks_per_host"], made["cores_per_host"], made["shared_memory"]), (8, 2, False))
        self.assertAlmostEqual(made["core_switch_ns"], 1500)

    def test_over_shared_memory_copies_are_of_what_others_wrote(self):
        self.assertAlmostEqual(topology("shm", 2, 64000, EXCHANGES, MACHINE)["copy_gigabytes_per_second"], 5)
        self.assertAlmostEqual(topology("tcp", 2, 64000, EXCHANGES, MACHINE)["copy_gigabytes_per_second"], 10)
        self.assertAlmostEqual(topology("shm", 2, 64000, EXCHANGES, MACHINE)["reduce_gigabytes_per_second"], 8)

    def test_past_the_caches_nothing_is_faster_than_memory(self):
        made = topology("shm", 2, 64 << 20, EXCHANGES, MACHINE)
        self.assertAlmostEqual(made["copy_gigabytes_per_second"], 4)
        self.assertAlmostEqual(made["reduce_gigabytes_per_second"], 8)


if __name__ == "__main__":
    unittest.main()
