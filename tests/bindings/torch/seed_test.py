# SPDX-License-Identifier: Apache-2.0
"""The training script that is written for hcomm, on eight ranks."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))

from launchers import launch


class Training(unittest.TestCase):
    def check_training(self, launcher):
        status, output = launch(launcher, 8, str(pathlib.Path(__file__).with_name("seed_training.py")))
        self.assertEqual(status, 0, output)
        for rank in range(8):
            self.assertIn(f"rank {rank} epoch 9 done\n", output)
            self.assertIn(f"rank {rank} holds the model of rank 0\n", output)

    def test_training_by_mpirun(self):
        self.check_training("mpirun of Open MPI")

    def test_training_by_cohort_run(self):
        self.check_training("cohort run")


if __name__ == "__main__":
    unittest.main()
