# SPDX-License-Identifier: Apache-2.0
"""What bars.py measures with ranks, on every rank: bar_ranks.py PART ROWS. A row is [bar, asked, figure, is_held]."""

import json
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import cohort.torch
import digits
import models
from cohort.graph import GEDistributedOptimizer, Replanning
from cohort.graph.options import Compression, make_options
from cohort.graph.ways import CohortWay
from replay import MIB, NEVER, Replay, buckets_of_size, medians, most

ROUNDS, STEPS = 5, 8
SHARE = 0.4  # of communication in a synchronous step
SIZES_MIB = (0.0625, 0.25, 0.5, 1, 2, 4, 8, 16, 64)


def optimizer_of(model, **options):
    options = {"replanning": NEVER, **options}
    return GEDistributedOptimizer(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=1e-3), **options)


def replay_of(make, batch):
    model, loss_of = make(batch)
    return Replay(model, optimizer_of(model), loss_of)


def batch_for(make, share):
    """Such that communication is so much of a synchronous step: from what two sizes take."""
    few, many, columns = 1, 9, []
    for batch in (few, many):
        replay = replay_of(make, batch)
        columns.append(medians(replay.run(8)[2:]))
        replay.optimizer.close()
    (_, _, communication, _), (step, _, other, _) = columns
    communication = min(communication, other)
    one = max(1e-3, (step - other) - (columns[0][0] - columns[0][2])) / (many - few)
    wanted = communication * (1 - share) / share
    left = wanted - (columns[0][0] - columns[0][2])
    return int(most([max(1, round(few + left / one))])[0])


def model_for(share):
    """The first model, with its batch, that comes near that share on these links; else the last."""
    for make in (models.llama, models.wide):
        batch = batch_for(make, share)
        replay = replay_of(make, batch)
        step, _, communication, _ = medians(replay.run(8)[2:])
        replay.optimizer.close()
        if most([abs(communication / step - share)])[0] < 0.1:
            break
    return make, batch


def ddp_step_ms(model, loss_of, count):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    times = []
    for _ in range(count):
        dist.barrier()
        began = time.perf_counter()
        loss_of(model).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        times.append(1e3 * (time.perf_counter() - began))
    return most(times)


def part_overlap(rows):
    """One model, of whose synchronous step communication is the share; programs in rounds that alternate."""
    make, batch = model_for(SHARE)
    replay = replay_of(make, batch)
    replay.settle()
    ddp_model, ddp_loss = make(batch)
    gloo = DistributedDataParallel(ddp_model, process_group=dist.new_group(backend="gloo"), gradient_as_bucket_view=True)
    programs = {"synchronous": [(0, len(replay.plan.items))], "planned": replay.own, **replay.others()}
    figures, by_gloo = {name: [] for name in programs}, []
    for turn in range(ROUNDS + 1):
        times = ddp_step_ms(gloo, ddp_loss, STEPS)
        by_gloo += times if turn else []  # the first round does not count
        for name, buckets in programs.items():
            replay.take(buckets, is_pipelined=name != "synchronous")
            measured = replay.run(STEPS)
            figures[name] += measured if turn else []
    columns = {name: medians(values) for name, values in figures.items()}
    rows += overlap_rows(columns, replay.plan, statistics.median(by_gloo), batch)
    memory = replay.reduction.memory
    beside = memory.bytes - sum(slot.bytes for slot in memory.slots)
    rows.append(["gradients copied, and memory beside them", "none, at most two buckets", f"{memory.copied_bytes} bytes, {beside} bytes",
                 memory.copied_bytes == 0 and beside <= 8 * (len(memory.slots) + 8)])


def overlap_rows(columns, plan, gloo_ms, batch):
    sync, planned = columns["synchronous"], columns["planned"]
    others = {name: one for name, one in columns.items() if name not in ("synchronous", "planned")}
    best = min(others, key=lambda name: others[name][1])
    predicted, finish = plan.exposed_us / 1e3, plan.finish_us / 1e3
    limit = predicted + max(0.1 * predicted, 2.0)
    share = sync[2] / sync[0]
    ratio = planned[1] / others[best][1] if others[best][1] > 0 else 1.0
    update_ms = planned[0] - planned[3]
    step = finish + update_ms
    return [
        ["share of communication in the synchronous step", f"about {SHARE:.0%}", f"{share:.0%} (batch {batch})", None],
        ["exposed, of what is planned", f"at most {limit:.2f} ms", f"{planned[1]:.2f} ms, planned {predicted:.2f}", planned[1] <= limit],
        ["exposed, beside the best rule of others", "at most 1.02 times", f"{ratio:.3f} times {best}'s {others[best][1]:.2f} ms", ratio <= 1.02],
        ["step, beside the best rule of others", "", f"{planned[0] / min(one[0] for one in others.values()):.3f} times", None],
        ["exposed, beside synchronous", "at least 49 % less", f"{1 - planned[1] / sync[1]:.0%} less of {sync[1]:.2f} ms", planned[1] <= 0.51 * sync[1]],
        ["step, beside synchronous", "at least 19 % less", f"{1 - planned[0] / sync[0]:.0%} less of {sync[0]:.2f} ms", planned[0] <= 0.81 * sync[0]],
        ["DistributedDataParallel over gloo", "", f"{gloo_ms / planned[0]:.2f} times the step of {planned[0]:.2f} ms", None],
        ["prediction: step", "within 10 %", f"{step:.2f} ms predicted, {planned[0]:.2f} measured", abs(step - planned[0]) <= 0.1 * planned[0]],
        ["prediction: exposed", "within 20 % or 2 ms", f"{predicted:.2f} ms predicted, {planned[1]:.2f} measured",
         abs(predicted - planned[1]) <= max(2.0, 0.2 * planned[1])],
    ]


def part_lazy(rows):
    """Steps that do not wait beside steps that do, of one model; rounds without a barrier in them."""
    make, batch = model_for(SHARE)
    replays, times = {}, {False: [], True: []}
    for is_lazy in times:
        model, loss_of = make(batch)
        replays[is_lazy] = Replay(model, optimizer_of(model, lazy_step=is_lazy), loss_of)
        replays[is_lazy].settle()
    for turn in range(ROUNDS + 1):
        for is_lazy, replay in replays.items():
            dist.barrier()
            began = time.perf_counter()
            for _ in range(2 * STEPS):
                replay.train()
            replay.optimizer.complete()
            times[is_lazy] += [1e3 * (time.perf_counter() - began) / (2 * STEPS)] if turn else []
    waiting, lazy = (statistics.median(most(values)) for values in times.values())
    rows.append(["steps that do not wait (lazy_step)", "", f"{1 - lazy / waiting:.1%} less of {waiting:.2f} ms", None])


def part_sizes(rows):
    """Without a size, after 20 steps, beside nine sizes."""
    for name, make in models.MODELS.items():
        replay = replay_of(make, batch_for(make, SHARE))
        for _ in range(23):  # the first plan is there after 11
            replay.step()
        replay.hold()
        programs = {"planned": replay.own, **{f"{size:g} MiB": buckets_of_size(replay.plan.items, size * MIB) for size in SIZES_MIB}}
        figures = {key: [] for key in programs}
        for turn in range(ROUNDS):
            for key, buckets in programs.items():
                replay.take(buckets)
                replay.step()
                figures[key] += replay.run(STEPS - 2)
        steps = {key: medians(values)[0] for key, values in figures.items()}
        best = min((key for key in steps if key != "planned"), key=steps.get)
        rows.append([f"no size given: {name}", "within 3 % of the best of nine",
                     f"{steps['planned'] / steps[best] - 1:+.1%} of {best}'s {steps[best]:.2f} ms", steps["planned"] <= 1.03 * steps[best]])
        replay.optimizer.close()


def part_link(rows):
    """The rate of the links changes, as rank 0 asks for; steps until another plan is in use."""
    model, loss_of = models.llama(batch_for(models.llama, SHARE))
    optimizer = optimizer_of(model, replanning=Replanning())
    replay = Replay(model, optimizer, loss_of)
    replay.step()
    while replay.planning.stage != "settled":  # the same on all ranks
        replay.step()
    before = replay.planning.plans
    dist.barrier()
    if dist.get_rank() == 0:
        print("RATE 250mbit", flush=True)
        sys.stdin.readline()
    count = 0
    while replay.planning.plans == before and count < 100:
        replay.step()
        count += 1
    rows.append(["link from 1 Gbit/s to 250 Mbit/s", "another plan within 50 steps", f"{count} steps", count <= 50])


def part_compression(rows):
    """16 MiB of float32, as they are and as int8."""
    group = dist.group.WORLD
    way = CohortWay(group, make_options({"enable_compression": Compression(always=True)}))
    with cohort.torch.mapped_tensors():
        data = torch.rand(16 * MIB // 4)
    times = {False: [], True: []}
    for turn in range(9):
        for compresses in times:
            dist.barrier()
            began = time.perf_counter()
            way.start(data, "bucket", compresses).wait()
            times[compresses] += [time.perf_counter() - began] if turn else []
    plain, small = (statistics.median(most(values)) for values in times.values())
    rows.append(["int8 at 16 MiB", "at least 3.3 times", f"{plain / small:.2f} times ({1e3 * plain:.1f} ms, {1e3 * small:.1f} ms)",
                 plain >= 3.3 * small])


def part_accuracy(rows):
    """Pictures of ten kinds, three seeds: what is right of those that were kept apart, with int8 and without."""
    for seed in range(3):
        accuracy = [digits.accuracy(seed, compression) for compression in (None, Compression(always=True))]
        rows.append([f"int8, pictures of ten kinds, seed {seed}", "within 0.5 points",
                     f"{100 * accuracy[1]:.2f} % of right answers, {100 * accuracy[0]:.2f} % without", abs(accuracy[0] - accuracy[1]) <= 0.005])


def part_join(rows):
    """join() where no rank is short, beside none; both in the same rounds."""
    model, loss_of = models.llama(2)
    replay = Replay(model, optimizer_of(model), loss_of)
    replay.settle()
    count, times = 100, {"join": [], "none": []}
    for _ in range(6):
        for key in times:
            began = time.perf_counter()
            if key == "join":
                with replay.optimizer.join():
                    for _ in range(count):
                        replay.step()
            else:
                for _ in range(count):
                    replay.step()
            times[key].append(time.perf_counter() - began)
    with_join, without = (statistics.median(most(values)) for values in times.values())
    rows.append([f"join() of {count} steps, nobody short", "less than 1 %", f"{with_join / without - 1:+.2%}", with_join < 1.01 * without])


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(8))

    def forward(self, x, taken):
        for index in taken:
            x = torch.tanh(self.layers[index](x))
        return x


def part_robust(rows):
    """1000 steps in which each rank takes other branches, and every second one computes twice: one plan, one set of parameters."""
    model = Branches()
    optimizer = optimizer_of(model, replanning=Replanning())
    chance = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(1000):
        taken = torch.randperm(8, generator=chance)[:int(torch.randint(1, 9, (1,), generator=chance))].tolist()
        for _ in range(1 + dist.get_rank() % 2):
            loss = model(torch.rand(4, 32, generator=chance), taken).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    mine = [float(optimizer.reduction.planning.plan.hash % 10**9), *(float(one.detach().double().sum()) for one in model.parameters())]
    is_same = most(mine) == [-value for value in most([-value for value in mine])]
    rows.append(["1000 steps of control flow, ranks of different speed", "one plan, the same parameters",
                 "the same on all ranks" if is_same else "ranks differ", is_same])


PARTS = {name[len("part_"):]: part for name, part in list(globals().items()) if name.startswith("part_")}


def main():
    part, path = sys.argv[1:]
    torch.set_num_threads(1)
    cohort.torch.init_process_group()
    rows = []
    PARTS[part](rows)
    if dist.get_rank() == 0:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(rows, file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
