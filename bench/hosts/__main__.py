# SPDX-License-Identifier: Apache-2.0
"""`python3 bench/hosts --help`; ./run bench hosts builds everything first."""

import pathlib
import sys

sys.dont_write_bytecode = True
sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from hosts.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
