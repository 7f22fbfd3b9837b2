# SPDX-License-Identifier: Apache-2.0
"""`python3 bench/suite --help`; ./run bench builds everything first."""

import os
import pathlib
import sys

sys.dont_write_bytecode = True
os.environ["COHORT_CACHE"] = "off"  # what is measured is measured now
sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from suite.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
