# SPDX-License-Identifier: Apache-2.0
"""Models, batches and training, once by DistributedDataParallel and once by a plan, for graph_ranks.py and
graph_option_ranks.py, on every rank."""

import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from cohort.graph import GEDistributedOptimizer, Replanning

# A plan after three steps, another one after six, and then none, however busy the machine is.
SOON = Replanning(skipped_steps=1, profile_steps=2, patience=10**6, compares_with_synchronous=False)


def layers(*widths):
    torch.manual_seed(3)
    made = []
    for into, out in zip(widths, widths[1:]):
        made += [nn.Linear(into, out), nn.ReLU()]
    return nn.Sequential(*made[:-1])


def batch(step, rank=None, width=8):
    return torch.rand(4, width, generator=torch.Generator().manual_seed(100 * step + (dist.get_rank() if rank is None else rank)))


def sgd(model):
    return torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)


def state_of(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


def same(one, other):
    for a, b in zip(one, other, strict=True):
        assert torch.equal(a, b), f"{(a - b).abs().max()} apart"


def same_on_all(tensors):
    for tensor in tensors:
        rows = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
        dist.all_gather(rows, tensor.contiguous())
        assert all(torch.equal(row, tensor) for row in rows), "ranks differ"


def train(model, optimizer, steps, first=0, loss_of=None):
    """Losses, bit for bit."""
    losses = []
    for step in range(first, first + steps):
        optimizer.zero_grad()
        loss = (loss_of or (lambda one, at: one(batch(at)).pow(2).mean()))(model, step)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def by_ddp(make, steps, loss_of=None, optimizer_of=sgd, **options):
    model = DistributedDataParallel(make(), **options)
    losses = train(model, optimizer_of(model), steps, loss_of=loss_of)
    return losses, state_of(model)


def by_plan(make, steps, loss_of=None, optimizer_of=sgd, **options):
    model = make()
    optimizer = GEDistributedOptimizer(model=model, optimizer=optimizer_of(model), **{"replanning": SOON, **options})
    losses = train(model, optimizer, steps, loss_of=loss_of)
    return losses, state_of(model), optimizer


def refused(kind, *words):
    @contextlib.contextmanager
    def check():
        try:
            yield
        except kind as failure:
            assert failure.code in str(failure) and failure.cause and failure.advice, failure
            assert all(word in str(failure) for word in words), failure
        else:
            raise AssertionError(f"nothing was raised: {words}")

    return check()


def network():
    return layers(8, 32, 32, 16, 4)
