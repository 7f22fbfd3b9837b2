# SPDX-License-Identifier: Apache-2.0
"""The sample that trains with the distributed optimizer of cohort.graph runs under launchers, and learns."""

import importlib.util
import os
import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))

from launchers import launch

SAMPLES = pathlib.Path(__file__).parents[3] / "samples"


class Sample(unittest.TestCase):
    def train(self, launcher, *arguments):
        status, output = launch(launcher, 2, str(SAMPLES / "train_llama_ge.py"), "--epochs", "2", *arguments)
        self.assertEqual(status, 0, output)
        first, last = map(float, re.search(r"loss ([0-9.]+) at first, ([0-9.]+) at last", output).groups())
        self.assertLess(last, first - 0.3, output)
        self.assertIn("Epoch 1, Loss: ", output)
        return output

    def test_its_losses_are_those_of_ddp(self):
        with tempfile.TemporaryDirectory() as folder:
            pictures = [os.path.join(folder, name) for name in ("loss.png", "timeline.png")]
            output = self.train("cohort run", "--steps", "10", "--compare", "--curve", pictures[0], "--timeline", pictures[1])
            self.assertIn("20 of 20 losses are those of DistributedDataParallel", output)
            self.assertIn("seed_efficiency is never above 0.5", output)
            if importlib.util.find_spec("matplotlib"):
                for picture in pictures:
                    self.assertEqual(pathlib.Path(picture).read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
            else:
                self.assertEqual(output.count("pip install matplotlib"), 2, output)

    def test_it_is_configured_by_a_file(self):
        if importlib.util.find_spec("yaml") is None:
            self.skipTest("no PyYAML: pip install -r tests/torch/requirements.txt")
        output = self.train("torch.distributed.run", "--steps", "16", "--config", str(SAMPLES / "ge_config.yaml"))
        self.assertIn("by synchronous", output)  # the plan of the first steps, of which 8 were made

    def test_it_saves_memory_and_accumulates(self):
        self.train("cohort run", "--steps", "12", "--accumulate", "2", "--save-memory", "--strategy", "hierarchical")


if __name__ == "__main__":
    unittest.main()
