# SPDX-License-Identifier: Apache-2.0
"""On every rank of ./run bench torch: measures, and rank 0 writes a line of JSON for each figure.

    ranks.py [--quick] FILE [PART...]
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import cohort
import cohort.torch

KIB, MIB = 1024, 1024 * 1024


class Measurement:
    """Rounds of batches of calls, of each contender in turn; the median of the rounds, on the slowest rank."""

    def __init__(self, path, quick):
        self.path = path
        self.rounds = 5 if quick else 15
        self.batch_s = 0.02 if quick else 0.1

    def calls_for(self, call):
        """How many fill a batch: as many on all ranks."""
        call()
        began = time.perf_counter()
        for _ in range(3):
            call()
        once = torch.tensor([(time.perf_counter() - began) / 3])
        dist.all_reduce(once, op=dist.ReduceOp.MAX)
        return max(1, min(2000, int(self.batch_s / once.item())))

    def compare(self, what, contenders):
        """`contenders`: name -> a function that makes one call."""
        calls = {name: self.calls_for(call) for name, call in contenders.items()}
        took = {name: [] for name in contenders}
        for _ in range(self.rounds):
            for name, call in contenders.items():
                dist.barrier()
                began = time.perf_counter()
                for _ in range(calls[name]):
                    call()
                took[name].append((time.perf_counter() - began) / calls[name])
        self.tell(what, {name: statistics.median(times) for name, times in took.items()})

    def tell(self, what, seconds):
        slowest = torch.tensor(list(seconds.values()), dtype=torch.float64)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        if dist.get_rank() != 0:
            return
        row = {"ranks": dist.get_world_size(), "what": what, "us": dict(zip(seconds, (slowest * 1e6).tolist()))}
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def name_of(count):
    size = 4 * count
    return f"{size // MIB} MiB" if size >= MIB else f"{count} floats"


def reduce_scatter_on(group, name, whole, mine):
    """gloo has none: what its users call is all_reduce."""
    if name == "cohort":
        return lambda: dist.reduce_scatter_tensor(mine, whole, group=group)
    return lambda: dist.all_reduce(whole, group=group)


def reduce_scatter_of_list_on(group, name, parts, mine):
    """The same: of a list they make one tensor first."""
    if name == "cohort":
        return lambda: dist.reduce_scatter(mine, parts, group=group)
    return lambda: dist.all_reduce(torch.cat(parts), group=group)


def compare_collectives(measurement, groups, quick):
    size = dist.get_world_size()
    for count in [1024, 256 * KIB, 16 * MIB] if quick else [2, 1024, 16 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB]:
        whole = torch.zeros(count)
        measurement.compare(f"all_reduce {name_of(count)}", {
            name: lambda group=group: dist.all_reduce(whole, group=group) for name, group in groups.items()})
        if count < 1024:
            continue
        mine = torch.zeros(count // size)
        parts = list(torch.zeros(count).split(count // size))
        measurement.compare(f"all_gather {name_of(count)}", {
            name: lambda group=group: dist.all_gather(parts, mine, group=group) for name, group in groups.items()})
        apart = [torch.zeros(count // size) for _ in range(size)]
        measurement.compare(f"all_gather {name_of(count)}, list apart", {
            name: lambda group=group: dist.all_gather(apart, mine, group=group) for name, group in groups.items()})
        measurement.compare(f"reduce_scatter {name_of(count)}", {
            name: reduce_scatter_on(group, name, whole, mine) for name, group in groups.items()})
        measurement.compare(f"reduce_scatter {name_of(count)}, list apart", {
            name: reduce_scatter_of_list_on(group, name, apart, mine) for name, group in groups.items()})


def train(model, data, labels, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(batches):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(data), labels).backward()
        optimizer.step()


def answer_at_once(_, bucket):
    """A hook that communicates nothing: the gradients are this rank's own."""
    answer = torch.futures.Future()
    answer.set_result(bucket.buffer())
    return answer


class Training:
    """How a contender trains: with no group alone; hushed, with all that DistributedDataParallel does but communicate."""

    def __init__(self, group=None, views=False, mapped=False, hushed=False):
        self.group, self.views, self.mapped, self.hushed = group, views, mapped, hushed

    def memory(self):
        return cohort.torch.mapped_tensors(self.group) if self.mapped else contextlib.nullcontext()

    def make_model(self):
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
        if self.group is None:
            return layers
        with self.memory():
            model = DistributedDataParallel(layers, process_group=self.group, gradient_as_bucket_view=self.views)
        if self.hushed:
            model.register_comm_hook(None, answer_at_once)
        return model


def compare_training(measurement, groups, quick):
    """Batches of an epoch, shared out; without communication, too, which weighs the more the smaller they are. Each backend as
    DistributedDataParallel is by default and with gradients that are views of its buckets, which saves a copy whatever
    reduces them; "mapped" is cohort with views, in memory that peers map."""
    batches = 10 if quick else 20
    kinds = {name: Training(group) for name, group in groups.items()}
    kinds.update({f"{name} views": Training(group, views=True) for name, group in groups.items()})
    kinds["mapped"] = Training(groups["cohort"], views=True, mapped=True)
    kinds["hushed"] = Training(groups["gloo"], hushed=True)
    kinds["alone"] = Training()
    for images in (64, 20, 16, 12, 8, 4):
        data, labels = torch.rand(images, 784), torch.randint(10, (images,))
        models = {name: kind.make_model() for name, kind in kinds.items()}
        took = {name: [] for name in models}
        for _ in range(measurement.rounds + 1):
            for name, model in models.items():
                dist.barrier()
                began = time.perf_counter()
                with kinds[name].memory():
                    train(model, data, labels, batches)
                took[name].append(time.perf_counter() - began)
        measurement.tell(f"training: {batches} batches of {images} images",
                         {name: statistics.median(times[1:]) for name, times in took.items()})


async def gather_times(comm, data, calls):
    began = time.perf_counter()
    for _ in range(calls):
        await comm.aio.all_reduce(data, out=data)
    return (time.perf_counter() - began) / calls


def compare_python(measurement, groups, quick):
    """Blocking calls of the package on arrays, beside mpi4py where MPI has started the ranks."""
    comm = cohort.world() if cohort.is_initialized() else cohort.init()
    try:
        from mpi4py import MPI
    except ImportError:
        MPI = None
    for count in [2, 1024, MIB] if quick else [2, 256, 1024, 16 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB]:
        data = np.zeros(count, np.float32)
        contenders = {"cohort": lambda: comm.all_reduce(data, out=data),
                      "function": lambda: cohort.all_reduce(data, out=data)}
        if MPI is not None and MPI.COMM_WORLD.size == comm.size:
            contenders["mpi4py"] = lambda: MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, data)
        measurement.compare(f"package: all_reduce {name_of(count)}", contenders)
    data = np.zeros(2, np.float32)
    times = [asyncio.run(gather_times(comm, data, 500)) for _ in range(measurement.rounds)]
    measurement.tell("package: await all_reduce 2 floats", {"cohort": statistics.median(times)})


PARTS = {"collectives": compare_collectives, "training": compare_training, "python": compare_python}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all without")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cohort.torch.init_process_group("gloo")
    groups = {"gloo": dist.group.WORLD, "cohort": dist.new_group(backend="cohort")}
    measurement = Measurement(arguments.file, arguments.quick)
    for part in arguments.parts or PARTS:
        PARTS[part](measurement, groups, arguments.quick)
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
