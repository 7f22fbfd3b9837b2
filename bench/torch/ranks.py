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


def name_of(size):
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB" if size >= KIB else f"{size} B"


def compare_collectives(measurement, groups, quick):
    """Of as many bytes as the larger buffer of a rank has."""
    size = dist.get_world_size()
    for length in [16, 64 * KIB, 16 * MIB] if quick else [16, 4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB]:
        whole, other = torch.zeros(length // 4), torch.zeros(length // 4)
        mine = torch.zeros(length // 4 // size)
        calls = {
            "all_reduce": lambda group: dist.all_reduce(whole, group=group),
            "all_gather": lambda group: dist.all_gather_single(whole, mine, group=group),
            "reduce_scatter": lambda group: dist.reduce_scatter_single(mine, whole, group=group),
            "broadcast": lambda group: dist.broadcast(whole, 0, group=group),
            "all_to_all": lambda group: dist.all_to_all_single(other, whole, group=group)}
        for what, call in calls.items():
            measurement.compare(f"{what} {name_of(length)}", {
                name: lambda call=call, group=group: call(group) for name, group in groups.items()})


def compare_lists(measurement, groups, quick):
    """Lists that lie apart."""
    size = dist.get_world_size()
    for length in [4 * KIB, MIB] if quick else [4 * KIB, MIB, 16 * MIB, 64 * MIB]:
        mine = torch.zeros(length // 4 // size)
        apart = [torch.zeros(length // 4 // size) for _ in range(size)]
        measurement.compare(f"all_gather {name_of(length)}, list apart", {
            name: lambda group=group: dist.all_gather(apart, mine, group=group) for name, group in groups.items()})
        measurement.compare(f"reduce_scatter {name_of(length)}, list apart", {
            name: lambda group=group: dist.reduce_scatter(mine, apart, group=group) for name, group in groups.items()})


def compare_floor(measurement, groups, quick):
    """What torch itself takes for a call: its backend that does nothing, beside a group of one rank."""
    from torch.testing._internal.distributed import fake_pg  # noqa: F401: registers it

    alone = {name: dist.new_group([dist.get_rank()], backend=name, use_local_synchronization=True)
             for name in ("fake", "cohort", "gloo")}
    data = torch.zeros(2)
    measurement.compare("all_reduce 8 B, 1 rank", {
        name: lambda group=group: dist.all_reduce(data, group=group) for name, group in alone.items()})
    made = [time.perf_counter()]
    for _ in range(20):
        dist.new_group(backend="cohort")
        made.append(time.perf_counter())
    for _ in range(20):
        dist.new_group(backend="gloo")
        made.append(time.perf_counter())
    steps = [after - before for before, after in zip(made, made[1:])]
    measurement.tell("new_group", {"gloo": statistics.median(steps[20:]), "cohort": statistics.median(steps[:20])})


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
    sys.path.append("/usr/lib/python3/dist-packages")  # Debian's mpi4py
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
        measurement.compare(f"package: all_reduce {name_of(4 * count)}", contenders)
    data = np.zeros(2, np.float32)
    times = [asyncio.run(gather_times(comm, data, 500)) for _ in range(measurement.rounds)]
    measurement.tell("package: await all_reduce 2 floats", {"cohort": statistics.median(times)})


PARTS = {"collectives": compare_collectives, "lists": compare_lists, "floor": compare_floor, "training": compare_training, "python": compare_python}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all without")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cohort.torch.init_process_group("cohort")
    groups = {"gloo": dist.new_group(backend="gloo"), "cohort": dist.group.WORLD}
    measurement = Measurement(arguments.file, arguments.quick)
    for part in arguments.parts or PARTS:
        PARTS[part](measurement, groups, arguments.quick)
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
