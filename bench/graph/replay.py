# SPDX-License-Identifier: Apache-2.0
"""Other rules' buckets on the executor of a planned optimizer: the same model, memory, hooks and way of reducing."""

import dataclasses
import statistics
import time
import types

import torch
import torch.distributed as dist

from cohort.graph import Replanning, rules_of_others

NEVER = Replanning(patience=10**6)  # plans are made once: the link does not change
SETTLED = 4 * 11 + 1  # steps until plans have been made, and made again
MIB = 1 << 20


def most(values):
    """Of each the most that a rank has. A collective."""
    shared = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(shared, dist.ReduceOp.MAX)
    return shared.tolist()


def buckets_of_size(items, limit_bytes):
    """(first, end) of buckets that close once they have as many bytes."""
    buckets, first, size = [], 0, 0
    for place, item in enumerate(items):
        size += item[2]
        if size >= limit_bytes:
            buckets.append((first, place + 1))
            first, size = place + 1, 0
    return [*buckets, (first, len(items))] if first < len(items) else buckets


class Replay:
    """A model with its optimizer, once that has settled."""

    def __init__(self, model, optimizer, loss_of):
        self.model, self.optimizer, self.loss_of = model, optimizer, loss_of
        self.reduction = optimizer.reduction
        self.planning = self.reduction.planning
        self.own = None  # the buckets of the plan, once it has settled

    def settle(self):
        for _ in range(SETTLED):
            self.step()
        self.hold()

    def hold(self):
        """The plan that there is stays."""
        self.planning.begin("settled")
        self.plan, self.cost = self.planning.plan, self.planning.cost
        self.own = [tuple(bucket[:2]) for bucket in self.plan.buckets]

    def others(self):
        """By name: the buckets of the rules that others have, for the gradients and costs of this plan."""
        items = [(name, ready, size) for name, ready, size, _ in self.plan.items]
        return {plan.rule: [tuple(bucket[:2]) for bucket in plan.buckets] for plan in rules_of_others(items, self.cost)}

    def take(self, buckets, is_pipelined=True):
        """From the next step on."""
        stand_in = types.SimpleNamespace(items=self.plan.items, buckets=buckets, hash=self.plan.hash)
        self.planning.insertion = types.SimpleNamespace(plan=stand_in)
        self.planning.options = dataclasses.replace(self.planning.options, enable_pipeline=is_pipelined)
        self.reduction._lay_out()

    def step(self):
        """Seconds that it took on this rank."""
        dist.barrier()
        began = time.perf_counter()
        self.train()
        return time.perf_counter() - began

    def train(self):
        self.loss_of(self.model).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)

    def run(self, count):
        """Of each step, the slowest rank's: milliseconds of the step, exposed ones, of communication, and when it was reduced."""
        times = [self.step() for _ in range(count)]
        steps = self.optimizer.steps[-count:]
        rows = [[1e3 * seconds, one.exposed_us / 1e3, one.communication_us / 1e3, one.end_us / 1e3]
                for seconds, one in zip(times, steps)]
        shared = torch.tensor(rows, dtype=torch.float64)
        dist.all_reduce(shared, dist.ReduceOp.MAX)
        return shared.tolist()


def medians(rows):
    """Of what run() gives, column by column."""
    return [statistics.median(column) for column in zip(*rows)]
