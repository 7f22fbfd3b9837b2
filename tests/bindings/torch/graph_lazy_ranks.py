# SPDX-License-Identifier: Apache-2.0
"""With lazy_step parameters are updated where they are used next, and whoever reads one sees DistributedDataParallel's numbers, bit
for bit, on every rank; started by graph_steps_test.py."""

import contextlib
import copy
import io
import itertools
import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from cohort.graph import DistGraphBuildError, GEDistributedOptimizer, LinearCost, planning
from cohort.graph.lazy import LazyStep, Pending, send_order

from graph_ranks import Branches
from graph_training import SOON, batch, by_ddp, layers, network, refused, same, same_on_all, sgd, state_of, train

RANK = SIZE = 0


def lazily(make, steps, loss_of=None, optimizer_of=sgd, first=0, **options):
    model = make()
    optimizer = GEDistributedOptimizer(model=model, optimizer=optimizer_of(model),
                                       **{"replanning": SOON, "lazy_step": True, "max_group_size": 2, **options})
    losses = train(model, optimizer, steps, loss_of=loss_of)
    return losses, model, optimizer


@contextlib.contextmanager
def sent_backwards():
    """However fast links and models are."""
    planning.send_order = lambda buckets, cost: list(range(len(buckets)))[::-1]
    try:
        yield
    finally:
        planning.send_order = send_order


def pending(model):
    return [name for name, one in model.named_parameters() if type(one) is Pending]


def part_updates_come_where_parameters_are_used():
    for optimizer_of in (sgd, lambda model: torch.optim.AdamW(model.parameters(), 0.01),
                         lambda model: torch.optim.Adam(model.parameters(), 0.01, foreach=True),
                         lambda model: torch.optim.Adagrad(model.parameters(), 0.01)):
        expected, state = by_ddp(network, 12, optimizer_of=optimizer_of)
        with sent_backwards():
            losses, model, optimizer = lazily(network, 12, optimizer_of=optimizer_of)
        assert losses == expected
        assert optimizer.reduction.lazy.deferred > 5 and len(pending(model)) == 8
        seen = []
        for layer in model:
            layer.register_forward_hook(lambda *_: seen.append(len(pending(model))))
        with torch.inference_mode():
            model(batch(0))
        assert seen[0] >= 1 and seen[-1] == 0 and seen == sorted(seen, reverse=True), seen
        same(state_of(model), state)
        assert optimizer.steps[-1].waited_us is not None and optimizer.steps[-1].update_us > 0


def part_gradients_may_stay_and_add_up():
    """No zero_grad(), one before the pass, one after the step, and that of the model: as without."""
    def run(model, optimizer, clears):
        for step in range(8):
            if clears == "before":
                optimizer.zero_grad()
            model(batch(step)).pow(2).mean().backward()
            optimizer.step()
            if clears in ("after", "model"):
                (optimizer if clears == "after" else model).zero_grad()
        return state_of(model)

    for clears in ("before", "after", "model", "never"):
        def small(model):
            return torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)

        model = DistributedDataParallel(network())
        expected = run(model, small(model), clears)
        model = network()
        ours = run(model, GEDistributedOptimizer(model=model, optimizer=small(model), lazy_step=True, replanning=SOON), clears)
        if clears == "never":  # what is averaged already is averaged again, which rounds
            for one, other in zip(ours, expected):
                torch.testing.assert_close(one, other)
        else:
            same(ours, expected)


def part_who_reads_sees_what_a_step_has_made():
    losses, expected = by_ddp(network, 9)
    target = nn.ParameterList(expected)

    def by_pickle(model):
        file = io.BytesIO()
        torch.save(list(model.parameters()), file)
        file.seek(0)
        return torch.load(file, weights_only=False)

    def averaged(model):
        average = torch.optim.swa_utils.AveragedModel(layers(8, 32, 32, 16, 4))
        average.update_parameters(model)
        return list(average.module.parameters())

    ways = (
        lambda model: list(model.state_dict().values()), lambda model: list(copy.deepcopy(model).parameters()), by_pickle, averaged,
        lambda model: [torch.clone(one) for one in model.parameters()], lambda model: [one.data for one in model.parameters()],
        lambda model: [torch.from_numpy(one.detach().numpy()) for one in reversed(list(model.parameters()))][::-1],
        lambda model: [torch.from_dlpack(one.detach()) for one in model.parameters()],
        lambda model: torch._foreach_mul(list(model.parameters()), 1.0))
    for way in ways:
        _, model, optimizer = lazily(network, 9)
        assert len(pending(model)) == 8
        same([one.detach() for one in way(model)], [one.detach() for one in target])
        same_on_all(state_of(model))
    _, model, optimizer = lazily(network, 9)
    assert abs(float(nn.utils.get_total_norm(model.parameters()) - nn.utils.get_total_norm(expected))) == 0
    for read in (lambda model, optimizer: optimizer.state_dict(), lambda model, optimizer: optimizer.inner.state_dict(),
                 lambda model, optimizer: optimizer.complete(), lambda model, optimizer: optimizer.close()):
        _, model, optimizer = lazily(network, 9)
        read(model, optimizer)
        assert not pending(model)
        same(state_of(model), expected)
    _, model, _ = lazily(network, 9)
    assert [tuple(one.shape) for one in model.parameters()] and pending(model)  # what no update changes waits for none
    assert sum(one.numel() for one in model.parameters() if one.requires_grad) > 0 and len(pending(model)) == 8


def part_gradients_can_be_read_and_changed_before_the_step():
    def clipped(model, optimizer):
        for step in range(8):
            optimizer.zero_grad()
            (100 * model(batch(step)).pow(2).mean()).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
        return state_of(model)

    model = DistributedDataParallel(network())
    expected = clipped(model, sgd(model))
    model = network()
    same(clipped(model, GEDistributedOptimizer(model=model, optimizer=sgd(model), lazy_step=True, replanning=SOON)), expected)


def part_settings_are_those_of_the_step():
    def trained(model, optimizer):
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.1)
        for step in range(10):
            train(model, optimizer, 1, first=step)
            schedule.step()
        return state_of(model)

    def grouped(model):
        first, *rest = model.parameters()
        return torch.optim.SGD([{"params": [first], "lr": 0.3}, {"params": rest}], 0.1, momentum=0.9)

    model = DistributedDataParallel(network())
    expected = trained(model, grouped(model))
    model = network()
    same(trained(model, GEDistributedOptimizer(model=model, optimizer=grouped(model), lazy_step=True, replanning=SOON)), expected)


class Attentive(nn.Module):
    """Of whose parts some are never called: their parents read their parameters. One is used twice."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(11)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.unit = nn.LSTM(8, 8, batch_first=True)
        self.last = nn.Linear(8, 8, bias=False)

    def forward(self, x):
        x = nn.functional.linear(x, self.last.weight)[:, None]
        x, _ = self.attention(x, x, x)
        x, _ = self.unit(x)
        return self.last(x)


def part_parameters_that_others_read_are_waited_for():
    expected, state = by_ddp(Attentive, 10)
    losses, model, optimizer = lazily(Attentive, 10)
    assert losses == expected and optimizer.reduction.lazy.deferred > 3
    same(state_of(model), state)


def part_control_flow_and_passes_that_add_up():
    def loss_of(model, step):
        chance = random.Random(1000 * step + RANK)
        taken = chance.sample(range(4 if step % 3 else 2), chance.randint(0, 2)) if step % 10 else [0, 1, 2, 3]
        return model(batch(step), taken).pow(2).mean()

    def optimizer_of(model):
        return torch.optim.AdamW(model.parameters(), 0.01, weight_decay=0.1)

    losses, state = by_ddp(Branches, 60, loss_of, optimizer_of, find_unused_parameters=True)
    ours, model, optimizer = lazily(Branches, 60, loss_of, optimizer_of)
    assert ours == losses and optimizer.reduction.counts["fallback"] > 0
    same(state_of(model), state)
    same_on_all([torch.tensor([optimizer.reduction.planning.plan.hash & (1 << 62) - 1, optimizer.reduction.planning.plans])])

    expected = by_ddp(network, 6, lambda model, step: sum(model(batch(4 * step + one)).pow(2).mean() / 4 for one in range(4)))[1]
    model = network()
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), lazy_step=True, gradient_accumulation_steps=4,
                                       replanning=SOON)
    train(model, optimizer, 24)
    for one, other in zip(state_of(model), expected):
        torch.testing.assert_close(one, other)
    assert optimizer.reduction.lazy.deferred > 0


def part_hooks_of_programs_see_one_step():
    model = network()
    inner, calls = sgd(model), []
    inner.register_step_post_hook(lambda *_: calls.append(len(pending(model))))
    optimizer = GEDistributedOptimizer(model=model, optimizer=inner, lazy_step=True, replanning=SOON)
    assert train(model, optimizer, 8) == by_ddp(network, 8)[0]
    assert calls == [0] * 8 and optimizer.reduction.lazy.deferred == 0


def part_what_forward_uses_first_is_sent_first():
    cost = LinearCost(10, 5, 0.001)
    assert send_order([(0, 100), (0, 100), (0, 100)], cost) == [2, 1, 0]
    assert send_order([(0, 100), (500, 100), (900, 100)], cost) == [0, 1, 2]
    assert send_order([(0, 10**6), (100, 100), (200, 100), (300, 100)], cost) == [0, 3, 2, 1]
    for sizes in itertools.permutations((1, 1000, 10**6)):
        assert sorted(send_order([(100 * place, size) for place, size in enumerate(sizes)], cost)) == [0, 1, 2]
    losses, model, optimizer = lazily(network, 12, max_group_size=1)
    buckets = len(optimizer.reduction.memory.buckets)
    sent = [one.bucket for one in optimizer.steps[-1].buckets]
    assert sorted(sent) == list(range(buckets + 1)) and sent.index(buckets) == sent.index(buckets - 1) - 1, sent  # flags, then the last
    rows = [None] * SIZE
    dist.all_gather_object(rows, sent)
    assert all(row == sent for row in rows), rows


def part_it_works_over_another_backend_and_with_compression():
    group = dist.new_group(backend="gloo")
    expected = by_ddp(network, 8)[0]
    for one, other in zip(lazily(network, 8, process_group=group)[0], expected):
        assert abs(one - other) < 1e-5
    _, model, optimizer = lazily(network, 8, enable_compression={"kind": "fp16", "always": True})
    assert any(bucket.compresses for bucket in optimizer.reduction.memory.buckets)
    same_on_all(state_of(model))


def part_uneven_inputs_are_joined():
    model = network()
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), lazy_step=True, replanning=SOON)
    train(model, optimizer, 5)
    with optimizer.join():
        train(model, optimizer, 3 if RANK == 0 else 5, first=5)
    same_on_all(state_of(model))
    train(model, optimizer, 2, first=10)
    same_on_all(state_of(model))


def part_what_cannot_be_put_off_is_refused():
    for options, words in (({"gradient_clipping": 1.0}, ("gradient_clipping",)), ({"precision_mode": "fp16"}, ("precision_mode",)),
                           ({"allreduce_strategy": "hierarchical"}, ("smart_overlap",)), ({"split_size": 1000}, ("split_size",)),
                           ({"enable_memory_reuse": False}, ("enable_memory_reuse",))):
        with refused(DistGraphBuildError, "lazy_step", *words):
            GEDistributedOptimizer(lazy_step=True, **options)
    model = network()
    with refused(DistGraphBuildError, "LBFGS", "AdamW"):
        GEDistributedOptimizer(model=model, optimizer=torch.optim.LBFGS(model.parameters()), lazy_step=True)
    with refused(DistGraphBuildError, "compiled"):
        model = torch.compile(network(), backend="eager")
        GEDistributedOptimizer(model=model, optimizer=sgd(model), lazy_step=True)

    class Own(nn.Parameter):
        pass

    model = network()
    model[0].bias = Own(torch.zeros(32))
    with refused(DistGraphBuildError, "0.bias", "Own"):
        GEDistributedOptimizer(model=model, optimizer=sgd(model), lazy_step=True)


def part_a_failure_is_told_again_to_whoever_comes_next():
    _, model, optimizer = lazily(network, 8)
    lazy = optimizer.reduction.lazy
    assert isinstance(lazy, LazyStep) and pending(model)
    wait = optimizer.reduction.wait_for

    def fails(*_):
        raise RuntimeError("planted")

    optimizer.reduction.wait_for = fails
    for _ in range(2):
        try:
            model(batch(0))
        except RuntimeError as failure:
            assert "planted" in str(failure)
        else:
            raise AssertionError("nothing was raised")
    optimizer.reduction.wait_for = wait
    same_on_all(state_of(model))
