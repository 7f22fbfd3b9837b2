# SPDX-License-Identifier: Apache-2.0
"""The samples that train with torch run, and learn."""

import os
import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))

from launchers import launch

SAMPLES = pathlib.Path(__file__).parents[3] / "samples"


class Samples(unittest.TestCase):
    def run_sample(self, name, *arguments):
        status, output = launch("cohort run", 2, str(SAMPLES / name), *arguments)
        self.assertEqual(status, 0, output)
        return output

    def number_after(self, text, output):
        return float(re.search(re.escape(text) + r"\s*([0-9.e+-]+[0-9])", output)[1])

    def test_digits_are_told_apart(self):
        output = self.run_sample("train_digits.py", "--epochs", "3")
        self.assertGreater(self.number_after("accuracy", output), 0.8, output)
        self.assertIn("2 ranks hold one model", output)

    def test_clothes_are_told_apart(self):
        if not pathlib.Path("/usr/share/datasets/fashion-mnist").exists():
            self.skipTest("dataset-fashion-mnist is not installed")
        accuracies = {}
        for backend in ("cohort", "gloo"):
            output = self.run_sample("train_fashion.py", "--epochs", "1", "--images", "2000", "--backend", backend)
            accuracies[backend] = self.number_after("accuracy", output)
            self.assertGreater(accuracies[backend], 0.3, output)  # chance: 0.1
        self.assertAlmostEqual(accuracies["cohort"], accuracies["gloo"], delta=0.01)

    def test_a_language_model_learns_and_is_the_same_split_over_the_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            curve = os.path.join(folder, "loss.png")
            for backend in ("cohort", "gloo"):
                output = self.run_sample("train_llama.py", "--steps", "15", "--curve", curve, "--backend", backend)
                last = float(re.search(r"([0-9.]+) at last", output)[1])
                self.assertLess(last, self.number_after("loss", output) - 1, output)
            if "pip install matplotlib" not in output:
                self.assertEqual(pathlib.Path(curve).read_bytes()[:8], b"\x89PNG\r\n\x1a\n")


if __name__ == "__main__":
    unittest.main()
