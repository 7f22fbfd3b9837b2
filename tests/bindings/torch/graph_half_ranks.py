# SPDX-License-Identifier: Apache-2.0
"""Gradients of 16 bits are divided before they are added up: DistributedDataParallel's numbers, near the largest that there are, on
every rank; started by graph_steps_test.py."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

import cohort.graph.compile  # noqa: F401: registers the backend
from cohort.graph import Compression, GEDistributedOptimizer

from graph_training import SOON, same

RANK = SIZE = 0


class Scaled(nn.Module):
    """Gradients are what it is given: forward is a sum of products."""

    def __init__(self, kind):
        super().__init__()
        self.first, self.second = (nn.Parameter(torch.zeros(1000, dtype=kind)) for _ in range(2))

    def forward(self, x, y):
        return (self.first * x).float().sum() + (self.second * y).float().sum()


def values(step, kind):
    """All above half of what the type holds, so that no two can be added: for float32 half of what float16 does."""
    most = torch.finfo(torch.bfloat16 if kind == torch.bfloat16 else torch.float16).max
    chance = torch.Generator().manual_seed(10 * step + RANK)
    return [((0.6 + 0.4 * torch.rand(1000, generator=chance)) * most).to(kind) for _ in range(2)]


def gradients(model, parameters, steps, kind):
    """Of each step, as the optimizer would see them."""
    seen = []
    for step in range(steps):
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.zero_()
        model(*values(step, kind)).backward()
        seen += [parameter.grad.clone() for parameter in parameters]
    return seen


def by_ddp(kind, steps, hook=None):
    model = DistributedDataParallel(Scaled(kind))
    if hook is not None:
        def called(state, bucket):  # by another name: that for bfloat16 is refused in CPU memory, where it works
            return hook(state, bucket)

        model.register_comm_hook(None, called)
    return gradients(model, list(model.parameters()), steps, kind)


def by_plan(kind, steps, **options):
    model = Scaled(kind)
    GEDistributedOptimizer(model=model, optimizer=torch.optim.SGD(model.parameters(), 0.0), replanning=SOON, **options)
    return gradients(model, list(model.parameters()), steps, kind)


def part_sums_of_16_bits_do_not_overflow():
    for kind in (torch.float16, torch.bfloat16):
        expected = by_ddp(kind, 5)
        assert all(one.isfinite().all() for one in expected)
        for strategy in ("synchronous", "smart_overlap"):
            same(by_plan(kind, 5, allreduce_strategy=strategy), expected)
        for form in ("shares", "leader"):  # which may add up in another order
            for one, other in zip(by_plan(kind, 5, allreduce_strategy="hierarchical", form=form), expected):
                torch.testing.assert_close(one, other, rtol=2 * torch.finfo(kind).eps, atol=0)


def part_nor_do_those_that_travel_in_16_bits():
    for name, hook in (("fp16", default_hooks.fp16_compress_hook), ("bf16", default_hooks.bf16_compress_hook)):
        expected = by_ddp(torch.float32, 5, hook)
        how = Compression(kind=name, always=True, error_feedback=False)
        ours = by_plan(torch.float32, 5, enable_compression=how)
        assert all(one.isfinite().all() for one in expected)
        same(ours[-2:], expected[-2:])  # the first ones are what plans are made of, and are not compressed


def part_nor_do_they_over_another_backend():
    group = dist.new_group(backend="gloo")
    for kind in (torch.float16, torch.bfloat16):
        model = DistributedDataParallel(Scaled(kind), process_group=group)
        expected = gradients(model, list(model.parameters()), 3, kind)
        for one, other in zip(by_plan(kind, 3, process_group=group), expected):
            torch.testing.assert_close(one, other, rtol=2 * torch.finfo(kind).eps, atol=0)


def part_nor_do_they_in_compiled_graphs():
    for kind in (torch.float16, torch.bfloat16):
        expected = by_ddp(kind, 3)
        torch.compiler.reset()
        model = Scaled(kind)
        step = torch.compile(model, backend="cohort", options={"executor": "interpreter"})
        same(gradients(step, list(model.parameters()), 3, kind), expected)
