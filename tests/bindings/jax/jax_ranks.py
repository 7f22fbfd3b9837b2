# SPDX-License-Identifier: Apache-2.0
"""What each rank of jax_test.py does: jax_ranks.py CASE, under `cohort run`, or with --gloo RANK SIZE PORT without cohort."""

import argparse
import os
import sys

from jax_world import join, map_over, spread

parser = argparse.ArgumentParser()
parser.add_argument("case")
arguments, mesh = join(parser)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

rank, size = jax.process_index(), jax.process_count()


def per_device(function, whole, out=P("x")):
    """The function on each device's rows; what this rank's devices have of the result, by the first row."""
    result = map_over(mesh, function, P("x"), out)(spread(mesh, whole))
    return [(shard.index[0].start or 0, np.asarray(shard.data)) for shard in result.addressable_shards]


def check(name, parts, expected):
    assert parts, f"{name}: this rank has nothing of it"
    for first, part in parts:
        np.testing.assert_allclose(part, expected[first:first + part.shape[0]], rtol=1e-5, err_msg=name)


def collectives():
    """Random data, and what numpy makes of all of it."""
    devices = len(jax.devices())
    for rows, columns, kind in ((1, 3, np.float32), (devices, 1000, np.float64), (2 * devices, 65536, np.float32)):
        whole = np.random.default_rng(7).standard_normal((devices * rows, columns)).astype(kind)
        with jax.enable_x64(kind is np.float64):
            blocks = whole.reshape(devices, rows, columns)
            check("psum", per_device(lambda v: lax.psum(v, "x"), whole, P()), blocks.sum(axis=0))
            check("pmax", per_device(lambda v: lax.pmax(v, "x"), whole, P()), blocks.max(axis=0))
            gathered = per_device(lambda v: lax.all_gather(v, "x", tiled=True), whole)
            check("all_gather", gathered, np.tile(whole, (devices, 1)))
            around = [(i, (i + 1) % devices) for i in range(devices)]
            check("ppermute", per_device(lambda v: lax.ppermute(v, "x", around), whole),
                  np.roll(blocks, 1, axis=0).reshape(whole.shape))
            if rows % devices == 0:
                check("psum_scatter", per_device(lambda v: lax.psum_scatter(v, "x", tiled=True), whole), blocks.sum(axis=0))
                turned = blocks.reshape(devices, devices, -1, columns).swapaxes(0, 1).reshape(whole.shape)
                check("all_to_all", per_device(lambda v: lax.all_to_all(v, "x", 0, 0, tiled=True), whole), turned)
    print(f"rank {rank} of {size}: {devices} devices agree with numpy", flush=True)


def training():
    """A small network on a batch that is spread over the ranks: the losses of twenty steps."""
    random = np.random.default_rng(3)
    inputs = random.standard_normal((8 * size, 16)).astype(np.float32)
    targets = np.sin(inputs.sum(axis=1, keepdims=True)).astype(np.float32)
    weights = [random.standard_normal(shape).astype(np.float32) * 0.3 for shape in ((16, 32), (32, 1))]

    def loss_of(weights, x, y):
        return jnp.mean((jnp.tanh(x @ weights[0]) @ weights[1] - y) ** 2)

    def step(weights, x, y):
        loss, slopes = jax.value_and_grad(lambda w: lax.pmean(loss_of(w, x, y), "x"))(weights)
        return [w - 0.1 * slope for w, slope in zip(weights, slopes)], loss

    train = map_over(mesh, step, (P(), P("x"), P("x")), (P(), P()))
    x, y = spread(mesh, inputs), spread(mesh, targets)
    losses = []
    for _ in range(20):
        weights, loss = train(weights, x, y)
        losses.append(float(loss))
    assert losses[-1] < losses[0]
    if rank == 0:
        print("losses", *(f"{loss:.6f}" for loss in losses), flush=True)


def killed():
    """Rank 1 ends amid the job; the others say whose fault it is."""
    whole = np.ones((len(jax.devices()), 4), np.float32)
    per_device(lambda v: lax.psum(v, "x"), whole, P())
    if rank == 1:
        os.kill(os.getpid(), 9)
    per_device(lambda v: lax.psum(v, "x"), whole, P())


def disagreeing():
    """Ranks whose arrays have other sizes: each has a mesh of its own idea."""
    columns = 4 + rank
    whole = np.ones((len(jax.devices()), columns), np.float32)
    per_device(lambda v: lax.psum(v, "x"), whole, P())


try:
    {"collectives": collectives, "training": training, "killed": killed, "disagreeing": disagreeing}[arguments.case]()
except Exception as error:  # what jax makes of it is what a user sees
    print(f"rank {rank} ends: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    # Without waiting for ranks that are gone, as jax does at the end.
    os._exit(1)
