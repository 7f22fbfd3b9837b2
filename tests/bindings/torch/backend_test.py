# SPDX-License-Identifier: Apache-2.0
"""Every call of torch.distributed over the backend "cohort"."""

import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))

from support import RanksTestCase


class Backend(RanksTestCase):
    def test_on_three_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            program = str(pathlib.Path(__file__).with_name("backend_ranks.py"))
            self.check_ranks(3, program, os.path.join(folder, "store"))


if __name__ == "__main__":
    unittest.main()
