#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is read of other programs' output, and the table that is made of it."""

import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))

from verbs import figures, main  # noqa: E402

LATENCY = """ #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]
 8       1000          55.28          7052.72      169.40              554.74           971.35          4158.50
"""
BANDWIDTH = """ #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      500              34.68              34.65                0.000554
"""
TIMES = "#, usec\n" + "".join(f"{i}, {100 - i}.5\n" for i in range(1, 51)) + LATENCY
LINK = """name,iterations,real_time,cpu_time,time_unit,bytes_per_second,items_per_second,label,error_occurred,error_message,"GB/s","median_us","min_us"
"verbs_link/step:2/bytes:8/lanes:1/in_flight:1/manual_time",418,2.2e+06,577409,ns,,,,,,5.5e-06,1436.34,722.464
"""
ROWS = "peer,transport,collective,ranks,bytes,min_us,median_us,p99_us,iters\ncohort,verbs,all_reduce,2,8,1.5,3.25,11.5,41\n"


class Figures(unittest.TestCase):
    def test_are_read_of_what_programs_print(self):
        self.assertEqual(figures.latency_of_perftest(LATENCY, 8), 169.40)
        self.assertEqual(figures.fastest_tenth_of_perftest(TIMES), 55.5)
        self.assertEqual(figures.bandwidth_of_perftest(BANDWIDTH, 65536), 34.65)
        self.assertEqual(figures.counter_of_link_bench(LINK, "median_us"), "1436.34")
        self.assertEqual(figures.median_of_rows(ROWS, 8), 3.25)

    def test_are_none_where_programs_print_none(self):
        self.assertIsNone(figures.latency_of_perftest("server is not there", 8))
        self.assertIsNone(figures.fastest_tenth_of_perftest(LATENCY))
        self.assertIsNone(figures.bandwidth_of_perftest(BANDWIDTH.replace("34.65", "0.00"), 65536))
        self.assertIsNone(figures.counter_of_link_bench("no device", "median_us"))
        self.assertIsNone(figures.median_of_rows(ROWS, 16))

    def test_become_ratios_within_rounds(self):
        rows = [(0, "latency of a link, 8 B", "link", 2.0), (0, "latency of a link, 8 B", "ib_write_lat", 1.0),
                (1, "latency of a link, 8 B", "link", 30.0), (1, "latency of a link, 8 B", "ib_write_lat", 10.0),
                (2, "latency of a link, 8 B", "link", 4.0)]
        line = next(line for line in figures.table(rows).splitlines() if line.startswith("| latency of a link"))
        self.assertEqual(line, "| latency of a link, 8 B | 4 us | ib_write_lat | 5.5 us | 2.50 (2.00 to 3.00) | at most 1.3 |")

    def test_that_are_missing_are_said_to_be(self):
        line = next(line for line in figures.table([(0, "all_reduce, 8 B", "cohort", 2.0)]).splitlines() if "all_reduce, 8" in line)
        self.assertEqual(line, "| all_reduce, 8 B | 2 us | openmpi | - us | - | at most 1 |")

    def test_of_several_queue_pairs_are_held_against_one(self):
        name = "bandwidth, 1 MiB, 4 queue pairs"
        text = figures.table([(0, name, "4 pairs", 150.0), (0, name, "1 pair", 100.0)], "queue pairs")
        self.assertIn(f"| {name} | 150 MiB/s | 1 pair | 100 MiB/s | 1.50 | - |", text.splitlines())
        self.assertNotIn("latency", text)

    def test_replace_a_table_in_a_text(self):
        text = "before\n" + main.BEGIN + "old\n" + main.END + "after\n"
        self.assertEqual(main.replace_table(text, "new\n"), "before\n" + main.BEGIN + "new\n" + main.END + "after\n")


if __name__ == "__main__":
    unittest.main()
