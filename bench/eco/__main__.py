# SPDX-License-Identifier: Apache-2.0
"""`python bench/eco --help`; ./run bench eco builds and installs everything first."""

import pathlib
import sys

sys.dont_write_bytecode = True
sys.path[0] = str(pathlib.Path(__file__).resolve().parent)

from comparing import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
