# SPDX-License-Identifier: Apache-2.0
"""torch.compile(model, backend="cohort"): the backward graph gets its collectives where the planner puts them.

    import cohort.graph.compile                          # registers the backend
    model = torch.compile(model, backend="cohort")       # and any optimizer of torch: gradients come averaged

Options, by torch.compile(..., options={...}): strategy, bucket_size, max_group_size and min_tensor_size, as of
GEDistributedOptimizer; executor, "inductor" or "interpreter"; durations, "measured" or "estimated"; group, a process group."""

from __future__ import annotations

import itertools
import json
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
import torch._functorch.config
import torch.distributed as dist
from torch import fx
from torch._dynamo import register_backend
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

from .. import _cohort
from .collective_nodes import CollectiveNodes, HostGroups, host_groups
from .durations import estimate, has_collectives, measure, tensor_of
from .errors import AllReduceInsertError, DistGraphBuildError
from .options import Options, make_options, refuse_unknown
from .planning import TYPES, compare_plans
from .reduction import stderr_teller
from .ways import AnyWay, measure_cost, most_of_all

KEYS = ("strategy", "bucket_size", "max_group_size", "min_tensor_size", "executor", "durations", "group")
EXECUTORS = ("inductor", "interpreter")
DURATIONS = ("measured", "estimated")
_OTHER_TYPES = {torch.int8: "int8", torch.int16: "int16", torch.int32: "int32", torch.int64: "int64", torch.bool: "uint8",
                torch.uint8: "uint8"}


def _described(name: str, tensor: Optional[torch.Tensor], role: str = "activation", **more: str) -> Dict[str, Any]:
    shape = [] if tensor is None else [int(extent) for extent in tensor.shape]
    kind = "float32" if tensor is None else TYPES.get(tensor.dtype, _OTHER_TYPES.get(tensor.dtype, "float64"))
    return {"name": name, "type": kind, "shape": shape, "role": role, **more}


def graph_of(graph: fx.Graph, parameters: Dict[fx.Node, str], durations: Dict[str, float]) -> str:
    """A backward graph as JSON; `parameters`: which parameter a node is the gradient of; `durations`: microseconds, by node."""
    tensors, nodes = [], []
    for node in graph.nodes:
        if node.op == "output":
            continue
        tensor = tensor_of(node)
        if node.op in ("placeholder", "get_attr"):
            tensors.append(_described(node.name, tensor, "input"))
            continue
        if node in parameters:
            tensors.append(_described(parameters[node], tensor, "parameter"))
            tensors.append(_described(node.name, tensor, "gradient", gradient_of=parameters[node]))
        else:
            tensors.append(_described(node.name, tensor))
        nodes.append({"name": node.name, "op": f"fx.{node.target}", "phase": "backward", "outputs": [node.name],
                      "inputs": list(dict.fromkeys(one.name for one in node.all_input_nodes)),
                      "duration_us": durations.get(node.name, 0.0)})
    return json.dumps({"name": "backward", "tensors": tensors, "nodes": nodes})


class Inserter:
    """Puts collectives into the backward graphs of one group's models."""

    def __init__(self, group: Any, options: Options, measures: bool = True) -> None:
        self.group, self.options, self.measures = group, options, measures
        self.tell = stderr_teller(group)
        self.cost: Any = None
        self.hosts: Optional[HostGroups] = None
        self.insertions: List[Any] = []  # what was done, graph by graph
        self.ready_us: Dict[Any, Dict[str, float]] = {}  # by lists of gradients: when each is there, on the last rank

    def _measure(self, most_bytes: int) -> None:
        """Once. A collective: all ranks compile the same graphs, in one order."""
        if self.cost is None:
            if self.options.allreduce_strategy == "hierarchical":
                self.hosts = host_groups(self.group)
            self.cost = measure_cost(AnyWay(self.group), most_bytes)

    def _durations(self, module: fx.GraphModule, is_new: bool) -> Dict[str, float]:
        """Of the nodes of this graph on this rank. One whose gradients have been planned for already is not measured again."""
        if self.measures and is_new and has_collectives(module):
            self.tell("durations are estimated, since the graph has collectives of its own: ranks would run them a different number of times")
        elif self.measures and is_new:
            try:
                return measure(module)
            except Exception as failure:  # of any node, on numbers without a meaning
                self.tell(f"durations are estimated, since the graph does not run on such numbers: {failure}")
        return estimate(module.graph)

    def insert(self, module: fx.GraphModule, is_parameter: Sequence[bool]) -> fx.GraphModule:
        """Into the graph of a backward pass, whose outputs are the gradients of its inputs in order."""
        output = next(node for node in module.graph.nodes if node.op == "output")
        results = self._own_results(module, output)
        if len(results) != len(is_parameter):
            raise AllReduceInsertError("output", f"backward gives {len(results)} gradients of {len(is_parameter)} inputs",
                                       "use GEDistributedOptimizer, which needs no graph")
        gradients: Dict[fx.Node, str] = {}
        for result, wanted in zip(results, is_parameter):
            if wanted and isinstance(result, fx.Node) and result not in gradients:
                gradients[result] = f"parameter {len(gradients)}"  # not by its place: sizes that vary are inputs, too
        if not gradients:
            return module
        for node in gradients:
            tensor = tensor_of(node)
            if tensor is None or tensor.dtype not in TYPES:
                raise AllReduceInsertError(f"node {node.name}", "this gradient cannot be reduced where it stands",
                                           "use GEDistributedOptimizer, which needs no graph")
        self._measure(sum(int(tensor_of(node).numel()) * 4 for node in gradients))  # type: ignore[union-attr]
        key = tuple((name, tuple(node.meta["val"].shape), node.meta["val"].dtype) for node, name in gradients.items())
        is_new = key not in self.ready_us
        text = graph_of(module.graph, gradients, self._durations(module, is_new))
        graph = _cohort.parse_graph(text, "backward")
        if is_new:
            self.ready_us[key] = self._agreed_ready_us(text, gradients)
        ready_us = {node.name: self.ready_us[key][name] for node, name in gradients.items()}
        limits = _cohort.Limits(self.options.bucket_bytes, self.options.min_tensor_size, self.options.max_group_size)
        made = _cohort.insert_all_reduce(graph, self.options.allreduce_strategy, self.cost, limits, ready_us=ready_us)
        if is_new:
            compare_plans(made.plan, AnyWay(self.group))
        self.insertions.append(made)
        for decision in made.decisions:
            self.tell(decision)
        reduced = self._take_over(module, json.loads(made.graph.to_json()), output)
        # By place: the gradient of an input may be the same node as a parameter's, and is this rank's own.
        output.args = (tuple(reduced.get(one, one) if wanted else one for one, wanted in zip(results, is_parameter)),)
        module.graph.lint()
        module.recompile()
        return module

    def _agreed_ready_us(self, text: str, gradients: Dict[fx.Node, str]) -> Dict[str, float]:
        """When each gradient of this graph is there, on the last rank. A collective, once for a list of gradients: ranks with other
        batches have other times, and compile anew when theirs change: alone, and to the same plan."""
        nodes = json.loads(text)["nodes"]
        ends = dict(zip((node["name"] for node in nodes), itertools.accumulate(node["duration_us"] for node in nodes)))
        return dict(zip(gradients.values(), most_of_all([ends[node.name] for node in gradients], self.group)))

    @staticmethod
    def _own_results(module: fx.GraphModule, output: fx.Node) -> List[Any]:
        """What backward gives: what it was itself given, as where a bias is added last, in memory of its own."""
        results = list(output.args[0])
        last_input = next(node for node in reversed(module.graph.nodes) if node.op == "placeholder")
        for place, result in enumerate(results):
            if isinstance(result, fx.Node) and result.op == "placeholder":
                with module.graph.inserting_after(last_input):
                    results[place] = module.graph.call_function(torch.ops.aten.clone.default, (result,))
                results[place].meta["val"] = tensor_of(result)
        output.args = (tuple(results),)
        return results

    def _take_over(self, module: fx.GraphModule, inserted: Dict[str, Any], output: fx.Node) -> Dict[fx.Node, fx.Node]:
        """The collectives of the graph that came back become nodes behind those that they stand behind. What is averaged, by what
        it is the average of."""
        by_name = {node.name: node for node in module.graph.nodes}
        behind = next(node for node in reversed(module.graph.nodes) if node.op in ("placeholder", "get_attr"))
        nodes = CollectiveNodes(module.graph, output, self.group, self.hosts)
        for node in inserted["nodes"]:
            if node.get("kind") != "collective":
                behind = by_name[node["name"]]
            elif all(name in by_name for name in node["inputs"]):  # the first of those that reduce a bucket host by host
                behind = nodes.reduce([by_name[name] for name in node["inputs"]], behind)
        nodes.finish()
        return nodes.reduced


_inserters: Dict[Any, Inserter] = {}


def _one_of(given: Dict[str, Any], key: str, known: Sequence[str]) -> str:
    value = given.get(key, known[0])
    if value not in known:
        raise DistGraphBuildError(f"options.{key}", f"{value!r} is none", f"give one of {', '.join(known)}")
    return str(value)


def _options_of(given: Dict[str, Any]) -> Tuple[Any, str, bool, Options]:
    if not (dist.is_available() and dist.is_initialized()):
        raise DistGraphBuildError("torch.compile", "there is no process group", "cohort.torch.init_process_group() comes first")
    refuse_unknown(given, KEYS, "options.")
    group = given.get("group") or dist.distributed_c10d._get_default_group()
    executor, durations = _one_of(given, "executor", EXECUTORS), _one_of(given, "durations", DURATIONS)
    names = {"strategy": "allreduce_strategy"}
    own = ("executor", "durations", "group")
    options = make_options({names.get(key, key): value for key, value in given.items() if key not in own})
    return group, executor, durations == DURATIONS[0], options


def inserter_of(group: Any, options: Options, measures: bool = True) -> Inserter:
    """One for the graphs of a group that have the same options: costs are measured once."""
    key = (group.group_name, options, measures)
    if key not in _inserters or _inserters[key].group is not group:  # another one had the name before
        _inserters[key] = Inserter(group, options, measures)
    return _inserters[key]


def _without_cache() -> Any:
    """AOTAutograd keeps whole passes by the model's graph, as other backends compiled them: without collectives. What inductor
    keeps is found by the graph with its collectives, and stays in use."""
    return torch._functorch.config.patch(enable_autograd_cache=False)


def cohort(module: fx.GraphModule, example_inputs: Sequence[Any], *, options: Optional[Dict[str, Any]] = None, **_: Any) -> Any:
    """The backend: torch.compile calls it. Every rank compiles the same graphs in the same order."""
    group, executor, measures, made = _options_of(options or {})
    inserter = inserter_of(group, made, measures)
    is_parameter = [isinstance(one, torch.nn.Parameter) for one in example_inputs]
    if executor == "interpreter":
        def backward(graph: fx.GraphModule, _: Sequence[Any]) -> Any:
            return make_boxed_func(inserter.insert(graph, is_parameter).forward)

        compiler = aot_autograd(fw_compiler=lambda graph, _: make_boxed_func(graph.forward), bw_compiler=backward)
        with _without_cache():
            return compiler(module, example_inputs)
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    def compile_inner(graph: fx.GraphModule, inputs: Sequence[Any], **keywords: Any) -> Any:
        if keywords.get("is_backward"):
            graph = inserter.insert(graph, is_parameter)
        return compile_fx_inner(graph, inputs, **keywords)

    with _without_cache():
        return compile_fx(module, example_inputs, inner_compile=compile_inner)


register_backend(cohort, name="cohort")
