# SPDX-License-Identifier: Apache-2.0
"""Hugging Face Accelerate: the loop of its documentation, on random data."""

import torch
from accelerate import Accelerator

from victim import STEPS, may_die, tell

torch.manual_seed(0)
accelerator = Accelerator(cpu=True)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
inputs = torch.randn(8 * STEPS, 8)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=4)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for step, (batch, wanted) in enumerate(loader):
    may_die(step)
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(batch), wanted)
    accelerator.backward(loss)
    optimizer.step()
    tell(step, accelerator.gather_for_metrics(loss.detach().reshape(1)).mean())
accelerator.end_training()
