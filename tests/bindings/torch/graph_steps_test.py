# SPDX-License-Identifier: Apache-2.0
"""Buffers, gradients of 16 bits, and steps that do not wait give DistributedDataParallel's numbers."""

import os
import pathlib
import tempfile
import time
import unittest

import graph_test  # sets the environment of ranks
import forked  # noqa: I001
import graph_buffer_ranks
import graph_half_ranks
import graph_lazy_ranks
import graph_training
from cohort.graph import GEDistributedOptimizer

PARITY = graph_test.parts_of(graph_buffer_ranks, graph_half_ranks)
LAZY = graph_test.parts_of(graph_lazy_ranks)


def die_before_forward(rank, size, store, folder):
    """The last rank ends where the others have nothing to wait for yet: they are told in forward, and whenever they ask again."""
    graph_test.join(rank, size, store)
    model = graph_training.network()
    optimizer = GEDistributedOptimizer(model=model, optimizer=graph_training.sgd(model), replanning=graph_training.SOON,
                                       max_group_size=1, lazy_step=True)
    graph_training.train(model, optimizer, 8)
    batch = graph_training.batch(8)
    optimizer.complete()
    loss = model(batch).pow(2).mean()
    stepped = [pathlib.Path(folder, f"stepped-{other}") for other in range(size - 1)]
    if rank == size - 1:
        until = time.monotonic() + 60
        while not all(one.exists() for one in stepped) and time.monotonic() < until:
            time.sleep(0.01)
        os._exit(0)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    stepped[rank].touch()
    failures = []
    for ask in (lambda: model(batch), model.state_dict):
        try:
            ask()
        except RuntimeError as failure:
            failures.append(str(failure))
    if len(failures) == 2:
        with open(os.path.join(folder, f"rank-{rank}"), "w", encoding="utf-8") as file:
            file.write("\n".join(failures))
    os._exit(0)


class Steps(unittest.TestCase):
    def test_buffers_and_numbers_of_16_bits_on_two_ranks(self):
        forked.check_ranks(self, 2, graph_test.run, PARITY)

    def test_buffers_and_numbers_of_16_bits_on_four_ranks(self):
        forked.check_ranks(self, 4, graph_test.run, PARITY)

    def test_lazy_steps_on_two_ranks(self):
        forked.check_ranks(self, 2, graph_test.run, LAZY)

    def test_lazy_steps_on_four_ranks(self):
        forked.check_ranks(self, 4, graph_test.run, LAZY)

    def test_a_rank_that_dies_amid_a_lazy_step_is_named_in_forward(self):
        with tempfile.TemporaryDirectory() as folder:
            forked.check_ranks(self, 3, die_before_forward, folder)
            for rank in range(2):
                text = pathlib.Path(folder, f"rank-{rank}").read_text(encoding="utf-8")
                self.assertIn("rank 2", text)


if __name__ == "__main__":
    unittest.main()
