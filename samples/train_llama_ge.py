#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the language model of train_llama.py with gradients that are averaged while backward runs, by a plan made of what
is measured.

    ./run torch && export PYTHONPATH=$PWD/build/release/python
    build/release/bin/cohort-run -n 2 -- build/torch/bin/python samples/train_llama_ge.py --curve loss.png
    torchrun --standalone --nproc-per-node 2 samples/train_llama_ge.py --config samples/ge_config.yaml
    mpirun -np 4 build/torch/bin/python samples/train_llama_ge.py --compare

--compare trains a second model on the same batches with DistributedDataParallel: losses are the same, bit for bit, where
nothing rounds; sums do not depend on buckets with COHORT_DETERMINISM=D3, which it sets. Pictures need matplotlib, and
--config PyYAML.
"""

import argparse
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

import cohort.torch
import train_llama
from ge_graph_optimizer import GEDistributedOptimizer, PerformanceMonitor


class LLaMATrainingPipeline:
    """A model and what trains it. model_config: the Shape of train_llama.py; dist_config: world_size and local_rank, those of
    the process group unless given; config, memory_config and further options are the optimizer's."""

    def __init__(self, model_config=None, dist_config=None, **options):
        self.dist_config = dist_config or {"world_size": dist.get_world_size(), "local_rank": local_rank()}
        self.model = self._build_llama_model(model_config or train_llama.Shape())
        self.optimizer = GEDistributedOptimizer(model=self.model, lr=3e-3, **options)
        self.step_count = 0

    def _build_llama_model(self, model_config):
        torch.manual_seed(0)
        return train_llama.Llama(model_config)

    def compute_loss(self, outputs, labels):
        return F.cross_entropy(outputs.float().flatten(0, 1), labels.flatten())

    def training_step(self, batch):
        """One step; its loss."""
        outputs = self.model(batch["input_ids"])
        loss = self.compute_loss(outputs, batch["labels"])
        self.optimizer.scale(loss).backward()  # averages gradients; scale() is for fp16
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step_count += 1
        return loss.item()

    def gradient_accumulation_step(self, batch, accumulation_steps):
        """One of so many whose gradients make a step: they are averaged over the ranks with the last one."""
        self.step_count += 1
        is_last = self.step_count % accumulation_steps == 0
        loss = self.compute_loss(self.model(batch["input_ids"]), batch["labels"])
        scaled_loss = loss / accumulation_steps
        if not is_last:
            with self.optimizer.no_sync():
                self.optimizer.scale(scaled_loss).backward()
            return loss.item()
        self.optimizer.scale(scaled_loss).backward()
        self.optimizer.synchronize_gradients()  # which backward has done
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()


class DistributedDataParallelPipeline:
    """The same with DistributedDataParallel, to compare."""

    def __init__(self, pipeline):
        self.compute_loss = pipeline.compute_loss
        self.model = DistributedDataParallel(pipeline._build_llama_model(train_llama.Shape()))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)

    def training_step(self, batch):
        self.optimizer.zero_grad()
        loss = self.compute_loss(self.model(batch["input_ids"]), batch["labels"])
        loss.backward()
        self.optimizer.step()
        return loss.item()


def local_rank():
    """Among the ranks of its host, where the launcher says that."""
    return int(os.environ.get("LOCAL_RANK", os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", dist.get_rank())))


def batches(text, steps, size, context):
    """Windows of text, other ones on each rank."""
    choose = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(steps):
        starts = torch.randint(len(text) - context, (size,), generator=choose)
        windows = torch.stack([text[start:start + context + 1] for start in starts.tolist()])
        yield {"input_ids": windows[:, :-1], "labels": windows[:, 1:]}


def mean_of_all(loss):
    mean = torch.tensor(loss, dtype=torch.float64) / dist.get_world_size()
    dist.all_reduce(mean)
    return mean.item()


def train(trainer, arguments, text):
    """The mean loss of all ranks at each step, and how often another pipeline's was the same."""
    other = DistributedDataParallelPipeline(trainer) if arguments.compare else None
    monitor, losses, same = PerformanceMonitor(trainer.optimizer), [], 0
    for epoch in range(arguments.epochs):
        for batch in batches(text, arguments.steps, arguments.batch, train_llama.Shape().context):
            accumulates = arguments.accumulate > 1
            loss = (trainer.gradient_accumulation_step(batch, arguments.accumulate) if accumulates
                    else trainer.training_step(batch))
            if other is not None:
                same += other.training_step(batch) == loss
            losses.append(mean_of_all(loss))
            if trainer.dist_config["local_rank"] == 0 and trainer.step_count % max(1, arguments.steps // 10) == 0:
                monitor.show()
        if trainer.dist_config["local_rank"] == 0:
            print(f"Epoch {epoch}, Loss: {losses[-1]:.4f}", flush=True)
    return losses, same, monitor


def main():
    parser = argparse.ArgumentParser(description="trains a small language model, on as many ranks as were started")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100, help="of an epoch")
    parser.add_argument("--batch", type=int, default=8, help="windows of text a step, on each rank")
    parser.add_argument("--strategy", help="one of the optimizer's; smart_overlap unless a --config says otherwise")
    parser.add_argument("--config", help="a YAML file, such as samples/ge_config.yaml")
    parser.add_argument("--accumulate", type=int, default=1, help="batches whose gradients make a step")
    parser.add_argument("--save-memory", action="store_true", help="computes activations again, and offloads what is left")
    parser.add_argument("--compare", action="store_true", help="trains with DistributedDataParallel, too")
    parser.add_argument("--curve", help="a PNG for the loss")
    parser.add_argument("--timeline", help="a PNG for the last steps")
    arguments = parser.parse_args()
    if arguments.compare:
        os.environ.setdefault("COHORT_DETERMINISM", "D3")
    torch.set_num_threads(1)
    cohort.torch.init_process_group()

    options = {} if arguments.config else {"allreduce_strategy": "smart_overlap", "bucket_size": 25}
    if arguments.strategy:
        options["allreduce_strategy"] = arguments.strategy
    if arguments.save_memory:
        options["memory_config"] = {"gradient_checkpointing": True, "activation_offloading": True, "buffer_size": "dynamic"}
    trainer = LLaMATrainingPipeline(config=arguments.config, **options)
    losses, same, monitor = train(trainer, arguments, train_llama.read_text())
    if dist.get_rank() == 0:
        print(trainer.optimizer.explain() + monitor.table())
        print(f"loss {losses[0]:.3f} at first, {losses[-1]:.3f} at last")
        if arguments.compare:
            print(f"{same} of {len(losses)} losses are those of DistributedDataParallel, bit for bit")
        if arguments.curve:
            train_llama.draw_curve(losses, arguments.curve)
        if arguments.timeline and not monitor.timeline_png(arguments.timeline):
            print(f"no {arguments.timeline}: pip install matplotlib", file=sys.stderr)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
