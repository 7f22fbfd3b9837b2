# SPDX-License-Identifier: Apache-2.0
"""How long the nodes of a compiled graph take: measured, by running it node by node, or estimated."""

from __future__ import annotations

import functools
import math
import statistics
import time
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils.flop_counter import flop_registry

REPETITIONS = 5
MOST_SECONDS = 5.0  # of all repetitions; the first one runs whatever it takes


def tensor_of(node: fx.Node) -> Optional[torch.Tensor]:
    """What a node gives, as far as shapes and types go; None where it is no tensor."""
    value = node.meta.get("val")
    return value if isinstance(value, torch.Tensor) else None


@functools.lru_cache(maxsize=None)
def own_rates() -> Tuple[float, float]:
    """What this rank does in a microsecond: operations of matmul, and bytes that are read or written."""
    side, repetitions = 256, 5
    one, out = torch.rand(side, side), torch.empty(side, side)
    seconds = []
    for call in (lambda: torch.mm(one, one, out=out), lambda: out.copy_(one)):
        times = []
        for _ in range(repetitions):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
        seconds.append(sorted(times)[repetitions // 2])
    return 2 * side**3 / seconds[0] / 1e6, 2 * 4 * side**2 / seconds[1] / 1e6


def _estimate_us(node: fx.Node) -> float:
    """By its operations and the bytes it touches; views touch none."""
    inputs = [tensor for tensor in map(tensor_of, node.all_input_nodes) if tensor is not None]
    output = tensor_of(node)
    if output is None or (isinstance(node.target, torch._ops.OpOverload) and node.target.is_view):
        return 0.0
    touched = sum(math.prod(map(int, tensor.shape)) * tensor.element_size() for tensor in [*inputs, output])
    count = flop_registry.get(getattr(node.target, "overloadpacket", None))
    operations = 0
    if count is not None:
        arguments, keywords = fx.node.map_arg((node.args, node.kwargs), lambda one: one.meta.get("val"))
        operations = count(*arguments, **keywords, out_val=output)
    rates = own_rates()
    return operations / rates[0] + touched / rates[1]


def estimate(graph: fx.Graph) -> Dict[str, float]:
    """Microseconds, by node."""
    return {node.name: _estimate_us(node) for node in graph.nodes if node.op not in ("placeholder", "get_attr", "output")}


class _Timed(fx.Interpreter):
    """Notes how long each node takes."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.samples: Dict[str, List[float]] = {}

    def run_node(self, n: fx.Node) -> Any:
        began = time.perf_counter()
        result = super().run_node(n)
        if n.op not in ("placeholder", "get_attr", "output"):
            self.samples.setdefault(n.name, []).append((time.perf_counter() - began) * 1e6)
        return result


def _input_of(node: fx.Node, chance: torch.Generator) -> Any:
    """Of the shape, strides and type that it will have. Whole numbers are zero, so that they are places everywhere."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return int(value) if isinstance(value, (int, torch.SymInt)) else value
    made = torch.empty_strided(tuple(map(int, value.shape)), tuple(map(int, value.stride())), dtype=value.dtype)
    return made.uniform_(0.0, 1.0, generator=chance) if value.dtype.is_floating_point else made.zero_()


def has_collectives(module: fx.GraphModule) -> bool:
    """Whether a node is a collective of the program, which other ranks would have to run as often."""
    graphs = [part.graph for part in module.modules() if isinstance(part, fx.GraphModule)]
    return any("c10d" in getattr(node.target, "namespace", "") for graph in graphs for node in graph.nodes)


def measure(module: fx.GraphModule) -> Dict[str, float]:
    """Microseconds, by node: medians of a few runs on this rank, on numbers without a meaning. Needs the memory of the graph's
    inputs once more meanwhile. Raises what a node raises on such numbers."""
    chance = torch.Generator().manual_seed(0)
    timed = _Timed(module)
    with torch.random.fork_rng(devices=[]), unset_fake_temporarily(), torch.no_grad():
        inputs = [_input_of(node, chance) for node in module.graph.nodes if node.op == "placeholder"]
        timed.run(*inputs)  # the first time of everything does not count
        timed.samples.clear()
        began = time.perf_counter()
        for _ in range(REPETITIONS):
            timed.run(*inputs)
            if time.perf_counter() - began > MOST_SECONDS:
                break
    return {name: statistics.median(values) for name, values in timed.samples.items()}
