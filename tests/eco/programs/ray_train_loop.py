# SPDX-License-Identifier: Apache-2.0
"""Ray Train's TorchTrainer with two workers; on CPUs it takes gloo."""

import os
import tempfile

import ray
import ray.train.torch
import torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


def loop(config):
    from victim import STEPS, may_die, tell

    torch.manual_seed(0)
    model = ray.train.torch.prepare_model(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(ray.train.get_context().get_world_rank())
    for step in range(STEPS):
        may_die(step)
        inputs = torch.randn(8, 8)
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach()
        torch.distributed.all_reduce(mean)
        tell(step, mean / 2)


variables = {name: os.environ[name] for name in ("COHORT_TORCH", "KILL_AT") if name in os.environ}
ray.init(runtime_env={"env_vars": variables})
with tempfile.TemporaryDirectory() as folder:
    TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=2), run_config=RunConfig(storage_path=folder)).fit()
