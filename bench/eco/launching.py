# SPDX-License-Identifier: Apache-2.0
"""Starts programs that print figures, each in a line "figure WHAT POINT NUMBER"."""

import os
import re
import subprocess
import sys

LIMIT_S = 900
LAUNCHERS = ("COHORT_", "JAX_", "MPI4PY_", "MPITRAMPOLINE_", "OMPI_", "PMI")
FIGURE = re.compile(r"^(?:\[0\] )?figure (\S+) (\S+) ([\d.]+)$", re.MULTILINE)


def figures_of(commands, **variables):
    """Starts them at once, waits for all, and gives what the first one printed, by (what, point). Ends where one fails."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    processes = [subprocess.Popen(list(map(str, command)), env={**kept, **variables}, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT) for command in commands]
    try:
        outputs = [process.communicate(timeout=LIMIT_S)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for command, process, output in zip(commands, processes, outputs):
        if process.returncode != 0:
            sys.exit(f"bench eco: {' '.join(map(str, command))} ended with {process.returncode}:\n{output}")
    return {(what.replace("_", " "), point.replace("_", " ")): float(number) for what, point, number in FIGURE.findall(outputs[0])}
