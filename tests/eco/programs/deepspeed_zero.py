# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed with ZeRO, of the stage that is given, in bfloat16."""

import os
import sys

os.environ["DS_ACCELERATOR"] = "cpu"

import deepspeed
import torch

from victim import STEPS, may_die, tell

deepspeed.init_distributed(dist_backend="gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
    "train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": True}, "zero_optimization": {"stage": int(sys.argv[1])},
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "torch_adam": True}}})
torch.manual_seed(engine.global_rank)
for step in range(STEPS):
    may_die(step)
    inputs = torch.randn(4, 8, dtype=torch.bfloat16)
    loss = (engine(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    engine.backward(loss)
    engine.step()
    mean = loss.detach().float()
    torch.distributed.all_reduce(mean)
    tell(step, mean / engine.world_size)
torch.distributed.destroy_process_group()
