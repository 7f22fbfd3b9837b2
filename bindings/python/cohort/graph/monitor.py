# SPDX-License-Identifier: Apache-2.0
"""What steps of training come to: communication, computation, and how much of one the other hides."""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any, Dict, List, Optional, Sequence

import torch
import torch.distributed as dist

from .errors import DistGraphBuildError
from .reduction import Step


def measure_of(steps: Sequence[Step]) -> Dict[str, float]:
    """Means of steps, in milliseconds; and of all of them `overlap`, the part of communication that is hidden, and
    `seed_efficiency`, 1 - the larger of communication and computation / their sum: never above 0.5, and the same whether
    anything is hidden or not."""
    if not steps:
        return {}
    communication = sum(step.communication_us for step in steps)
    computation = sum(step.computation_us for step in steps)
    exposed = sum(step.exposed_us for step in steps)
    count = 1e3 * len(steps)
    return {
        "step": (computation + exposed) / count, "computation": computation / count, "communication": communication / count,
        "exposed": exposed / count, "overlap": 1 - exposed / communication if communication > 0 else 1.0,
        "seed_efficiency": seed_efficiency(communication, computation),
    }


def seed_efficiency(communication: float, computation: float) -> float:
    total = communication + computation
    return 1 - max(communication, computation) / total if total > 0 else 0.0


class PerformanceMonitor:
    """Of an optimizer, whose steps it reads; or of a model, which profile_step(batch) runs: gradients are averaged, then
    forward is, and nothing is hidden.

    communication_time, computation_time: seconds, of all steps so far."""

    def __init__(self, optimizer: Any = None, model: Optional[torch.nn.Module] = None, group: Any = None) -> None:
        self.optimizer, self.group = optimizer, group
        self.model = model if model is not None else getattr(optimizer, "model", None)
        self._profiled = [0.0, 0.0]  # seconds of profile_step: communication, computation

    def profile_step(self, batch: Any) -> None:
        """One after the other: the gradients that there are, then forward. A collective."""
        if self.model is None:
            raise DistGraphBuildError("PerformanceMonitor", "it has no `model`", "give model=..., or an optimizer that has one")
        began = time.perf_counter()
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad.clone(), group=self.group)  # a copy: the step's own go on as they are
        averaged = time.perf_counter()
        with torch.no_grad():
            self.model(batch)
        self._profiled[0] += averaged - began
        self._profiled[1] += time.perf_counter() - averaged

    @property
    def steps(self) -> List[Step]:
        return self.optimizer.steps if self.optimizer is not None else []

    @property
    def communication_time(self) -> float:
        return self._profiled[0] + sum(step.communication_us for step in self.steps) / 1e6

    @property
    def computation_time(self) -> float:
        return self._profiled[1] + sum(step.computation_us for step in self.steps) / 1e6

    def get_efficiency(self) -> float:
        """`seed_efficiency`: never above 0.5, and the same whether anything is hidden or not. `overlap` says that."""
        return seed_efficiency(self.communication_time, self.computation_time)

    @property
    def overlap(self) -> float:
        """The part of communication beside which something was computed: 1 - exposed / communication."""
        return measure_of(self.steps).get("overlap", 1.0)

    @property
    def roofline(self) -> float:
        """What the plan's lower bound leaves exposed, of what is: 1 is as good as can be. Medians."""
        if not self.steps:
            return 1.0
        from .. import _cohort

        planning = self.optimizer.reduction.planning
        end = planning.plan.items[-1][1]
        bound = max(0.0, _cohort.lower_bound_us(planning.plan, planning.cost) - end)
        exposed = statistics.median(step.exposed_us for step in self.steps)
        return min(1.0, bound / exposed) if exposed > 0 else 1.0

    def table(self) -> str:
        """Of all steps, and of the last ten."""
        rows = [("", "all", "last 10")]
        whole, last = measure_of(self.steps), measure_of(self.steps[-10:])
        rows += [(f"{key} (ms)" if key not in ("overlap", "seed_efficiency") else key, f"{whole[key]:.3f}", f"{last[key]:.3f}")
                 for key in whole]
        rows.append(("roofline", f"{self.roofline:.3f}", ""))
        lines = [f"{name:<22}{one:>12}{other:>12}" for name, one, other in rows]
        return "\n".join([*lines, "seed_efficiency is never above 0.5, whatever is hidden; overlap = 1 - exposed / communication"])

    def line(self) -> str:
        """Of the last step."""
        now = measure_of(self.steps[-1:])
        if not now:
            return "no step yet"
        return (f"step {now['step']:.1f} ms: computation {now['computation']:.1f}, communication {now['communication']:.1f}, "
                f"exposed {now['exposed']:.1f}; overlap {now['overlap']:.0%}, seed_efficiency {now['seed_efficiency']:.2f}")

    def show(self, stream: Any = None) -> None:
        """The line: over the one before on a terminal, else a line more."""
        stream = stream or sys.stderr
        print(f"\r\x1b[K{self.line()}" if stream.isatty() else self.line(), end="" if stream.isatty() else "\n", file=stream, flush=True)

    def timeline_png(self, path: str, count: int = 3) -> bool:
        """Draws the last steps: what is computed, and each bucket, red where nothing hides it. False without matplotlib."""
        try:
            import matplotlib
        except ImportError:
            return False
        matplotlib.use("Agg")
        from matplotlib import pyplot

        figure, axes = pyplot.subplots(figsize=(10, 3))
        steps = self.steps[-count:]
        for step in steps:
            offset = (step.began - steps[0].began) * 1e3
            forward, backward, end = (value / 1e3 for value in (step.first_ready_us, step.backward_end_us, step.end_us))
            axes.broken_barh([(offset, forward)], (10, 8), color="tab:blue")
            axes.broken_barh([(offset + forward, backward - forward)], (10, 8), color="tab:cyan")
            axes.broken_barh([(offset + end, step.update_us / 1e3)], (10, 8), color="tab:green")
            for _, _, begin, over in step.buckets:
                hidden = max(begin, min(over, step.backward_end_us))
                axes.broken_barh([(offset + begin / 1e3, (hidden - begin) / 1e3)], (0, 8), color="tab:gray", edgecolor="white")
                axes.broken_barh([(offset + hidden / 1e3, (over - hidden) / 1e3)], (0, 8), color="tab:red", edgecolor="white")
        axes.set_yticks([4, 14], ["communication", "computation"])
        axes.set_xlabel("ms; forward, backward, update; buckets, red where exposed")
        figure.tight_layout()
        figure.savefig(path, dpi=100)
        pyplot.close(figure)
        return True
