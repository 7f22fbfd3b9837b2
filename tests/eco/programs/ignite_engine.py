# SPDX-License-Identifier: Apache-2.0
"""PyTorch-Ignite: idist.Parallel over gloo, the only backend for CPUs that it takes."""

import ignite.distributed as idist
import torch
from ignite.engine import Engine, Events

from victim import STEPS, may_die, tell


def train(rank):
    torch.manual_seed(0)
    model = idist.auto_model(torch.nn.Linear(8, 1))
    optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=0.05))
    torch.manual_seed(rank)

    def update(engine, batch):
        may_die(engine.state.iteration - 1, rank)
        inputs, wanted = batch
        optimizer.zero_grad()
        loss = (model(inputs) - wanted).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    trainer = Engine(update)

    @trainer.on(Events.ITERATION_COMPLETED)
    def report(engine):
        tell(engine.state.iteration - 1, idist.all_reduce(engine.state.output) / idist.get_world_size())

    inputs = torch.randn(8 * STEPS, 8)
    trainer.run([(part, part.sum(1, keepdim=True)) for part in inputs.split(8)], max_epochs=1)


with idist.Parallel(backend="gloo") as parallel:
    parallel.run(lambda rank: train(rank))
