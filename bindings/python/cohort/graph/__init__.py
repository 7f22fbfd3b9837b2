# SPDX-License-Identifier: Apache-2.0
"""Gradient graphs: training steps whose gradients are averaged while backward runs, by a plan made of what is measured.

    from cohort.graph import GEDistributedOptimizer

    optimizer = GEDistributedOptimizer(model=model)        # in place of DistributedDataParallel and an optimizer

Graphs and the planner need nothing else; what trains needs torch. See docs/use/graph-pytorch.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .._cohort import (Graph, Insertion, Limits, LinearCost, Plan, check_memory, explain, fit, fuse_kernels, insert_all_reduce,
                       lower_bound_us, parse_graph, plan, rules_of_others, summarize, to_chrome_trace)
from .errors import *  # noqa: F403: the exceptions are the package's
from .errors import __all__ as _errors
from .options import Compression, Options, Replanning
from .scheduler import DynamicBucketScheduler

if TYPE_CHECKING:
    from .monitor import PerformanceMonitor
    from .optimizer import GEDistributedOptimizer
    from .savings import checkpoint_layers, offload_activations

# What needs torch, by its module: imported when it is asked for.
_WITH_TORCH = {"GEDistributedOptimizer": "optimizer", "PerformanceMonitor": "monitor", "checkpoint_layers": "savings",
               "offload_activations": "savings"}

__all__ = [
    "Compression", "DynamicBucketScheduler", "Graph", "Insertion", "Limits", "LinearCost", "Options", "Plan", "Replanning",
    "check_memory", "explain", "fit", "fuse_kernels", "insert_all_reduce", "lower_bound_us", "parse_graph", "plan", "rules_of_others",
    "summarize", "to_chrome_trace", "GEDistributedOptimizer", "PerformanceMonitor", "checkpoint_layers", "offload_activations",
    *_errors,
]


def __getattr__(name: str) -> Any:
    if name not in _WITH_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f".{_WITH_TORCH[name]}", __name__)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(f"cohort.graph.{name} needs PyTorch: pip install 'cohort[torch]' ({error})") from error
    return getattr(module, name)
