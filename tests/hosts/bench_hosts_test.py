#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`cohort bench` starts its ranks on hosts, and as a rank prints once, in each of its forms."""

import csv
import io
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import hosts as hosts_of_test
from hosts import COMMAND, RUNNER, Hosts


class BenchOnHosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        hosts_of_test.require_ssh()
        cls.hosts = Hosts(2)
        cls.hosts.__enter__()
        cls.addClassCleanup(cls.hosts.__exit__)
        cls.hosts.serve_ssh()

    def bench(self, *arguments):
        return self.hosts.run(1, COMMAND, "bench", "all_reduce", "--hosts", "host1:2,host2", "--sizes", "8,4K", "--iters", "3",
                              *arguments, timeout=60)

    def test_the_table_says_who_is_where(self):
        text = self.bench()
        self.assertEqual(text.count("# cohort all_reduce: 3 processes"), 1, text)
        self.assertIn("host1", text)
        self.assertIn("host2", text)

    def test_rows_of_csv_and_json(self):
        rows = list(csv.DictReader(io.StringIO(self.bench("--csv"))))
        self.assertEqual([(row["collective"], row["ranks"]) for row in rows], [("all_reduce", "3")] * 2)
        rows = [json.loads(line) for line in self.bench("--json").splitlines()]
        self.assertEqual(len(rows), 2)
        self.assertTrue(all(row["median_us"] > 0 for row in rows))

    def test_a_chart(self):
        picture = self.hosts.folder / "chart.svg"
        self.bench("--svg", str(picture))
        text = picture.read_text()
        self.assertIn("3 ranks over", text)
        self.assertIn("bus bandwidth", text)
        self.assertEqual(text.count("<circle"), 4)

    def test_a_rank_of_another_launcher_measures_the_job_that_it_is_in(self):
        text = self.hosts.run(1, RUNNER, "--hosts", "host1,host2", "--no-prefix", "--", COMMAND, "bench", "broadcast", "--sizes", "8",
                              "--iters", "3", "--csv", timeout=60)
        self.assertEqual(len(text.splitlines()), 2, text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
