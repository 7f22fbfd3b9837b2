# SPDX-License-Identifier: Apache-2.0
"""What each option of the distributed optimizer of cohort.graph does, on every rank; started by graph_test.py."""

import dataclasses
import importlib.util
import io
import os
import pathlib
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from cohort.graph import (DistGraphBuildError, GEDistributedOptimizer, LinearCost, MemoryOverflowError, PerformanceMonitor,
                          Replanning)
from cohort.graph.memory import GradientMemory, Slot
from cohort.graph.observed import cost_beside, points_of
from cohort.graph.planning import Tried

from graph_training import SOON, batch, by_ddp, by_plan, layers, network, refused, same, same_on_all, sgd, state_of, train

RANK = SIZE = 0


def part_overlap_that_does_not_pay_is_given_up():
    """By times that are given: which way was over sooner here says nothing."""
    expected = by_ddp(network, 12)[1]
    model = network()
    rule = Replanning(skipped_steps=1, profile_steps=2, patience=10**6)
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), replanning=rule, max_group_size=1)
    planning = optimizer.reduction.planning
    train(model, optimizer, 3)  # which ends the profile
    planning.after_backward_us = 0.0
    train(model, optimizer, 7, first=3)
    assert planning.stage == "settled" and not planning.is_pipelined and planning.expected_us == 0.0
    assert "where all are after it, which is taken" in optimizer.explain()
    train(model, optimizer, 2, first=10)
    same(state_of(model), expected)
    optimizer.reduction.planning.overlaps = True
    planning.after_backward_us = 1e12
    assert not planning.settle_for_less_overlap(1e9) and planning.is_pipelined


def part_costs_beside_backward_are_learnt():
    """From when buckets were averaged, of which each begins where the one before it ends or its last gradient is there."""
    alone = LinearCost(100.0, 40.0, 0.001)
    sizes, ready = [1000, 50_000, 200_000, 8000], [0.0, 10.0, 2000.0, 2001.0]
    beside = LinearCost(560.0, 500.0, 0.002)
    ends = []
    for size, moment in zip(sizes, ready):
        begins = [moment + beside.idle_us, *(end + beside.queued_us for end in ends[-1:])]
        ends.append(max(begins) + beside.byte_us * size)
    learnt = cost_beside(alone, points_of(sizes, ready, ends, alone))
    for one, other in ((learnt.idle_us, 560.0), (learnt.queued_us, 500.0), (learnt.byte_us, 0.002)):
        assert abs(one - other) < 1e-6 * other, learnt
    assert len(points_of(sizes, ready, [ends[0], -1.0, *ends[2:]], alone)) == 3
    fast = cost_beside(alone, [(1000, 1.0), (100_000, 2.0)])
    assert (fast.idle_us, fast.queued_us, fast.byte_us) == (100.0, 40.0, 0.001)
    equal = cost_beside(alone, [(1000, 300.0), (1000, 500.0)])
    assert abs(equal.queued_us - 399.0) < 1e-9 and equal.byte_us == 0.001
    steep = cost_beside(alone, [(1000, 20.0), (100_000, 640.0)])
    assert steep.queued_us == 40.0 and abs(steep.byte_us - 0.006) < 1e-4
    assert cost_beside(alone, []) is alone


def part_the_plan_whose_steps_ended_first_is_taken():
    """By times that are given."""
    model = network()
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), replanning=SOON)
    train(model, optimizer, 30)
    planning = optimizer.reduction.planning
    planning.after_backward_us = 1e12
    planning.insertion = whole = planning._insert("synchronous")
    planning.bucket_bytes = 1
    single = planning._insert("compute_communication_overlap")
    ready = [1000.0] * len(single.plan.items)
    costs = [LinearCost(float(start), 0.0, 0.001) for start in range(3)]
    known = single.plan.evaluated(ready, costs[1])
    assert known.hash == single.plan.hash and known.finish_us > 1000.0 and known.items[0][1] == 1000.0
    planning.tried = [Tried(5e6, whole, whole.plan, costs[0]), Tried(3e6, single, known, costs[1]), Tried(9e6, whole, whole.plan, costs[2])]
    assert planning._settle() and planning.stage == "settled"
    assert planning.insertion is single and planning.cost is costs[1] and planning.expected_us == 3e6
    assert planning.plan.finish_us == known.finish_us
    planning.tried = [Tried(9e6, whole, whole.plan, costs[0]), Tried(3e6, single, known, costs[1])]
    assert not planning._settle() and planning.plan.hash == single.plan.hash
    try:
        single.plan.evaluated([1.0], costs[0])
    except ValueError as failure:
        assert f"1 ready times for a plan of {len(ready)} items" in str(failure), failure
    else:
        raise AssertionError("one ready time for all items was taken")


def part_compression_is_decided_by_cost():
    """By what a bucket costs either way, alike on all ranks: what was measured here may say either."""
    _, state, optimizer = by_plan(network, 8, enable_compression=True)
    same_on_all(state)
    decided = [None] * SIZE
    dist.all_gather_object(decided, [bucket.compresses for bucket in optimizer.reduction.memory.buckets])
    assert decided[1:] == decided[:-1], decided
    way = optimizer.reduction.way
    for byte_us, pays in ((0.0, False), (1e6, True)):  # bytes that cost nothing, and such that cost a second each
        decision, text = way.decide(LinearCost(idle_us=1.0, byte_us=byte_us), 1000)
        assert decision == pays and text.count("us") >= 2, text


def part_types_are_mixed():
    def mixed():
        model = layers(8, 16, 16, 16, 4)
        model[2].to(torch.float64)
        model[4].to(torch.bfloat16)
        return model

    def forward(model, step):
        model = model.module if isinstance(model, DistributedDataParallel) else model
        x = batch(step)
        for layer in model:
            x = layer(x.to(next(layer.parameters()).dtype) if isinstance(layer, nn.Linear) else x)
        return x.float().pow(2).mean()

    reference = mixed()
    plain = sgd(reference)
    _, ours, optimizer = by_plan(mixed, 8, forward)
    assert len(optimizer.reduction.memory.flats) == 3
    for step in range(8):
        plain.zero_grad()
        forward(reference, step).backward()
        for parameter in reference.parameters():
            dist.all_reduce(parameter.grad, dist.ReduceOp.AVG)
        plain.step()
    same(ours, state_of(reference))


def part_limits_shape_the_plan():
    def buckets(**options):
        return by_plan(network, 8, **options)[2].reduction.memory.buckets

    widths = [parameter.numel() * 4 for parameter in network().parameters()]
    assert len(buckets(allreduce_strategy="synchronous")) == 1
    assert len(buckets(allreduce_strategy="compute_communication_overlap")) == len(widths)
    assert all(len(bucket.slots) <= 2 for bucket in buckets(max_group_size=2))
    assert len(buckets(allreduce_strategy="compute_communication_overlap", min_tensor_size="1MB")) == 1
    small = buckets(allreduce_strategy="compute_communication_overlap", bucket_size=1024 / 2**20)
    assert all(sum(part.numel() for part in bucket.ranges) <= 256 + 8 + 4 or len(bucket.slots) == 1 for bucket in small)
    pieces = buckets(split_size=1024, max_group_size=1)
    assert len(pieces) > len(widths)
    losses, _ = by_ddp(network, 8)
    assert by_plan(network, 8, split_size=1000, max_group_size=1)[0] == losses


def part_pipelines_can_be_switched_off():
    for pipelined in (True, False):
        _, _, optimizer = by_plan(lambda: layers(8, 256, 256, 256, 4), 12, enable_pipeline=pipelined, max_group_size=1)
        early = [one.started_us < step.backward_end_us for step in optimizer.steps[-3:] for one in step.buckets[:2]]
        assert all(early) if pipelined else not any(early), (pipelined, optimizer.steps[-1])


def part_memory_that_is_not_reused_is_copied():
    losses, _ = by_ddp(network, 8)
    ours, _, optimizer = by_plan(network, 8, enable_memory_reuse=False)
    assert ours == losses
    assert optimizer.reduction.memory.copied_bytes > 8 * sum(p.numel() for p in network().parameters())
    model = network()  # views that the program takes away are put back, and counted
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), replanning=SOON)
    ours = []
    for step in range(8):
        model.zero_grad(set_to_none=True)
        loss = model(batch(step)).pow(2).mean()
        loss.backward()
        optimizer.step()
        ours.append(loss.item())
    assert ours == losses and optimizer.reduction.memory.copied_bytes > 0


def shares_memory(address):
    """Whether that address is in memory that others map, too."""
    for line in pathlib.Path("/proc/self/maps").read_text(encoding="ascii").splitlines():
        begin, _, end = line.split()[0].partition("-")
        if int(begin, 16) <= address < int(end, 16):
            return line.split()[1].endswith("s")
    raise AssertionError(f"nothing is mapped at {address:x}")


def part_gradients_lie_where_ranks_map_them_and_nowhere_else():
    _, _, optimizer = by_plan(lambda: layers(8, 256, 256, 4), 8)
    memory = optimizer.reduction.memory
    (flat,) = memory.flats.values()
    assert shares_memory(flat.data_ptr()) and not shares_memory(torch.empty(100_000).data_ptr())
    assert memory.bytes == sum(slot.bytes for slot in memory.slots) + memory.flag_count * 4 and memory.copied_bytes == 0
    for slot in memory.slots:
        assert slot.parameter.grad.untyped_storage().data_ptr() == flat.untyped_storage().data_ptr()
    with refused(DistGraphBuildError, "add_param_group"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))]})


def part_memory_config_saves_memory():
    def wide():
        return layers(8, 300, 300, 300, 4)

    def loss_of(model, step):
        return model(torch.cat([batch(step)] * 64)).pow(2).mean()

    losses, _ = by_ddp(wide, 6, loss_of)
    with tempfile.TemporaryDirectory() as folder:
        ours, _, optimizer = by_plan(wide, 6, loss_of, memory_config={
            "gradient_checkpointing": True, "activation_offloading": True, "offload_dir": folder})
        assert ours == losses
        assert optimizer.offloaded.bytes > 0 and not os.listdir(folder)
        ours, _, optimizer = by_plan(wide, 6, loss_of, memory_config={"activation_offloading": True, "offload_dir": folder})
        assert ours == losses and optimizer.offloaded.bytes > 6 * 300 * 256 * 4
    calls = []
    model = wide()
    inner = model[2].forward
    model[2].forward = lambda x: calls.append(1) or inner(x)
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), memory_config={"gradient_checkpointing": True})
    assert train(model, optimizer, 2, loss_of=loss_of) == losses[:2]
    assert len(calls) == 4  # each step once more in backward
    with refused(MemoryOverflowError, "bytes"):
        GEDistributedOptimizer(model=wide(), memory_config={"limit": "100KB"})
    GEDistributedOptimizer(model=wide(), memory_config={"limit": "100MB"})
    beyond = nn.Parameter(torch.zeros(1).expand(1 << 46))  # of addresses
    with refused(MemoryOverflowError, "parameter beyond"):
        GradientMemory([Slot(0, "beyond", beyond)], 0, None, True).lay_out([("beyond", 0.0, 1 << 48, 0)], [(0, 1)])


def part_bucket_sizes_follow_throughput():
    model = network()
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), memory_config={"buffer_size": "dynamic"}, replanning=SOON)
    train(model, optimizer, 40)
    assert optimizer.reduction._scheduler is not None
    size, sent = optimizer.reduction._scheduler.bucket_size, optimizer.reduction.planning.bucket_bytes
    assert sent in (0, size * 2**20), (sent, size)  # 0: throughput asked for no other size yet
    same_on_all([torch.tensor([optimizer.reduction._scheduler.bucket_size, optimizer.reduction.planning.bucket_bytes])])
    same_on_all(state_of(model))
    _, _, optimizer = by_plan(network, 6, allreduce_strategy="compute_communication_overlap", memory_config={"buffer_size": "1KB"})
    assert 1 < len(optimizer.reduction.memory.buckets) < 8


def part_a_plan_that_does_not_fit_is_made_anew():
    """One rank's link becomes slow: all profile again, in the same step."""
    model = network()
    rule = Replanning(skipped_steps=1, profile_steps=2, patience=10**6, most_rounds=1)
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), replanning=rule)
    train(model, optimizer, 10)
    planning, way = optimizer.reduction.planning, optimizer.reduction.way
    assert planning.stage == "settled" and planning.plans >= 1
    planning.rule = dataclasses.replace(rule, patience=4)
    plans, start = planning.plans, way.start

    def slow(*arguments, **keywords):  # by as much as is beyond what is tolerated, however long a step takes here
        time.sleep(2 * (1 + planning.rule.tolerance) * planning.expected_us / 1e6 if RANK == SIZE - 1 else 0)
        return start(*arguments, **keywords)

    way.start = slow
    seen = []
    for step in range(10, 22):
        train(model, optimizer, 1, first=step)
        seen.append((planning.stage, planning.plans))
    assert planning.plans > plans, seen
    rows = [None] * SIZE
    dist.all_gather_object(rows, seen)
    assert all(row == seen for row in rows), rows
    same_on_all(state_of(model))


def part_ranks_with_other_plans_are_told_apart():
    model = network()
    options = {"max_group_size": 1} if RANK == SIZE - 1 else {}
    with refused(DistGraphBuildError, f"rank {SIZE - 1}"):
        optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), replanning=SOON,
                                           allreduce_strategy="compute_communication_overlap", min_tensor_size="1MB", **options)
        train(model, optimizer, 6)


def part_kernels_of_updates_are_fused():
    losses, _ = by_ddp(network, 6)
    ours, _, optimizer = by_plan(network, 6, kernel_fusion=True)
    assert all(group["fused"] for group in optimizer.param_groups)
    for one, other in zip(ours, losses):
        assert abs(one - other) < 1e-5
    model = network()
    with refused(DistGraphBuildError, "Rprop"):
        GEDistributedOptimizer(model=model, optimizer=torch.optim.Rprop(model.parameters()), kernel_fusion=True)


def part_a_yaml_file_configures_it():
    if importlib.util.find_spec("yaml") is None:
        print("skipped: no PyYAML: pip install -r tests/torch/requirements.txt")
        return
    text = """
distributed:
  allreduce_insertion:
    strategy: "compute_communication_overlap"
    min_tensor_size: 1MB
    max_group_size: 8
    enable_pipeline: true
performance:
  memory_optimization:
    enable_memory_reuse: true
    gradient_accumulation_steps: 4
  computation_optimization:
    kernel_fusion: true
    precision_mode: "fp16"
"""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        model = network()
        optimizer = GEDistributedOptimizer(model=model, config=file.name, replanning=SOON)
        assert GEDistributedOptimizer(config=file.name, gradient_accumulation_steps=2).options.gradient_accumulation_steps == 2
    options = optimizer.options
    assert (options.min_tensor_size, options.max_group_size, options.enable_pipeline) == (1 << 20, 8, True)
    for step in range(16):
        out = model(batch(step))
        assert out.dtype == torch.float16
        optimizer.scale(out.float().pow(2).mean()).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert optimizer.step_count == optimizer.reduction.counts["steps"] == 4
    assert len(optimizer.reduction.memory.buckets) == 1 and optimizer.param_groups[0]["fused"]
    assert optimizer.reduction.memory.copied_bytes == 0


def part_decisions_are_printed_in_detail():
    before = dist.get_debug_level()
    told, sys.stderr = sys.stderr, io.StringIO()
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    try:
        by_plan(network, 5, enable_compression=True)
        text = sys.stderr.getvalue()
    finally:
        sys.stderr = told
        dist.set_debug_level(before)
    assert f"rank {RANK}: gradient 0.weight.grad of 0.weight: 1024 bytes" in text, text
    assert "bucket 0: " in text and "behind node" in text, text
    assert "refused: " in text, text


def part_what_is_measured_is_shown():
    _, _, optimizer = by_plan(lambda: layers(8, 256, 256, 4), 12)
    text = optimizer.explain()
    for words in ("predicted: ends at", "measured:  ends at", "no plan ends before", "size 25 MiB (DDP)", "stage settled"):
        assert words in text, text
    graph = optimizer.graph()
    assert "reduce_bucket_0" in graph.to_json() and graph.to_svg().startswith("<svg")
    monitor = PerformanceMonitor(optimizer)
    assert monitor.communication_time > 0 and monitor.computation_time > 0
    assert 0 <= monitor.get_efficiency() <= 0.5 and 0 <= monitor.overlap <= 1 and 0 <= monitor.roofline <= 1
    before = monitor.communication_time
    monitor.profile_step(batch(0))
    assert monitor.communication_time > before
    table = monitor.table()
    assert all(words in table for words in ("overlap", "seed_efficiency", "roofline", "never above 0.5")), table
    lines = io.StringIO()
    monitor.show(lines)
    assert lines.getvalue().startswith("step ") and lines.getvalue().endswith("\n")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "timeline.png")
        assert monitor.timeline_png(path) == os.path.exists(path)  # False: no matplotlib
    for step in optimizer.steps:
        assert step.exposed_us <= step.communication_us + 1e-3


def part_what_makes_no_sense_is_refused():
    model = network()
    with refused(DistGraphBuildError, "does not update"):
        GEDistributedOptimizer(model=model, optimizer=torch.optim.SGD(model[0].parameters(), 0.1))
    with refused(DistGraphBuildError, "no such parameter"):
        GEDistributedOptimizer(model=model[:-1], optimizer=sgd(model))
    with refused(DistGraphBuildError, "wants a gradient"):
        GEDistributedOptimizer(model=nn.ReLU())
    with refused(DistGraphBuildError, "list of layers"):
        GEDistributedOptimizer(model=nn.Linear(2, 2), memory_config={"gradient_checkpointing": True})
    with refused(DistGraphBuildError, "complex64"):
        GEDistributedOptimizer(model=nn.Linear(2, 2, dtype=torch.complex64))


def part_over_another_backend_it_does_without_groups_of_its_own():
    group = dist.new_group(backend="gloo")
    model = network()
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), process_group=group, replanning=SOON)
    losses = train(model, optimizer, 8)
    for one, other in zip(losses, by_ddp(network, 8)[0]):
        assert abs(one - other) < 1e-5
    with refused(DistGraphBuildError, "gloo", "'cohort'"):
        GEDistributedOptimizer(model=network(), process_group=group, enable_compression=True)
    with refused(DistGraphBuildError, "gloo", "smart_overlap"):
        GEDistributedOptimizer(model=network(), process_group=group, allreduce_strategy="hierarchical")
