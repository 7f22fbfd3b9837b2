# SPDX-License-Identifier: Apache-2.0
"""What the distributed optimizer of cohort.graph gives, on every rank: DistributedDataParallel's numbers; started by
graph_test.py with COHORT_DETERMINISM=D3, so that sums do not depend on who adds them, and in which buckets."""

import contextlib
import copy
import os
import random
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from cohort.graph import AllReduceInsertError, Compression, DistGraphBuildError, GEDistributedOptimizer

from graph_training import SOON, batch, by_ddp, by_plan, layers, network, refused, same, same_on_all, sgd, state_of, train

RANK = SIZE = 0


def part_every_strategy_gives_the_losses_of_ddp():
    losses, state = by_ddp(network, 12)
    for strategy in ("synchronous", "compute_communication_overlap", "hierarchical", "smart_overlap"):
        ours, ours_state, optimizer = by_plan(network, 12, allreduce_strategy=strategy)
        is_exact = strategy != "hierarchical" or not os.environ.get("COHORT_HOST_ID")  # each host adds up its own ranks first
        if is_exact:
            assert ours == losses, (strategy, ours, losses)
            same(ours_state, state)
        else:
            torch.testing.assert_close(torch.tensor(ours), torch.tensor(losses), rtol=1e-4, atol=1e-7)
            same_on_all(ours_state)
        assert optimizer.reduction.memory.copied_bytes == 0
        assert optimizer.reduction.planning.stage == "settled", optimizer.explain()
    ours, _, _ = by_plan(network, 8, allreduce_strategy="hierarchical", form="leader")
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(losses[:8]), rtol=1e-4, atol=1e-7)
    assert ours == losses[:8] or os.environ.get("COHORT_HOST_ID")


def part_without_an_optimizer_it_is_adamw_and_the_model_may_come_later():
    model = network()
    optimizer = GEDistributedOptimizer(allreduce_strategy="hierarchical", bucket_cap_mb=50, lr=0.01)
    with refused(DistGraphBuildError, "model", "attach"):
        optimizer.step()
    assert optimizer.attach(model) is optimizer
    losses = train(model, optimizer, 6)
    expected, _ = by_ddp(network, 6, optimizer_of=lambda one: torch.optim.AdamW(one.parameters(), lr=0.01))
    assert losses == expected
    with refused(DistGraphBuildError, "has a model"):
        optimizer.attach(network())


def part_the_values_of_rank_0_are_sent_to_all():
    torch.manual_seed(RANK)
    model = nn.Linear(8, 4)
    GEDistributedOptimizer(model=model)
    same_on_all(state_of(model))


def part_a_shared_parameter_is_reduced_once():
    def tied():
        model = layers(8, 8, 8, 4)
        model[2].weight = model[0].weight
        return model

    losses, state = by_ddp(tied, 8)
    ours, ours_state, optimizer = by_plan(tied, 8)
    assert ours == losses
    same(ours_state, state)
    assert len(optimizer.reduction.planning.items) == len(list(tied().parameters()))


class Branches(nn.Module):
    """Each step takes other layers, as told."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.first = nn.Linear(8, 8)
        self.branches = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
        self.last = nn.Linear(8, 4)

    def forward(self, x, taken):
        x = self.first(x)
        for index in taken:
            x = torch.tanh(self.branches[index](x))
        return self.last(x)


def part_control_flow_and_ranks_of_different_speed():
    """Chance takes branches, on each rank other ones, in any order; sometimes none takes one. 1000 steps: COHORT_TEST_STEPS."""
    steps = int(os.environ.get("COHORT_TEST_STEPS", "150"))

    def loss_of(model, step):
        chance = random.Random(1000 * step + RANK)
        taken = chance.sample(range(4 if step % 3 else 2), chance.randint(0, 2)) if step % 10 else [0, 1, 2, 3]
        if RANK == step % SIZE:
            time.sleep(0.001 * chance.random())
        return model(batch(step), taken).pow(2).mean()

    def optimizer_of(model):  # that moves parameters without a gradient, too, if they are given a zero
        return torch.optim.AdamW(model.parameters(), 0.01, weight_decay=0.1)

    losses, state = by_ddp(Branches, steps, loss_of, optimizer_of, find_unused_parameters=True)
    ours, ours_state, optimizer = by_plan(Branches, steps, loss_of, optimizer_of)
    assert ours == losses, [(at, a, b) for at, (a, b) in enumerate(zip(ours, losses)) if a != b][:3]
    same(ours_state, state)
    assert optimizer.reduction.counts["fallback"] > 0
    same_on_all([torch.tensor([optimizer.reduction.planning.plan.hash & (1 << 62) - 1, optimizer.reduction.planning.plans])])


def part_a_parameter_that_is_never_used_does_not_keep_the_plan_from_being_made():
    def loss_of(model, step):
        return model(batch(step), [0, 2]).pow(2).mean()  # the others never

    losses, state = by_ddp(Branches, 14, loss_of, find_unused_parameters=True)
    ours, ours_state, optimizer = by_plan(Branches, 14, loss_of)
    assert ours == losses
    same(ours_state, state)
    planning = optimizer.reduction.planning
    assert planning.plans > 0 and planning.stage != "profiling", optimizer.explain()
    never = {name for name in optimizer.reduction.memory.by_name if ".1." in name or ".3." in name}
    assert {item[0] for item in planning.items[-len(never):]} == never and len(never) == 4


def part_a_rank_without_a_gradient_takes_part():
    def steps(model, optimizer):
        for step in range(4):
            optimizer.zero_grad()
            if RANK > 0:
                model(batch(step)).pow(2).mean().backward()
            optimizer.step()
        return state_of(model)

    model = network()
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model))
    same_on_all(steps(model, optimizer))
    assert optimizer.reduction.counts["fallback"] == 4
    alone = network()
    plain = sgd(alone)
    for step in range(4):
        plain.zero_grad()
        (sum(alone(batch(step, rank)).pow(2).mean() for rank in range(1, SIZE)) / SIZE).backward()
        plain.step()
    for one, other in zip(state_of(model), state_of(alone)):
        torch.testing.assert_close(one, other)


def part_an_exception_amid_backward_keeps_nobody_waiting():
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x * 1

        @staticmethod
        def backward(context, gradient):
            raise KeyError("of the program")

    model = network()
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), replanning=SOON)
    for step in range(8):
        optimizer.zero_grad()
        hidden = model[:4](batch(step)) if step != 5 or RANK else Fails.apply(model[:4](batch(step)))
        try:
            model[4:](hidden).pow(2).mean().backward()
        except KeyError:
            assert step == 5 and RANK == 0
        optimizer.step()
    same_on_all(state_of(model))
    assert optimizer.reduction.counts["broken"] == (RANK == 0)


def part_a_second_gradient_after_the_first_was_sent_is_refused():
    model = network()
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), replanning=SOON, max_group_size=1)
    train(model, optimizer, 8)
    optimizer.zero_grad()

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x * 1

        @staticmethod
        def backward(context, gradient):
            with torch.enable_grad():
                model[-1](torch.ones(1, 16)).sum().backward()
            return gradient

    with refused(AllReduceInsertError, "6.", "use_reentrant=False"):
        model[-1](Twice.apply(model[:-1](batch(0)))).pow(2).mean().backward()
    optimizer.reduction.settle()


def part_gradients_accumulate():
    """Four passes, one reduction: by hand, as DistributedDataParallel; by the optimizer; and its own steps."""
    def by_hand(model, optimizer):
        for step in range(5):
            optimizer.zero_grad()
            for micro in range(4):
                with model.no_sync() if micro < 3 and isinstance(model, DistributedDataParallel) else (
                        optimizer.no_sync() if micro < 3 else contextlib.nullcontext()):
                    (model(batch(4 * step + micro)).pow(2).mean() / 4).backward()
            optimizer.step()
        return state_of(model)

    model = DistributedDataParallel(network())
    expected = by_hand(model, sgd(model))
    model = network()
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), replanning=SOON)
    same(by_hand(model, optimizer), expected)
    assert optimizer.reduction.counts["steps"] == 5

    model = network()
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), gradient_accumulation_steps=4, replanning=SOON)
    train(model, optimizer, 20)
    same(state_of(model), expected)  # 4 is a power of two: nothing rounds
    assert (optimizer.reduction.counts["steps"], optimizer.step_count) == (5, 5)

    model = network()  # as the seed's gradient_accumulation_step
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model))
    for step in range(20):
        with optimizer.no_sync():
            (model(batch(step)).pow(2).mean() / 4).backward()
        if (step + 1) % 4 == 0:
            optimizer.synchronize_gradients()
            optimizer.step()
            optimizer.zero_grad()
    same(state_of(model), expected)
    assert optimizer.reduction.counts["steps"] == 5


def part_gradients_of_several_passes_before_a_step_stay():
    """Also of parameters that the last of them does not use; and each pass is divided once."""
    def passes(model, optimizer):
        for step in range(3):
            optimizer.zero_grad()
            for branch in (0, 1):
                model(batch(2 * step + branch), [branch]).pow(2).mean().backward()
            optimizer.step()
        return state_of(model)

    model = DistributedDataParallel(Branches(), find_unused_parameters=True)
    expected = passes(model, sgd(model))
    model = Branches()
    for one, other in zip(passes(model, GEDistributedOptimizer(model=model, optimizer=sgd(model))), expected):
        torch.testing.assert_close(one, other)

    model, alone = network(), network()
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), gradient_accumulation_steps=2)
    for micro in range(2):
        for part in range(2):  # the last two are averaged one by one
            model(batch(2 * micro + part)).pow(2).mean().backward()
        assert torch.autograd.grad(model(batch(0)).sum(), model[-1].bias)[0].eq(len(batch(0))).all()
        optimizer.step()
    sum(alone(batch(one, rank)).pow(2).mean() / SIZE / 2 for one in range(4) for rank in range(SIZE)).backward()
    sgd(alone).step()
    for one, other in zip(state_of(model), state_of(alone)):
        torch.testing.assert_close(one, other)


def part_a_step_that_is_left_out_leaves_the_next_gradients_to_be_averaged():
    model = network()
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model))
    model(batch(0)).pow(2).mean().backward()
    optimizer.zero_grad()  # as where a loss was not finite
    with optimizer.no_sync():
        model(batch(1)).pow(2).mean().backward()
    optimizer.step()
    same_on_all(state_of(model))


def part_after_close_the_model_is_its_own():
    model = network()
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), precision_mode="bf16", gradient_accumulation_steps=2)
    train(model, optimizer, 2)
    optimizer.close()
    assert model(batch(0)).dtype == torch.float32 and not model._forward_pre_hooks
    for slot in optimizer.reduction.slots:
        assert slot.parameter.grad.data_ptr() != slot.view.data_ptr()
    model.zero_grad()
    model(batch(0)).sum().backward()
    assert model[-1].bias.grad.eq(len(batch(0))).all()


def part_gradients_are_clipped_by_the_norm_of_all():
    def clipped(model):
        optimizer = sgd(model)
        for step in range(6):
            optimizer.zero_grad()
            (100 * model(batch(step)).pow(2).mean()).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
        return state_of(model)

    expected = clipped(DistributedDataParallel(network()))
    _, ours, _ = by_plan(network, 6, lambda model, step: 100 * model(batch(step)).pow(2).mean(), gradient_clipping=0.5)
    same(ours, expected)


def part_losses_are_scaled():
    """By torch's GradScaler, whose steps all ranks skip together, and by precision_mode."""
    def scaled(model, optimizer):
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
        for step in range(5):
            optimizer.zero_grad()
            loss = model(batch(step)).pow(2).mean() * (float("inf") if step == 2 and RANK == 0 else 1.0)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        return state_of(model), scaler.get_scale()

    model = DistributedDataParallel(network())
    expected, scale = scaled(model, sgd(model))
    model = network()
    ours, our_scale = scaled(model, GEDistributedOptimizer(model=model, optimizer=sgd(model)))
    same(ours, expected)
    assert our_scale == scale == 2.0**19

    for mode, kind in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
        model = network()
        optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), precision_mode=mode)
        for step in range(6):
            optimizer.zero_grad()
            out = model(batch(step))
            assert out.dtype == kind
            optimizer.scale(out.float().pow(2).mean()).backward()
            if mode == "fp16":
                assert not model[0].weight.grad.abs().max() <= 10  # times the scale, or beyond what 16 bits hold
            optimizer.step()
        for one, other in zip(state_of(model), by_ddp(network, 6)[1]):
            torch.testing.assert_close(one, other, rtol=0.05, atol=0.02)
        assert optimizer.scaler.is_enabled() == (mode == "fp16")


def part_compression_sends_less_and_learns_the_same():
    target = torch.rand(64, 16, generator=torch.Generator().manual_seed(1))

    def loss_of(model, step):
        x = batch(step, width=64)
        return (model(x) - x @ target).pow(2).mean()

    def make():
        return layers(64, 64, 16)

    def optimizer_of(model):
        return torch.optim.SGD(model.parameters(), 0.01)

    expected, _ = by_ddp(make, 40, loss_of, optimizer_of)
    for kind in ("fp16", "bf16", "int8", "top_k", "power_sgd"):
        how = Compression(kind=kind, always=True, top_ratio=0.3)
        ours, state, optimizer = by_plan(make, 40, loss_of, optimizer_of, enable_compression=how)
        assert any(bucket.compresses for bucket in optimizer.reduction.memory.buckets)
        assert ours[:3] == expected[:3] and ours != expected, kind  # profiles are made of what is not compressed
        assert ours[-1] < 0.5 * ours[0], (kind, ours)
        same_on_all(state)
        assert bool(optimizer.state_dict()["cohort"]["residuals"]) or kind in ("fp16", "bf16")


def part_residuals_survive_checkpoints():
    def made(model):
        return GEDistributedOptimizer(model=model, optimizer=sgd(model), enable_compression=Compression(always=True),
                                      allreduce_strategy="synchronous", replanning=SOON)

    model = network()
    optimizer = made(model)
    train(model, optimizer, 10)
    kept = copy.deepcopy(optimizer.state_dict()), copy.deepcopy(model.state_dict())
    assert any(residual.abs().max() > 0 for residual in kept[0]["cohort"]["residuals"].values())
    went_on = train(model, optimizer, 5, first=10)

    again = network()
    optimizer = made(again)
    train(again, optimizer, 10)
    again.load_state_dict(kept[1])
    optimizer.load_state_dict(kept[0])
    assert train(again, optimizer, 5, first=10) == went_on
    assert optimizer.step_count == 15
    optimizer.load_state_dict({**kept[0], "cohort": {**kept[0]["cohort"], "residuals": {}}})
    again.load_state_dict(kept[1])
    assert train(again, optimizer, 5, first=10) != went_on  # without its residuals it is another run


def part_residuals_stay_with_their_parameters():
    """From plan to plan, in pieces of one gradient, and over checkpoints that another plan takes."""
    def made(model, **options):
        return GEDistributedOptimizer(model=model, optimizer=sgd(model), replanning=SOON, enable_compression=Compression(
            kind="top_k", always=True, top_ratio=0.05, momentum=0.5), **options)

    def kept(optimizer):
        return {name: values.clone() for name, values in optimizer.state_dict()["cohort"]["residuals"].items()}

    model = network()
    optimizer = made(model, split_size=1000, max_group_size=1)
    train(model, optimizer, 10)
    reduction, before = optimizer.reduction, kept(optimizer)
    names = [bucket.name for bucket in reduction.memory.buckets]
    assert len(set(names)) == len(names) > 8
    assert set(before) == {f"{slot.name}.{kind}" for slot in reduction.slots for kind in ("residual", "momentum")}
    assert all(before[f"{slot.name}.residual"].abs().max() > 0 for slot in reduction.slots if slot.parameter.numel() > 100)
    reduction.planning.take_bucket_bytes(2 << 20)
    for strategy in ("synchronous", "compute_communication_overlap"):  # a plan of one bucket, and another of many
        reduction.planning.insertion = reduction.planning._insert(strategy)
        reduction._lay_out()
        for name, values in kept(optimizer).items():
            assert torch.equal(values, before[name]), name
        buckets = {name.rpartition(".")[0] for name in reduction.way.state()}
        assert buckets == {bucket.name for bucket in reduction.memory.buckets}
    again = network()
    other = made(again, allreduce_strategy="synchronous")
    other.load_state_dict(optimizer.state_dict())
    assert not other.reduction.way.state()  # nothing is compressed yet
    for name, values in kept(other).items():
        assert torch.equal(values, before[name]), name


def part_checkpoints_of_the_inner_optimizer_are_taken():
    losses, state = by_ddp(network, 10)
    model = DistributedDataParallel(network())
    plain = sgd(model)
    train(model, plain, 5)
    ours = network()
    optimizer = GEDistributedOptimizer(model=ours, optimizer=sgd(ours), replanning=SOON)
    ours.load_state_dict(model.module.state_dict())
    optimizer.load_state_dict(plain.state_dict())
    assert train(ours, optimizer, 5, first=5) == losses[5:]
    same(state_of(ours), state)


def part_schedulers_of_learning_rates_see_an_optimizer():
    def trained(model, optimizer):
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.1)
        for step in range(6):
            train(model, optimizer, 1, first=step)
            schedule.step()
        return state_of(model)

    model = DistributedDataParallel(network())
    expected = trained(model, sgd(model))
    model = network()
    same(trained(model, GEDistributedOptimizer(model=model, optimizer=sgd(model))), expected)


def part_partial_sync_averages_a_part_in_each_step():
    model = network()
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), gradient_sync_method="partial_sync", sync_frequency=4,
                                       replanning=SOON, allreduce_strategy="compute_communication_overlap")
    losses = train(model, optimizer, 40)
    same_on_all(state_of(model))
    assert losses[-1] < losses[0]
    buckets = len(optimizer.reduction.memory.buckets)
    sent = [sum(one.bucket < buckets for one in step.buckets) for step in optimizer.steps[-8:]]
    assert buckets == 8 and sent == [2] * 8, (buckets, sent)  # a bucket for each parameter, of which a quarter is due

    expected, _ = by_ddp(network, 4)
    ours, _, _ = by_plan(network, 4, gradient_sync_method="partial_sync", sync_frequency=1)
    assert ours == expected


def part_uneven_inputs_join():
    """One rank has three batches fewer: averages are over those that have one, and all end alike."""
    model = network()
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), replanning=SOON)
    steps = 8 if RANK == 0 else 11
    with optimizer.join():
        train(model, optimizer, steps)
    same_on_all(state_of(model))
    alone = network()
    plain = sgd(alone)
    for step in range(11):
        plain.zero_grad()
        present = [rank for rank in range(SIZE) if step < (8 if rank == 0 else 11)]
        (sum(alone(batch(step, rank)).pow(2).mean() for rank in present) / len(present)).backward()
        plain.step()
    for one, other in zip(state_of(model), state_of(alone)):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert optimizer.reduction.counts["steps"] == 12  # one in which nobody had a batch

    for scales in (True, False):  # the scale of losses stays one, too, and is left out where the others leave it out
        model = network()
        optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), precision_mode="fp16")
        optimizer.scaler.set_growth_interval(3)  # grows amid these
        with optimizer.join():
            for step in range(1 if RANK == 0 else 4):
                optimizer.zero_grad()
                loss = model(batch(step)).float().pow(2).mean()
                (optimizer.scale(loss) if scales else loss).backward()
                optimizer.step()
        same_on_all([*state_of(model), torch.tensor([optimizer.scaler.get_scale(), optimizer.scaler._get_growth_tracker()])])

    losses, _ = by_ddp(network, 6)  # nobody is short: as without
    model = network()
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), replanning=SOON)
    with optimizer.join():
        ours = train(model, optimizer, 6)
    assert ours == losses and optimizer.reduction.counts["steps"] == 7
    assert train(model, optimizer, 2, first=6) == by_ddp(network, 8)[0][6:]
