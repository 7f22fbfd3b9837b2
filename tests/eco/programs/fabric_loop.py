# SPDX-License-Identifier: Apache-2.0
"""Lightning Fabric: a loop of one's own, with DDP on CPUs."""

import torch
from lightning.fabric import Fabric

from victim import STEPS, may_die, tell

fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
fabric.launch()
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.05))
torch.manual_seed(fabric.global_rank)
for step in range(STEPS):
    may_die(step, fabric.global_rank)
    inputs = torch.randn(8, 8)
    loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    fabric.backward(loss)
    optimizer.step()
    tell(step, fabric.all_reduce(loss.detach(), reduce_op="mean"))
