#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bench/hosts says of predictions, from measurements and a simulator that are given."""

import argparse
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))
from hosts.main import Launch, gigabytes_of
from hosts.predictions import Predictions, report

SIMULATOR = """#!/bin/sh
cp "$6" "$(dirname "$0")/topology.json"
echo collective,algorithm,ranks,bytes,us,messages
case "$*" in *rhd*) exit 1;; esac
echo all_reduce,ring,4,65536,110,24
echo all_reduce,ring,4,1048576,1500,24
"""


class PredictionsBesideMeasurements(unittest.TestCase):
    def predictions(self, folder, algorithms):
        simulator = pathlib.Path(folder, "cohort")
        simulator.write_text(SIMULATOR)
        simulator.chmod(0o755)
        asked = []
        options = argparse.Namespace(bin=pathlib.Path(folder), cohort_args="--no-check", predict=algorithms, rounds=3)

        def measure(launch):
            asked.append((launch.hosts, options.cohort_args))
            if launch.sizes == (8,):
                return [("all_gather", 8, 7.0)]
            return [("all_reduce", 65536, 100.0 + len(asked)), ("all_reduce", 1048576, 1000.0)]

        launch = Launch(4, 1, "1gbit", ("all_reduce",), (65536, 1048576))
        return list(Predictions(options, measure, gigabytes_of).of(launch)), asked

    def test_each_size_is_predicted_from_the_way_that_was_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            found, asked = self.predictions(folder, ["ring"])
            machine = pathlib.Path(folder, "topology.json").read_text()
        self.assertEqual(asked, [(2, "--no-check --algorithm ring")] * 3 + [(4, "--no-check --algorithm ring")] * 3)
        self.assertEqual([(one.size, one.measured_us, one.predicted_us) for one in found], [(65536, 105.0, 110.0), (1048576, 1000.0, 1500.0)])
        self.assertIn('"latency_ns": 7000.0', machine)
        self.assertIn("0.1176", machine)
        self.assertIn("median error of 2 predictions: 27%", report(found))

    def test_what_the_simulator_refuses_is_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            found, _ = self.predictions(folder, ["rhd", "ring"])
        self.assertEqual({one.algorithm for one in found}, {"ring"})
        self.assertEqual(report([]).count("\n"), 2)


if __name__ == "__main__":
    unittest.main()
