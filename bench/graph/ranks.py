# SPDX-License-Identifier: Apache-2.0
"""Steps of training, program by program in rounds that alternate, on every rank; started by __main__.py."""

import argparse
import json
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

import cohort.torch
import train_llama
from cohort.graph import GEDistributedOptimizer, Replanning, lower_bound_us
from cohort.graph.options import STRATEGIES

SETTLED = 3 * 11  # steps until plans have been made, and made again


class Program:
    """Trains a model of its own on the same batches as the others."""

    def __init__(self, name, shape, batch, wrap=None, strategy=None):
        torch.manual_seed(0)
        self.name, self.shape, self.batch = name, shape, batch
        model = train_llama.Llama(shape)
        self.model = wrap(model) if wrap else model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        self.planned = None
        if strategy is not None:
            rule = Replanning(patience=10**6)  # plans of one link, which does not change
            self.optimizer = self.planned = GEDistributedOptimizer(model=model, optimizer=self.optimizer, replanning=rule,
                                                                   allreduce_strategy=strategy)
        self.choose = torch.Generator().manual_seed(dist.get_rank())
        self.times = []

    def step(self):
        tokens = torch.randint(256, (self.batch, self.shape.context + 1), generator=self.choose)
        dist.barrier()
        began = time.perf_counter()
        loss = F.cross_entropy(self.model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        return time.perf_counter() - began

    def run(self, steps):
        """Times of the slowest rank."""
        times = torch.tensor([self.step() for _ in range(steps)])
        dist.all_reduce(times, dist.ReduceOp.MAX)
        self.times += times.tolist()

    def row(self):
        row = {"program": self.name, "step_ms": 1e3 * statistics.median(self.times)}
        if self.planned is not None:
            steps, planning = self.planned.steps[-len(self.times):], self.planned.reduction.planning
            backward_us = planning.plan.items[-1][1]
            figures = [statistics.median(step.communication_us for step in steps), statistics.median(step.exposed_us for step in steps)]
            shared = torch.tensor(figures)
            dist.all_reduce(shared, dist.ReduceOp.MAX)
            row.update(communication_ms=shared[0].item() / 1e3, exposed_ms=shared[1].item() / 1e3,
                       bound_ms=max(0.0, lower_bound_us(planning.plan, planning.cost) - backward_us) / 1e3,
                       predicted_ms=planning.plan.exposed_us / 1e3)
        return row


def main():
    parser = argparse.ArgumentParser()
    for name in ("rounds", "steps", "dim", "layers", "batch"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("rows")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cohort.torch.init_process_group()
    gloo = dist.new_group(backend="gloo")
    shape = train_llama.Shape(dim=arguments.dim, layers=arguments.layers, hidden=3 * arguments.dim)
    programs = [
        Program("alone, no communication", shape, arguments.batch),
        Program("DistributedDataParallel, gloo", shape, arguments.batch,
                lambda model: DistributedDataParallel(model, process_group=gloo, gradient_as_bucket_view=True)),
        Program("DistributedDataParallel, cohort", shape, arguments.batch,
                lambda model: DistributedDataParallel(model, gradient_as_bucket_view=True)),
        *(Program(f"cohort.graph, {strategy}", shape, arguments.batch, strategy=strategy) for strategy in STRATEGIES),
    ]
    for program in programs:
        program.run(SETTLED if program.planned is not None else 3)
        program.times.clear()
    for _ in range(arguments.rounds):
        for program in programs:
            program.run(arguments.steps)
    rows = [program.row() for program in programs]
    if dist.get_rank() == 0:
        with open(arguments.rows, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
