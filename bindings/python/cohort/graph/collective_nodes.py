# SPDX-License-Identifier: Apache-2.0
"""Collectives as nodes of a graph of torch, which run beside what follows them until somebody waits."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import operator
import os
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
import torch.distributed as dist
from torch import fx
from torch._guards import detect_fake_mode

from .. import _meeting
from .errors import DistGraphBuildError
from .ways import is_divided_first

FUNCTIONAL = torch.ops._c10d_functional
ATEN = torch.ops.aten


@dataclasses.dataclass(frozen=True)
class HostGroups:
    """Groups of this rank: those of its host, and those with the same place on theirs."""

    host: Any
    across: Any
    per_host: int


def host_groups(group: Any) -> Optional[HostGroups]:
    """None where hosts have one rank each, or there is one host: nothing is gained there. A collective. Raises
    DistGraphBuildError where hosts have different numbers of ranks."""
    hosts: List[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(hosts, f"{_meeting.host()} {os.environ.get('COHORT_HOST_ID', '')}", group=group)
    ranks: Dict[str, List[int]] = {}
    for rank, host in enumerate(hosts):
        ranks.setdefault(host, []).append(dist.get_global_rank(group, rank))
    counts = {len(of_host) for of_host in ranks.values()}
    if len(counts) > 1:
        fewest, most = min(ranks.values(), key=len), max(ranks.values(), key=len)
        raise DistGraphBuildError(
            "options.strategy", f"hierarchical, and the host of rank {fewest[0]} has {len(fewest)} ranks, that of rank {most[0]} {len(most)}: "
            "shares would have no peers", "start as many ranks on each host, or take smart_overlap")
    per_host = counts.pop()
    if len(ranks) == 1 or per_host == 1:
        return None
    own = next(of_host for of_host in ranks.values() if dist.get_rank() in of_host)
    place = own.index(dist.get_rank())
    peers = [of_host[place] for of_host in ranks.values()]
    # Only those that are in a group make it: ranks of another host make theirs.
    made = [dist.new_group(members, use_local_synchronization=True) for members in (own, peers)]
    return HostGroups(made[0], made[1], per_host)


class CollectiveNodes:
    """Put into a graph of backward, bucket by bucket in the order of the graph. finish() comes last."""

    def __init__(self, graph: fx.Graph, output: fx.Node, group: Any, hosts: Optional[HostGroups]) -> None:
        self.graph, self.output, self.group, self.hosts = graph, output, group, hosts
        self.size = dist.get_world_size(group)
        self.behind: fx.Node = output.prev  # what the next node stands behind
        self.reduced: Dict[fx.Node, fx.Node] = {}  # what is averaged, by what it is the average of
        self._left: List[List[Callable[[], None]]] = []  # what is still to be done, by bucket

    def _call(self, target: Any, *arguments: Any) -> fx.Node:
        """A node, with what it gives as far as shapes and types go."""
        with self.graph.inserting_after(self.behind):
            self.behind = self.graph.call_function(target, arguments)
        values = fx.node.map_arg(arguments, lambda node: node.meta["val"])
        with detect_fake_mode(torch.utils._pytree.tree_leaves(values)) or contextlib.nullcontext():
            self.behind.meta["val"] = target(*values)
        return self.behind

    def reduce(self, gradients: Sequence[fx.Node], behind: fx.Node) -> fx.Node:
        """Averages these, of one type, from behind that node on. The last node that was put there."""
        self.behind = behind
        if self.hosts is None:
            self._reduce_flat(gradients)
        else:
            self._go_on()
            self._reduce_to_shares(gradients, self.hosts)
        return self.behind

    def finish(self) -> None:
        """Waits, at the end of the graph."""
        self.behind = self.output.prev
        while self._left:
            self._go_on()

    def _go_on(self) -> None:
        """Each bucket that is under way takes its next step, the first one first."""
        for steps in self._left:
            steps.pop(0)()
        self._left = [steps for steps in self._left if steps]

    def _reduce_flat(self, gradients: Sequence[fx.Node]) -> None:
        is_divided = is_divided_first(gradients[0].meta["val"].dtype)
        given = [self._call(ATEN.mul.Scalar, one, 1.0 / self.size) for one in gradients] if is_divided else list(gradients)
        sent = self._call(FUNCTIONAL.all_reduce_coalesced.default, given, "sum" if is_divided else "avg", self.group.group_name)

        def wait() -> None:
            for place, one in enumerate(gradients):
                self.reduced[one] = self._call(FUNCTIONAL.wait_tensor.default, self._call(operator.getitem, sent, place))

        self._left.append([wait])

    def _reduce_to_shares(self, gradients: Sequence[fx.Node], hosts: HostGroups) -> None:
        """Inside of the host, then between ranks of one place, then inside of the host again: each step where the next bucket
        begins, so that there is something to compute meanwhile. Values are divided first, as DistributedDataParallel does."""
        shapes = [list(map(int, one.meta["val"].shape)) for one in gradients]
        counts = [math.prod(shape) for shape in shapes]
        flat = self._call(ATEN.cat.default, [self._call(ATEN.reshape.default, one, [-1]) for one in gradients])
        flat = self._call(ATEN.mul.Scalar, flat, 1.0 / self.size)
        rest = -sum(counts) % hosts.per_host
        if rest:
            flat = self._call(ATEN.constant_pad_nd.default, flat, [0, rest])
        under_way = self._call(FUNCTIONAL.reduce_scatter_tensor.default, flat, "sum", hosts.per_host, hosts.host.group_name)

        def between() -> None:
            nonlocal under_way
            share = self._call(FUNCTIONAL.wait_tensor.default, under_way)
            under_way = self._call(FUNCTIONAL.all_reduce.default, share, "sum", hosts.across.group_name)

        def gather() -> None:
            nonlocal under_way
            share = self._call(FUNCTIONAL.wait_tensor.default, under_way)
            under_way = self._call(FUNCTIONAL.all_gather_into_tensor.default, share, hosts.per_host, hosts.host.group_name)

        def take() -> None:
            whole = self._call(FUNCTIONAL.wait_tensor.default, under_way)
            begin = 0
            for one, shape, count in zip(gradients, shapes, counts):
                part = self._call(ATEN.slice.Tensor, whole, 0, begin, begin + count)
                self.reduced[one] = self._call(ATEN.clone.default, self._call(ATEN.reshape.default, part, shape))
                begin += count

        self._left.append([between, gather, take])
