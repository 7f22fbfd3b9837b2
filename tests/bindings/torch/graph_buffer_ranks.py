# SPDX-License-Identifier: Apache-2.0
"""Buffers of models that the distributed optimizer of cohort.graph trains are DistributedDataParallel's, bit for bit, on every rank;
started by graph_steps_test.py."""

import contextlib

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from cohort.graph import GEDistributedOptimizer

from graph_training import SOON, batch, same, same_on_all, sgd, state_of, train

RANK = SIZE = 0


class Normed(nn.Module):
    """With buffers of several types: means and counts of BatchNorm, a flag, and one without elements."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4), nn.BatchNorm1d(4))
        self.register_buffer("seen", torch.zeros(3, dtype=torch.bool))
        self.register_buffer("empty", torch.zeros(0))
        self.register_buffer("last", torch.zeros(2, 8), persistent=False)

    def forward(self, x):
        if self.training:
            self.seen[int(10 * x[0, 0]) % 3] = True
            self.last = x[:2].detach().clone()  # another tensor in its place
        return self.layers(x)


def buffers_of(model):
    return [one.detach().clone() for one in model.buffers()]


def evaluate(model):
    model.eval()
    with torch.no_grad():
        out = model(batch(99, rank=0))
    model.train()
    return out


def both(run, **options):
    """What `run(model, optimizer)` gives, with DistributedDataParallel and with a plan; and buffers and parameters after it."""
    model = DistributedDataParallel(Normed())
    expected = [run(model, sgd(model)), evaluate(model), *buffers_of(model), *state_of(model)]
    model = Normed()
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), **{"replanning": SOON, **options})
    ours = [run(model, optimizer), *buffers_of(model)]
    same_on_all(ours[1:])  # before any other forward pass
    return expected, [ours[0], evaluate(model), *ours[1:], *state_of(model)]


def check(run, **options):
    expected, ours = both(run, **options)
    assert ours[0] == expected[0], (ours[0], expected[0])
    same(ours[1:], expected[1:])


def part_buffers_of_rank_0_are_sent():
    check(lambda model, optimizer: train(model, optimizer, 8))
    check(lambda model, optimizer: train(model, optimizer, 8), allreduce_strategy="hierarchical")


def part_buffers_are_sent_once_for_passes_that_add_up():
    def run(model, optimizer):
        losses = []
        for step in range(4):
            optimizer.zero_grad()
            for micro in range(4):
                holder = model if isinstance(model, DistributedDataParallel) else optimizer
                with holder.no_sync() if micro < 3 else contextlib.nullcontext():
                    loss = model(batch(4 * step + micro)).pow(2).mean() / 4
                    loss.backward()
                losses.append(loss.item())
            optimizer.step()
        return losses

    check(run)


def part_models_are_evaluated_amid_training():
    def run(model, optimizer):
        seen = []
        for step in range(6):
            seen += train(model, optimizer, 1, first=step)
            if step % 2:
                seen += evaluate(model).flatten().tolist()
        return seen

    check(run)


def part_one_rank_alone_may_evaluate():
    model = Normed()
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), replanning=SOON)
    for step in range(6):
        train(model, optimizer, 1, first=step)
        if RANK == 0:
            evaluate(model)
    same_on_all([*buffers_of(model), *state_of(model)])


def part_what_autograd_keeps_stays_good():
    """Two graphs at once: the second pass still needs what the first one has sent anew."""
    model = Normed()
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), replanning=SOON)
    losses = [model(batch(step)).pow(2).mean() for step in range(2)]
    for loss in losses:
        loss.backward()
    optimizer.step()
    same_on_all([*buffers_of(model), *state_of(model)])


def part_uneven_inputs_end_with_the_same_buffers():
    model = Normed()
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), replanning=SOON)
    counts = []
    with optimizer.join():
        for step in range(4 if RANK == 0 else 6):
            train(model, optimizer, 1, first=step)
            counts.append(int(model.layers[1].num_batches_tracked))
    assert counts == list(range(1, len(counts) + 1)), counts
    same_on_all([*buffers_of(model), *state_of(model)])
    assert int(model.layers[1].num_batches_tracked) == (6 if SIZE > 1 else 4)


def part_buffers_can_be_each_ranks_own():
    model = Normed()
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), replanning=SOON, broadcast_buffers=False)
    train(model, optimizer, 2)
    rows = [torch.empty_like(model.layers[1].running_mean) for _ in range(SIZE)]
    torch.distributed.all_gather(rows, model.layers[1].running_mean)
    assert SIZE == 1 or not torch.equal(rows[0], rows[-1])
    optimizer.synchronize_buffers()
    same_on_all(buffers_of(model))
    assert torch.equal(model.layers[1].running_mean, rows[0])
