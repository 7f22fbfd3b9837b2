# SPDX-License-Identifier: Apache-2.0
"""Which gradients travel together, from what is measured: the same on all ranks, made anew where it no longer fits."""

from __future__ import annotations

import json
import statistics
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from .. import _cohort
from .._cohort import LinearCost
from .errors import DistGraphBuildError
from .lazy import least_bytes, send_order
from .memory import Slot
from .observed import Observed, cost_beside, points_of
from .options import Options
from .ways import AnyWay, measure_cost, most_of_all

TYPES = {torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32", torch.float64: "float64"}


def graph_of(slots: Sequence[Slot], ready_us: Dict[str, float], forward_us: float, name: str) -> str:
    """A step of training as JSON, in the form that docs/use/graph.md has: forward, a node for each gradient in the order in
    which they are ready, and their updates."""
    tensors: List[Dict[str, Any]] = [{"name": "loss", "role": "loss"}]
    nodes: List[Dict[str, Any]] = [{"name": "forward", "op": "forward", "outputs": ["loss"], "duration_us": forward_us,
                                    "inputs": [slot.name for slot in slots]}]
    last_us = forward_us
    for slot in sorted(slots, key=lambda slot: ready_us[slot.name]):
        shape, kind = list(slot.parameter.shape), TYPES[slot.parameter.dtype]
        gradient = f"{slot.name}.grad"
        tensors += [{"name": slot.name, "type": kind, "shape": shape, "role": "parameter"},
                    {"name": gradient, "type": kind, "shape": shape, "role": "gradient", "gradient_of": slot.name}]
        nodes.append({"name": f"backward {slot.name}", "op": "backward", "phase": "backward", "inputs": ["loss"],
                      "outputs": [gradient], "duration_us": max(0.0, ready_us[slot.name] - last_us)})
        last_us = max(last_us, ready_us[slot.name])
    for slot in slots:
        nodes.append({"name": f"update {slot.name}", "op": "update", "phase": "update", "inputs": [slot.name, f"{slot.name}.grad"],
                      "attributes": {"updates": slot.name}})
    return json.dumps({"name": name, "tensors": tensors, "nodes": nodes})


def compare_plans(plan: Any, way: AnyWay) -> None:
    """All ranks have this plan. A collective."""
    mine = plan.hash & ((1 << 62) - 1)  # of signed elements
    shared = torch.empty(way.size, dtype=torch.int64)
    dist.all_gather_single(shared, torch.tensor([mine]), group=way.group)
    for rank, other in enumerate(shared.tolist()):
        if other != shared[0].item():
            raise DistGraphBuildError("plan", f"rank {rank} has made {other:016x} and rank 0 {shared[0].item():016x}",
                                      "give all ranks the same model, options and version of cohort")


class Tried(NamedTuple):
    """A plan that steps were made with."""

    end_us: float  # of those steps
    insertion: Any
    plan: Any  # the insertion's, with the ready times and costs that they showed
    cost: LinearCost


class Planning:
    """First gradients are reduced after backward, so that ready times are those of compute alone. From these, the latest
    rank's, and a measured cost a plan is made, and again from the ready times and costs of buckets beside backward, at most
    `most_rounds` of them; the one whose steps ended first is taken, by smart_overlap that without overlap, too. From then on
    predicted and measured ends are compared: where they differ on a rank for `patience` steps, all begin anew. Every rank
    makes the same steps of it at the same time."""

    def __init__(self, slots: Sequence[Slot], way: AnyWay, options: Options) -> None:
        self.slots, self.way, self.options = list(slots), way, options
        self.rule = options.replanning
        self.bucket_bytes = options.bucket_bytes
        self.alone = self.cost = measure_cost(way, sum(slot.bytes for slot in slots))
        self.plans = 0
        self.decisions: List[str] = []
        self.ready_us = {slot.name: float(place) for place, slot in enumerate(reversed(self.slots))}
        self.forward_us = 0.0
        self.rounds = 0
        self.expected_us = 0.0
        self.after_backward_us = 0.0  # when steps end whose gradients are reduced after backward
        self.overlaps = True
        self.why_after_backward = ""
        self.tried: List[Tried] = []
        self._evaluated: Optional[Tried] = None  # what is known of the plan in use, beyond what it was made from
        self.insertion = self._insert("synchronous")
        compare_plans(self.plan, self.way)
        self.begin("profiling")

    def begin(self, stage: str) -> None:
        """A stage: profiling, refining or settled."""
        self.stage = stage
        self.steps = self.steps_beyond = 0
        if stage == "profiling":
            self.rounds, self.tried = 0, []
        self._samples: Dict[str, List[float]] = {slot.name: [] for slot in self.slots}
        self._forwards: List[float] = []
        self._ends: List[float] = []
        self._observed = Observed(len(self.plan.buckets))

    @property
    def plan(self) -> Any:
        known = self._evaluated
        return known.plan if known is not None and known.insertion is self.insertion else self.insertion.plan

    @property
    def cuts(self) -> List[Tuple[int, int]]:
        return [(bucket[0], bucket[1]) for bucket in self.plan.buckets]

    @property
    def items(self) -> List[Tuple[str, float, int, int]]:
        """Of the plan, by the names of parameters."""
        return [(name[:-len(".grad")], ready, size, offset) for name, ready, size, offset in self.plan.items]

    @property
    def order(self) -> List[int]:
        """Places of buckets as they are sent. With lazy_step what the next forward uses first goes before the rest."""
        buckets = self.plan.buckets
        if not self.options.lazy_step or self.stage == "profiling":
            return list(range(len(buckets)))
        return send_order([(bucket[3], bucket[2]) for bucket in buckets], self.cost)

    @property
    def is_pipelined(self) -> bool:
        """Buckets are sent while backward runs."""
        return self.stage != "profiling" and self.options.enable_pipeline and self.strategy != "synchronous"

    @property
    def strategy(self) -> str:
        return self.options.allreduce_strategy if self.overlaps else "synchronous"

    def _insert(self, strategy: str) -> Any:
        text = graph_of(self.slots, self.ready_us, self.forward_us, "step")
        graph = _cohort.parse_graph(text, "step")
        least = self.options.min_tensor_size
        if self.options.lazy_step and strategy == "smart_overlap":  # no order of large buckets would help forward
            strategy, least = "compute_communication_overlap", max(least, least_bytes(self.cost))
        limits = _cohort.Limits(self.bucket_bytes, least, self.options.max_group_size)
        form = self.options.form if strategy == "hierarchical" else "flat"
        made = _cohort.insert_all_reduce(graph, strategy, self.cost, limits, self.options.split_size, form,
                                         {f"{name}.grad": us for name, us in self.ready_us.items()})
        if self.options.memory.limit:
            _cohort.check_memory(made.graph, self.options.memory.limit)
        return made

    def add(self, ready_us: Dict[str, float], forward_us: float, end_us: float, ends_us: Dict[int, float]) -> Optional[str]:
        """A step that every rank made as always, and when buckets were averaged in it, as far as that is known. What is to be
        done: "plan", "profile", or nothing."""
        self.steps += 1
        if self.stage == "settled":
            self._compare_with_expected(end_us)
            return None
        if self.steps > self.rule.skipped_steps:
            for name, us in ready_us.items():
                self._samples[name].append(us)
            self._forwards.append(forward_us)
            self._ends.append(end_us)
            self._observed.add(ends_us)
        return "plan" if self.steps >= self.rule.skipped_steps + self.rule.profile_steps else None

    def _compare_with_expected(self, end_us: float) -> None:
        """Steps in a row that are beyond the tolerance count, above it or below it: where they are now one and now the other,
        no other plan would help."""
        difference = end_us - self.expected_us
        side = 0 if abs(difference) <= self.rule.tolerance * self.expected_us else 1 if difference > 0 else -1
        self.steps_beyond = self.steps_beyond + side if side * self.steps_beyond >= 0 and side != 0 else side

    @property
    def wants_profile(self) -> bool:
        """This rank's measurements are too far from what was predicted, for long."""
        return self.stage == "settled" and abs(self.steps_beyond) >= self.rule.patience

    def profile_again(self) -> None:
        """A collective: costs may be others now, too."""
        self.alone = self.cost = measure_cost(self.way, sum(slot.bytes for slot in self.slots))
        self.decisions.append(f"profile: measured and predicted ends differed by more than {self.rule.tolerance:.0%} for "
                              f"{self.rule.patience} steps")
        self.overlaps, self.why_after_backward = True, ""
        self.insertion = self._insert("synchronous")
        self.begin("profiling")

    def plan_anew(self) -> bool:
        """From what was sampled; whether there is another plan. A collective."""
        mine = [statistics.median(self._samples[slot.name]) for slot in self.slots]
        own_ends = self._observed.medians()
        shared = most_of_all([*mine, statistics.median(self._forwards), statistics.median(self._ends), *own_ends], self.way.group)
        count = len(mine)
        self.ready_us = {slot.name: us for slot, us in zip(self.slots, shared)}
        self.forward_us, end_us = shared[count:count + 2]
        if self.stage == "profiling":
            self.after_backward_us = end_us
        else:
            self.cost = self._cost_beside(shared[count + 2:])
            plan = self.plan.evaluated([self.ready_us[name] for name, *_ in self.items], self.cost)
            self.tried.append(Tried(end_us, self.insertion, plan, self.cost))
        made = self._insert(self.options.allreduce_strategy)
        compare_plans(made.plan, self.way)
        is_new = all(made.plan.hash != one.plan.hash for one in self.tried)
        if is_new and self.rounds < max(1, self.rule.most_rounds):
            self.rounds += 1
            self.plans += 1
            self.insertion = made
            self.decisions += made.decisions
            self.begin("refining")
            return True
        return self._settle()

    def _cost_beside(self, ends_us: Sequence[float]) -> LinearCost:
        """Of buckets that are sent while backward runs, from when they were averaged."""
        if not self.is_pipelined:
            return self.alone
        ready = [max(self.ready_us[name] for name, *_ in self.items[first:end]) for first, end in self.cuts]
        return cost_beside(self.alone, points_of([bucket[2] for bucket in self.plan.buckets], ready, ends_us, self.alone))

    def _settle(self) -> bool:
        """For the plan whose steps ended first. Whether that is another one than the last."""
        last, best = self.tried[-1], min(self.tried, key=lambda one: one.end_us)
        self._evaluated, self.insertion, self.cost = best, best.insertion, best.cost
        is_other = best.plan.hash != last.plan.hash
        self.plans += is_other
        predicted = best.plan.finish_us
        self.expected_us = predicted if abs(best.end_us - predicted) <= self.rule.tolerance * predicted else best.end_us
        self.begin("settled")
        return self.settle_for_less_overlap(best.end_us) or is_other

    def settle_for_less_overlap(self, end_us: float) -> bool:
        """Where cores both compute and send, what is sent beside backward may slow it by more than it hides. Whether the plan
        is another one then."""
        if (self.options.allreduce_strategy != "smart_overlap" or not self.rule.compares_with_synchronous
                or end_us <= self.after_backward_us):
            return False
        self.overlaps = False
        self.plans += 1
        self.insertion = self._insert("synchronous")
        self.expected_us = self.after_backward_us
        self.why_after_backward = (f"smart_overlap: steps end at {end_us:.0f} us where gradients are reduced while backward runs, at "
                                   f"{self.after_backward_us:.0f} us where all are after it, which is taken\n")
        self.decisions.append(self.why_after_backward.rstrip())
        return True

    def take_bucket_bytes(self, most: int) -> None:
        """Another limit, the same on all ranks, and the plan within it."""
        self.bucket_bytes = most
        self.insertion = self._insert(self.strategy)
        compare_plans(self.plan, self.way)
        self.plans += 1
        self.expected_us = self.plan.finish_us

    def explain(self, measured: Optional[Tuple[float, float]]) -> str:
        return str(_cohort.explain(self.plan, self.cost, measured)) + self.why_after_backward
