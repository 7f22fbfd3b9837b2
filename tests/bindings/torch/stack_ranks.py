# SPDX-License-Identifier: Apache-2.0
"""What of torch stands on a backend, on every rank: each part gives numbers, which are gloo's; started by stack_test.py."""

import copy
import os
import tempfile

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.checkpoint as checkpoint
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

RANK = SIZE = 0


def layers(*widths):
    torch.manual_seed(3)
    made = []
    for into, out in zip(widths, widths[1:]):
        made += [nn.Linear(into, out), nn.ReLU()]
    return nn.Sequential(*made[:-1])


def batch(step=0, width=8):
    return torch.rand(4, width, generator=torch.Generator().manual_seed(100 * step + RANK))


def whole(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def state_of(model):
    return [whole(parameter.detach()).clone() for parameter in model.parameters()]


def train(model, steps=3, optimizer=None):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.1)
    for step in range(steps):
        optimizer.zero_grad()
        model(batch(step)).pow(2).mean().backward()
        optimizer.step()
    return state_of(model)


class WithUnused(nn.Module):
    """Ranks use other layers in each step."""

    def __init__(self):
        super().__init__()
        self.first, self.even, self.odd = layers(8, 8), layers(8, 4), layers(8, 4)
        self.step = 0

    def forward(self, data):
        self.step += 1
        return (self.even if (self.step + RANK) % 2 else self.odd)(self.first(data))


def part_ddp():
    plain = train(DistributedDataParallel(layers(8, 64, 64, 4)))
    buckets = train(DistributedDataParallel(layers(8, 64, 64, 4), bucket_cap_mb=0.001, gradient_as_bucket_view=True))
    static = train(DistributedDataParallel(layers(8, 64, 4), static_graph=True))
    unused = train(DistributedDataParallel(WithUnused(), find_unused_parameters=True))
    return plain + buckets + static + unused


def part_ddp_hooks():
    results = []
    for hook in (default_hooks.allreduce_hook, default_hooks.fp16_compress_hook):
        model = DistributedDataParallel(layers(8, 64, 4))
        model.register_comm_hook(None, hook)
        results += train(model)
    return results


def part_ddp_power_sgd():
    """Its hook's callbacks wait for further futures. One bucket: what a callback calls has no order among buckets."""
    model = DistributedDataParallel(layers(8, 64, 64, 64, 4), bucket_cap_mb=100)
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=1)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return train(model, steps=40)


def part_ddp_of_uneven_inputs():
    model = DistributedDataParallel(layers(8, 16, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with model.join():
        for step in range(RANK + 1):
            optimizer.zero_grad()
            model(batch(step)).sum().backward()
            optimizer.step()
    return state_of(model)


def part_callbacks_that_wait():
    """For what they call, several deep, and for what was called before them."""
    def then_reduce(future):
        return dist.all_reduce(future.value()[0] * 1, async_op=True).get_future().wait()

    future = dist.all_reduce(torch.ones(3), async_op=True).get_future()
    for _ in range(5):
        future = future.then(then_reduce)
    deep = future.wait()[0]
    works = [dist.all_reduce(torch.full((2,), float(index)), async_op=True) for index in range(4)]
    futures = [work.get_future() for work in works]
    waits = futures[0].then(lambda _: sum(other.wait()[0] for other in futures[1:]))
    return [deep, waits.wait()]


def part_zero():
    model = DistributedDataParallel(layers(8, 16, 4))
    return train(model, optimizer=ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01))


def part_zero_of_uneven_inputs():
    model = DistributedDataParallel(layers(8, 16, 4))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    with Join([model, optimizer]):
        for step in range(RANK + 1):
            optimizer.zero_grad()
            model(batch(step)).sum().backward()
            optimizer.step()
    return state_of(model)


def sharded(mesh, policy=MixedPrecisionPolicy(), reshard=True):
    model = layers(8, 64, 64, 4)
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    if dist.get_backend() == "cohort":
        for module in [model, *(layer for layer in model if isinstance(layer, nn.Linear))]:
            module.set_allocate_memory_from_process_group_for_comm(True)
    return model


def part_fsdp():
    mesh = init_device_mesh("cpu", (SIZE,))
    results = []
    for reshard in (True, False):
        results += train(sharded(mesh, reshard=reshard))
        results += train(sharded(mesh, MixedPrecisionPolicy(torch.bfloat16, torch.float32), reshard))
    return results


def part_hsdp():
    return train(sharded(init_device_mesh("cpu", (2, SIZE // 2), mesh_dim_names=("copies", "shards"))))


def part_dtensor():
    mesh = init_device_mesh("cpu", (SIZE,))
    table = torch.arange(16.0 * SIZE).view(4 * SIZE, 4)
    shards = distribute_tensor(table, mesh, [Shard(0)])
    other = shards.redistribute(mesh, [Shard(1)]) if SIZE == 4 or SIZE == 2 else shards
    partial = DTensor.from_local(torch.full((SIZE, 2), float(RANK)), mesh, [Partial()])
    return [shards.to_local(), other.to_local(), shards.full_tensor(), (shards @ shards.redistribute(mesh, [Replicate()]).t()).full_tensor(),
            partial.redistribute(mesh, [Shard(0)]).to_local(), partial.full_tensor()]


def part_tensor_parallel():
    mesh = init_device_mesh("cpu", (SIZE,))
    model = parallelize_module(layers(8, 32, 8), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    data = torch.rand(4, 8, generator=torch.Generator().manual_seed(5))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(data).pow(2).mean()
        loss.backward()
        optimizer.step()
    return [loss.detach(), *state_of(model)]


def part_mesh_of_two_by_two():
    """Data parallel over tensor parallel."""
    if SIZE != 4:
        return []
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    model = parallelize_module(layers(8, 32, 8), mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=mesh["data"])
    data = torch.rand(4, 8, generator=torch.Generator().manual_seed(mesh["data"].get_local_rank()))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(data).pow(2).mean().backward()
        optimizer.step()
    return [parameter.detach().full_tensor() for parameter in model.parameters()]


def pipelined(kind, stages):
    """Stages of this rank, trained for two steps."""
    torch.manual_seed(RANK)
    numbers = [RANK + SIZE * index for index in range(stages)]
    modules = [layers(8, 8, 8) for _ in numbers]
    for number, module in zip(numbers, modules):
        for parameter in module.parameters():
            parameter.data += 0.01 * number
    made = [PipelineStage(module, number, SIZE * stages, torch.device("cpu")) for number, module in zip(numbers, modules)]
    schedule = kind(made if stages > 1 else made[0], 2 * SIZE, loss_fn=nn.functional.mse_loss)
    data = torch.rand(4 * SIZE, 8, generator=torch.Generator().manual_seed(7))
    optimizer = torch.optim.SGD([parameter for module in modules for parameter in module.parameters()], 0.1)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        if RANK == 0:
            schedule.step(data)
        elif RANK == SIZE - 1:
            schedule.step(target=data, losses=losses)
        else:
            schedule.step()
        optimizer.step()
    return [tensor for module in modules for tensor in state_of(module)] + [loss.detach() for loss in losses]


def part_pipelines():
    return pipelined(ScheduleGPipe, 1) + pipelined(Schedule1F1B, 1) + pipelined(ScheduleInterleaved1F1B, 2)


def collect(data):
    group = dist.group.WORLD
    summed = functional.all_reduce(torch.sin(data), "sum", group) + 1
    gathered = functional.all_gather_single(summed, 0, group)
    scattered = functional.reduce_scatter_single(torch.cos(gathered), "avg", 0, group)
    moved = functional.all_to_all_single(scattered, None, None, group)
    return functional.broadcast(moved, 0, group) * 2


def finished(tensor):
    return tensor.wait() if hasattr(tensor, "wait") else tensor


def part_functional():
    data = torch.linspace(0, 1, 8 * SIZE) * (RANK + 1)
    return [finished(collect(data)), *map(finished, functional.all_reduce_coalesced([data, data * 2], "sum", dist.group.WORLD)),
            *map(finished, functional.all_gather_into_tensor_coalesced([data, data[:3].clone()], dist.group.WORLD)),
            *map(finished, functional.reduce_scatter_tensor_coalesced([data, data * 3], "sum", [0, 0], dist.group.WORLD))]


def part_compiled():
    data = torch.linspace(0, 1, 8 * SIZE) * (RANK + 1)
    eager = torch.compile(collect, backend="aot_eager", fullgraph=True)(data)
    model = DistributedDataParallel(layers(8, 16, 4))
    return [finished(eager), *train(torch.compile(model, backend="aot_eager"))]


def part_compiled_by_inductor():
    data = torch.linspace(0, 1, 8 * SIZE) * (RANK + 1)
    return [finished(torch.compile(collect, fullgraph=True)(data))]


def shared_folder():
    place = [tempfile.mkdtemp() if RANK == 0 else None]
    dist.broadcast_object_list(place)
    return place[0]


def part_checkpoints():
    mesh = init_device_mesh("cpu", (SIZE,))
    model = sharded(mesh)
    expected = train(model)
    folder = shared_folder()
    checkpoint.save({"model": get_model_state_dict(model)}, checkpoint_id=os.path.join(folder, "first"))
    checkpoint.async_save({"model": get_model_state_dict(model)}, checkpoint_id=os.path.join(folder, "second"),
                          process_group=dist.new_group(backend="gloo")).result()
    results = []
    for name in ("first", "second"):
        fresh = sharded(mesh)
        state = {"model": get_model_state_dict(fresh)}
        checkpoint.load(state, checkpoint_id=os.path.join(folder, name))
        results += state_of(fresh)
    assert all(torch.equal(*pair) for pair in zip(results, expected * 2))
    return results


def part_objects():
    gathered = [None] * SIZE
    dist.all_gather_object(gathered, {"rank": RANK})
    shares = [None]
    dist.scatter_object_list(shares, [f"{rank}" for rank in range(SIZE)] if RANK == 0 else None)
    if RANK < 2:
        objects = [copy.copy(gathered)] if RANK == 0 else [None]
        dist.send_object_list(objects, 1) if RANK == 0 else dist.recv_object_list(objects, 0)
        assert objects == [gathered]
    return [torch.tensor([value["rank"] for value in gathered] + [int(shares[0])])]
