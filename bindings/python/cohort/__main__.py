# SPDX-License-Identifier: Apache-2.0
"""`python -m cohort run -n 4 -- python program.py`: the cohort command that comes with the package."""

import os
import pathlib
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Becomes the command, which has all the arguments."""
    command = pathlib.Path(__file__).resolve().parent / "bin" / "cohort"
    if not command.exists():
        sys.exit(f"cohort: this package came without the command ({command}): use the one of the installation or the build, "
                 "or install the wheel")
    os.execv(command, ["cohort", *sys.argv[1:]])


if __name__ == "__main__":
    main()
