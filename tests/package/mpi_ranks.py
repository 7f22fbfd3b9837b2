# SPDX-License-Identifier: Apache-2.0
"""What an installed package does for programs of MPI and JAX: mpi_ranks.py mpi4py|jax, by two ranks."""

import pathlib
import sys

import numpy


def mpi4py():
    from mpi4py import MPI

    assert "cohort" in MPI.Get_library_version(), MPI.Get_library_version()
    total = numpy.zeros(3)
    MPI.COMM_WORLD.Allreduce(numpy.ones(3), total)
    assert MPI.COMM_WORLD.size == 2 and (total == 2).all()


def jax():
    import cohort.jax  # before jax

    assert cohort.jax.library().parent == pathlib.Path(cohort.__file__).resolve().parent / "mpi"
    import jax
    from jax.experimental import multihost_utils

    jax.distributed.initialize()
    assert jax.process_count() == 2
    assert (multihost_utils.process_allgather(numpy.full(3, jax.process_index())) == [[0] * 3, [1] * 3]).all()


{"mpi4py": mpi4py, "jax": jax}[sys.argv[1]]()
