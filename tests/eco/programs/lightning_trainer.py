# SPDX-License-Identifier: Apache-2.0
"""PyTorch Lightning: a Trainer with DDP on CPUs, which starts its other process itself."""

import os

import lightning
import torch

from victim import STEPS, may_die, tell


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, step):
        may_die(step, self.global_rank)
        inputs, wanted = batch
        loss = (self.layer(inputs) - wanted).square().mean()
        mean = self.all_gather(loss.detach()).mean()
        if self.global_rank == 0:
            tell(step, mean)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


lightning.seed_everything(0, verbose=False)
inputs = torch.randn(8 * STEPS, 8)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=4)
trainer = lightning.Trainer(accelerator="cpu", devices=int(os.environ.get("WORLD_SIZE", 2)), strategy="ddp", max_epochs=1,
                            logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Model(), loader)
