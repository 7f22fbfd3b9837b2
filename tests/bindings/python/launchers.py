# SPDX-License-Identifier: Apache-2.0
"""Starts ranks by the programs that users start them with."""

import importlib.util
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

from support import RUNNER, environment, interpret

LIMIT_S = 250  # for one job: of a hang, however busy the machine is


def cohort_run(ranks, command):
    return [[str(RUNNER), "-n", str(ranks), "--timeout", str(LIMIT_S), "--", *command]], [{}]


def open_mpi(ranks, command):
    program = needed("mpirun.openmpi", "openmpi-bin")
    options = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", str(ranks)]
    return [[program, *options, *command]], [{"OMPI_MCA_plm_rsh_agent": "sh"}]  # asked for even on one host


def mpich(ranks, command):
    return [[needed("mpiexec.hydra", "mpich"), "-n", str(ranks), *command]], [{}]


def torch_run(ranks, command):
    if importlib.util.find_spec("torch") is None:
        raise unittest.SkipTest("torch is not installed")
    options = ["--standalone", "--nproc_per_node", str(ranks)]
    return [[sys.executable, "-m", "torch.distributed.run", *options, "--no_python", *command]], [{}]


def by_hand(ranks, command):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(ranks)}
    return [command] * ranks, [{**place, "RANK": str(rank)} for rank in range(ranks)]


LAUNCHERS = {"cohort run": cohort_run, "mpirun of Open MPI": open_mpi, "mpiexec of MPICH": mpich,
             "torch.distributed.run": torch_run, "MASTER_ADDR by hand": by_hand}


def needed(program, package):
    path = shutil.which(program)
    if path is None:
        raise unittest.SkipTest(f"{program} is not installed: package {package}")
    return path


def launch(launcher, ranks, program, *arguments, **variables):
    """A file or a text on so many ranks, started by one of LAUNCHERS: (status, output). Skips where that is missing."""
    commands, places = LAUNCHERS[launcher](ranks, [*interpret(program), *arguments])
    with tempfile.TemporaryFile("w+") as output:
        running = [subprocess.Popen(command, env=environment(**place, **variables), stdout=output, stdin=subprocess.DEVNULL,
                                    stderr=subprocess.STDOUT) for command, place in zip(commands, places)]
        try:
            status = max(abs(process.wait(LIMIT_S + 10)) for process in running)
        except subprocess.TimeoutExpired:
            status = "not over in time"
        finally:
            for process in running:
                process.kill()
                process.wait()
        output.seek(0)
        return status, output.read()
