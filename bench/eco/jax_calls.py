# SPDX-License-Identifier: Apache-2.0
"""Times collectives and steps of training of JAX between processes: jax_calls.py, under `cohort run`, or with --gloo RANK SIZE PORT
without cohort. Rank 0 prints the microseconds."""

import argparse
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "bindings" / "jax"))
import jax_world  # noqa: E402

_, mesh = jax_world.join(argparse.ArgumentParser())

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

BYTES = (8, 4 << 10, 64 << 10, 1 << 20, 8 << 20)
LEAST_CALLS, MOST_CALLS, MOST_S = 10, 200, 0.5


def spread(whole):
    return jax_world.spread(mesh, whole)


def spread_over_ranks(function, inputs, outputs):
    return jax_world.map_over(mesh, function, inputs, outputs)


def tell(what, point, call):
    """The median of calls, each of which this rank waits for. As many on all ranks: by the clock of none of them."""
    jax.block_until_ready(call())
    began = time.perf_counter()
    jax.block_until_ready(call())
    once = np.array(time.perf_counter() - began, np.float32).reshape(1)
    slowest = spread_over_ranks(lambda v: lax.pmax(v, "x"), P("x"), P())(spread(np.tile(once, jax.process_count())))
    number = int(min(MOST_CALLS, max(LEAST_CALLS, MOST_S / float(slowest.addressable_data(0)[0]))))
    times = []
    for _ in range(number):
        began = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - began)
    if jax.process_index() == 0:
        print(f"figure JAX_{what}_of_{jax.process_count()}_processes {point} {statistics.median(times) * 1e6:.2f}", flush=True)


def collectives():
    for each in BYTES:
        whole = spread(np.ones((jax.process_count(), each // 4), np.float32))
        psum = spread_over_ranks(lambda v: lax.psum(v, "x"), P("x"), P())
        tell("psum", f"{each}_bytes", lambda: psum(whole))
        gather = spread_over_ranks(lambda v: lax.all_gather(v, "x", tiled=True), P("x"), P("x"))
        tell("all_gather", f"{each}_bytes", lambda: gather(whole))


def training():
    """A network of three layers, whose slopes are averaged among the ranks."""
    random = np.random.default_rng(3)
    x = spread(random.standard_normal((32 * jax.process_count(), 256)).astype(np.float32))
    weights = [random.standard_normal(shape).astype(np.float32) * 0.05 for shape in ((256, 512), (512, 256), (256, 1))]

    def loss_of(weights, x):
        hidden = jnp.tanh(jnp.tanh(x @ weights[0]) @ weights[1])
        return jnp.mean((hidden @ weights[2] - jnp.sin(x.sum(axis=1, keepdims=True))) ** 2)

    def step(weights, x):
        slopes = jax.grad(lambda w: lax.pmean(loss_of(w, x), "x"))(weights)
        return [w - 0.01 * slope for w, slope in zip(weights, slopes)]

    train = spread_over_ranks(step, (P(), P("x")), P())
    tell("training", "a_step", lambda: train(weights, x))


collectives()
training()
