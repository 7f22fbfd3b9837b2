# SPDX-License-Identifier: Apache-2.0
"""torch.compile(model, backend="cohort") puts collectives into backward graphs, on every rank; started by graph_test.py."""

import io
import sys

import torch
import torch.distributed as dist
from torch import nn

import cohort.graph.compile
from cohort.graph import DistGraphBuildError, GEDistributedOptimizer
from graph_training import SOON, batch, by_ddp, layers, network, refused, same_on_all, sgd, state_of, train

RANK = SIZE = 0


def compiled(make, steps, **options):
    torch.compiler.reset()
    model = make()
    with torch._dynamo.config.patch(error_on_recompile=True):
        return train(torch.compile(model, backend="cohort", options=options), sgd(model), steps), model


def insertions():
    return [made for inserter in cohort.graph.compile._inserters.values() for made in inserter.insertions]


def part_the_interpreter_gives_the_losses_of_ddp():
    expected, _ = by_ddp(network, 6)
    for strategy in ("synchronous", "compute_communication_overlap", "smart_overlap"):
        losses, model = compiled(network, 6, executor="interpreter", strategy=strategy)
        assert losses == expected, (strategy, losses, expected)
        same_on_all(state_of(model))
        nodes = insertions()[-1].graph.to_text()
        count = len(insertions()[-1].plan.buckets)
        assert all(f"reduce_bucket_{index}" in nodes for index in range(count)), nodes
        assert count == (1 if strategy == "synchronous" else 8 if strategy == "compute_communication_overlap" else count)


def part_inductor_gives_the_losses_of_ddp():
    """Also where it has compiled the same model without collectives before, and keeps that."""
    def small():
        return layers(8, 16, 4)

    expected, _ = by_ddp(small, 4)
    torch.compiler.reset()
    alone = small()
    train(torch.compile(alone), sgd(alone), 1)
    for _ in range(2):
        before = len(insertions())
        losses, model = compiled(small, 4, max_group_size=2)
        for one, other in zip(losses, expected):
            assert abs(one - other) < 1e-5, (losses, expected)
        same_on_all(state_of(model))
        assert len(insertions()) == before + 1
        assert max(bucket[1] - bucket[0] for bucket in insertions()[-1].plan.buckets) <= 2


def part_collectives_stand_amid_the_backward_graph():
    seen = []
    inserter = cohort.graph.compile.Inserter.insert

    def watched(self, module, is_parameter):
        inserted = inserter(self, module, is_parameter)
        seen.append([str(node.target) for node in inserted.graph.nodes])
        return inserted

    cohort.graph.compile.Inserter.insert = watched
    try:
        compiled(network, 1, executor="interpreter", strategy="compute_communication_overlap")
    finally:
        cohort.graph.compile.Inserter.insert = inserter
    first = next(place for place, target in enumerate(seen[0]) if "all_reduce" in target)
    assert any("mm" in target for target in seen[0][first:]), seen[0]  # computes on while the first one is reduced
    assert all("wait_tensor" not in target for target in seen[0][:-2 * 8 - 1]), seen[0]


def part_frozen_parameters_and_shared_ones():
    def made():
        model = layers(8, 8, 8, 4)
        model[2].weight = model[0].weight
        model[4].bias.requires_grad_(False)
        return model

    def optimizer_of(model):
        return torch.optim.SGD([one for one in model.parameters() if one.requires_grad], 0.1)

    expected, _ = by_ddp(made, 4, optimizer_of=optimizer_of)
    torch.compiler.reset()
    model = made()
    ours = train(torch.compile(model, backend="cohort", options={"executor": "interpreter"}), optimizer_of(model), 4)
    assert ours == expected


def part_a_gradient_that_backward_is_given_is_averaged():
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = nn.Parameter(torch.ones(4, 8))

        def forward(self, x):
            return x + self.shift

    expected, _ = by_ddp(Shifted, 3)
    losses, model = compiled(Shifted, 3, executor="interpreter")
    assert losses == expected
    same_on_all(state_of(model))


def part_the_gradient_of_an_input_is_this_ranks_own():
    """Also where it is the same node as a parameter's."""
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = nn.Parameter(torch.ones(4, 8))

        def forward(self, x):
            return (x + self.shift) * 2

    torch.compiler.reset()
    model, x, weight = Shifted(), batch(0).requires_grad_(), torch.full((4, 8), RANK + 1.0)
    (torch.compile(model, backend="cohort", options={"executor": "interpreter"})(x) * weight).sum().backward()
    assert torch.equal(x.grad, 2 * weight)
    assert torch.allclose(model.shift.grad, torch.full((4, 8), float(SIZE + 1)))


def part_ranks_with_other_batches_make_one_plan():
    """Also where one of them compiles anew, alone."""
    torch.compiler.reset()
    model = layers(8, 64, 64, 64, 4)
    step = torch.compile(model, backend="cohort", dynamic=False, options={"executor": "interpreter"})
    optimizer = sgd(model)
    before = len(insertions())
    for repeat in (1, 1, 500) if RANK else (500, 500, 500):
        optimizer.zero_grad()
        step(torch.cat([batch(0)] * repeat)).pow(2).mean().backward()
        optimizer.step()
        same_on_all(state_of(model))
    assert len(insertions()) == before + (2 if RANK else 1)
    assert len({made.plan.hash for made in insertions()[before:]}) == 1


def part_models_that_others_compile_are_planned_as_they_are():
    expected, _ = by_ddp(network, 8)
    torch.compiler.reset()
    model = network()
    optimizer = GEDistributedOptimizer(model=model, optimizer=sgd(model), replanning=SOON)
    assert train(torch.compile(model, backend="aot_eager"), optimizer, 8) == expected
    assert optimizer.reduction.planning.plans > 0 and optimizer.steps[-1].backward_end_us > 0


def part_what_makes_no_sense_is_refused():
    for options, words in (({"stratgy": "x"}, ("stratgy", "'strategy'")), ({"executor": "cpu"}, ("inductor",)),
                           ({"strategy": "hierarchical"}, ("hierarchical",))):
        with refused(DistGraphBuildError, *words):
            cohort.graph.compile.cohort(None, [], options=options)


def part_decisions_are_printed_in_detail():
    before, told = dist.get_debug_level(), sys.stderr
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    sys.stderr = io.StringIO()
    try:
        compiled(lambda: nn.Linear(8, 4), 1, executor="interpreter")
        text = sys.stderr.getvalue()
    finally:
        sys.stderr = told
        dist.set_debug_level(before)
    assert "gradient " in text and "bucket 0: " in text, text
