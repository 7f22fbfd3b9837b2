# SPDX-License-Identifier: Apache-2.0
"""JAX's collectives between CPU processes on cohort: `import cohort.jax` before the first use of jax, and nothing else.

jax reaches them as an MPI (jax_cpu_collectives_implementation=mpi), by cohort's libmpiwrapper.so. Under `cohort run`
jax.distributed.initialize() needs no arguments. docs/use/jax.md has what JAX allows on CPUs."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pathlib
import re
import sys
from typing import Optional

_LIBRARY = "libmpiwrapper.so"
# Below the ports that the kernel gives to whoever asks for any.
_FIRST_PORT, _PORTS = 20000, 12000


def library() -> pathlib.Path:
    """Where libmpiwrapper.so is. Throws FileNotFoundError where the package came without it."""
    here = pathlib.Path(__file__).absolute().parent
    # Of a build; of an installation in lib/python3/dist-packages, beside which lib may have a folder for the machine.
    installed = here.parents[2]
    for folder in (here / "mpi", installed / "cohort" / "mpi", *installed.glob("*/cohort/mpi")):
        if (folder / _LIBRARY).exists():
            return (folder / _LIBRARY).resolve()
    raise FileNotFoundError(f"there is no {_LIBRARY} in {here / 'mpi'} nor below {installed}: build cohort with "
                            "-DCOHORT_BUILD_MPI=ON, or install the component mpi")


def coordinator() -> str:
    """HOST:PORT that all ranks of this job name alike: of rank 0's host, and a port that the job's address gives, unless
    JAX_COORDINATOR_PORT does."""
    address = os.environ["COHORT_ADDR"]
    host = "127.0.0.1" if address.startswith("unix:") else address.rpartition(":")[0]
    digest = hashlib.sha256(address.encode()).digest()
    port = os.environ.get("JAX_COORDINATOR_PORT") or _FIRST_PORT + int.from_bytes(digest[:4], "big") % _PORTS
    return f"{host}:{port}"


def _use_before_jax() -> None:
    os.environ["MPITRAMPOLINE_LIB"] = str(library())
    os.environ["JAX_CPU_COLLECTIVES_IMPLEMENTATION"] = "mpi"
    # jax raises what it is told; MPI would end the process by itself.
    os.environ.setdefault("COHORT_MPI_ERRORS", "return")


if importlib.util.find_spec("jax") is None:
    raise ImportError("cohort.jax needs JAX, 0.10 or later: pip install jax")
_was_there = "jax" in sys.modules
_use_before_jax()

import jax  # noqa: E402: reads what was set
from jax._src import clusters  # noqa: E402: where other launchers are, too

if _was_there:
    jax.config.update("jax_cpu_collectives_implementation", "mpi")


def _refuse_several_devices() -> None:
    """XLA makes one communicator of MPI for each process, and would leave the other devices out without a word."""
    asked = re.search(r"--xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
    devices = max(int(asked[1]) if asked else 1, getattr(jax.config, "jax_num_cpu_devices", 1))
    if devices > 1:
        raise RuntimeError(f"{devices} CPU devices in this process, but between processes XLA's collectives over MPI take one of "
                           "each: start as many ranks as there are to be devices")


_refuse_several_devices()


class CohortCluster(clusters.ClusterEnv):
    """What jax.distributed.initialize() finds under `cohort run`."""

    name = "cohort"

    @classmethod
    def is_env_present(cls) -> bool:
        return all(name in os.environ for name in ("COHORT_RANK", "COHORT_SIZE", "COHORT_ADDR"))

    @classmethod
    def get_coordinator_address(cls, timeout_secs: Optional[int], override_coordinator_port: Optional[str]) -> str:
        return coordinator()

    @classmethod
    def get_process_count(cls) -> int:
        _refuse_several_devices()
        return int(os.environ["COHORT_SIZE"])

    @classmethod
    def get_process_id(cls) -> int:
        return int(os.environ["COHORT_RANK"])


# A job of `cohort run` within one of Slurm's is cohort's.
clusters.ClusterEnv._cluster_types.remove(CohortCluster)
clusters.ClusterEnv._cluster_types.insert(0, CohortCluster)
