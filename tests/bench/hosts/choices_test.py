#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bench/hosts says of choices, from measurements and a simulator that are given."""

import argparse
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))
from hosts.choices import Choices, report
from hosts.main import Launch, parse_line

SIMULATOR = """#!/bin/sh
echo collective,algorithm,ranks,bytes,us,messages
echo all_reduce,ring,4,1048576,1,24
echo all_reduce,rhd,4,1048576,1,24
"""
TIMES = {"": 200, "--algorithm ring": 205, "--algorithm rhd": 100}


class ChoicesBesideMeasurements(unittest.TestCase):
    def test_a_choice_that_is_slower_than_another_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            simulator = pathlib.Path(folder, "cohort")
            simulator.write_text(SIMULATOR)
            simulator.chmod(0o755)
            options = argparse.Namespace(bin=pathlib.Path(folder), cohort_args="", rounds=3)

            def measure(launch, form):
                if form == "--json":
                    return ['{"size_bytes": 1048576, "algorithm": "ring"}', "# words"]
                return ["peer,transport", f"cohort,tcp,all_reduce,4,1048576,1,{TIMES[options.cohort_args.strip()]},9,3"]

            launch = Launch(4, 1, "1gbit", ("all_reduce",), (1048576,))
            found = list(Choices(options, measure, parse_line).of(launch))
        self.assertEqual([(one.selected, one.best, one.ratio, one.is_good) for one in found], [("ring", "rhd", 2.0, False)])
        self.assertIn("within 10 % of the best in 0 of 1 cells", report(found))


if __name__ == "__main__":
    unittest.main()
