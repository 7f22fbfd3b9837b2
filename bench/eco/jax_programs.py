# SPDX-License-Identifier: Apache-2.0
"""JAX's collectives between processes over cohort and over its gloo."""

import pathlib

from launching import figures_of

HERE = pathlib.Path(__file__).resolve().parent
RANKS = (2, 4)


def bench_jax(turns, options):
    from support import free_port

    program = [options.mpi_python, HERE / "jax_calls.py"]

    def over_gloo(ranks):
        port = free_port()
        return figures_of([[*program, "--gloo", rank, ranks, port] for rank in range(ranks)])

    def over_cohort(ranks):
        launch = [options.build / "bin" / "cohort-run", "-n", ranks, "--"]
        return figures_of([[*launch, *program]], PYTHONPATH=str(options.build / "python"))

    for ranks in RANKS:
        turns.rows("us", {"gloo": lambda ranks=ranks: over_gloo(ranks), "cohort": lambda ranks=ranks: over_cohort(ranks)})
