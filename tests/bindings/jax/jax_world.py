# SPDX-License-Identifier: Apache-2.0
"""JAX between processes, as jax_ranks.py and bench/eco/jax_calls.py need it: over cohort under `cohort run`, or over gloo."""


def join(parser):
    """(arguments, mesh of all devices): parses the command line, with --gloo RANK SIZE PORT for ranks without cohort, and
    joins. To be called before jax is imported."""
    parser.add_argument("--gloo", nargs=3, type=int, metavar=("RANK", "SIZE", "PORT"))
    arguments = parser.parse_args()
    if not arguments.gloo:
        import cohort.jax  # noqa: F401: before jax

    import jax
    import numpy as np
    from jax.sharding import Mesh

    jax.config.update("jax_platforms", "cpu")
    if arguments.gloo:
        rank, size, port = arguments.gloo
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"127.0.0.1:{port}", size, rank)
    else:
        jax.distributed.initialize()
    return arguments, Mesh(np.array(jax.devices()), ("x",))


def spread(mesh, whole):
    """A global array of which each device has its rows."""
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    rows = NamedSharding(mesh, PartitionSpec("x"))
    return jax.make_array_from_callback(whole.shape, rows, lambda index: whole[index])


def map_over(mesh, function, inputs, outputs):
    """The compiled function, on each device's part."""
    import jax

    return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=inputs, out_specs=outputs))
