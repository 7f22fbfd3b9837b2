# SPDX-License-Identifier: Apache-2.0
"""The backend "COHORT" of ray.util.collective, for numpy arrays and torch tensors in CPU memory:

    import cohort.ray                                            # on the driver, and in each actor
    collective.init_collective_group(size, rank, "COHORT", "group")

The ranks meet by Ray's key-value store. See docs/use/programs.md.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, Optional, Sequence

import numpy

try:
    import ray
    from ray.experimental import internal_kv
    from ray.util.collective import collective, types
    from ray.util.collective.backend_registry import register_collective_backend
    from ray.util.collective.collective_group.base_collective_group import BaseGroup
except ImportError as error:
    raise ImportError("cohort.ray needs Ray with backends of others for ray.util.collective, as 2.60 has: "
                      f"pip install ray ({error})") from error

from . import _meeting, join
from ._cohort import Communicator, join_timeout, root_info
from ._rendezvous import Rendezvous
from .errors import InvalidArgument

NAME = "COHORT"
_SPACE = b"cohort"
_OPS = {types.ReduceOp.SUM: "sum", types.ReduceOp.PRODUCT: "prod", types.ReduceOp.MIN: "min", types.ReduceOp.MAX: "max"}


class _Store:
    """Ray's, which all actors of a cluster reach."""

    def get(self, key: str) -> Optional[bytes]:
        return internal_kv._internal_kv_get(key, namespace=_SPACE)

    def put(self, key: str, value: bytes) -> None:
        internal_kv._internal_kv_put(key, value, overwrite=True, namespace=_SPACE)

    def delete(self, key: str) -> None:
        internal_kv._internal_kv_del(key, namespace=_SPACE)


def _join(name: str, rank: int, size: int) -> Communicator:
    """Names are those of a namespace of Ray's, as names of actors are."""
    meeting = Rendezvous(_Store(), f"{ray.get_runtime_context().namespace}/{name}", rank, size, join_timeout())
    place = meeting.meet(lambda is_one_host: _meeting.unix_address("ray") if is_one_host else root_info().hex())
    where: Any = {"address": place} if place.startswith("unix:") else {"root_info": bytes.fromhex(place)}
    comm = join(name="ray-" + re.sub("[^!-.0-~]", "_", name)[:60], rank=rank, size=size, **where)
    meeting.leave()
    return comm


def _only(what: str, tensors: Sequence[Any]) -> Any:
    if len(tensors) != 1:
        raise InvalidArgument(f"{what}: {len(tensors)} tensors of one rank, as of several GPUs; give one")
    return tensors[0]


def _seconds(options: Any) -> Optional[float]:
    """What the options of a call say, or None for the group's."""
    timeout: timedelta = getattr(options, "timeout_ms", types.unset_timeout_ms)
    return None if timeout < timedelta(0) else timeout.total_seconds()


def _as_row(tensor: Any) -> Any:
    """The same memory, as one row."""
    return tensor[numpy.newaxis] if isinstance(tensor, numpy.ndarray) else tensor.detach()[None]


def _copied(tensors: Sequence[Any]) -> Any:
    """All of them, as rows of a new one."""
    if isinstance(tensors[0], numpy.ndarray):
        return numpy.stack(tensors)
    return types.th.stack([types.th.as_tensor(tensor) for tensor in tensors]).detach()


def _rows_like(tensor: Any, count: int) -> Any:
    if isinstance(tensor, numpy.ndarray):
        return numpy.empty((count, *tensor.shape), tensor.dtype)
    return types.th.empty((count, *tensor.shape), dtype=tensor.dtype)


def _copy(target: Any, source: Any) -> None:
    if isinstance(target, numpy.ndarray):
        target[...] = source
    else:
        target.detach().copy_(types.th.as_tensor(source))


class CohortGroup(BaseGroup):  # type: ignore[misc]
    """One rank of a group of actors, as ray.util.collective makes it with init_collective_group() or
    create_collective_group(). Every call blocks, for as long as COHORT_TIMEOUT lets it.

    Raises what the package's calls raise, with a rank's number in the group. After a failure the group is destroyed on all
    ranks that live, and may be made again under the same name.
    """

    def __init__(self, world_size: int, rank: int, group_name: str) -> None:
        super().__init__(world_size, rank, group_name)
        self._comm = _join(group_name, rank, world_size)

    @classmethod
    def backend(cls) -> str:
        return NAME

    @classmethod
    def check_backend_availability(cls) -> bool:
        return True

    @property
    def communicator(self) -> Communicator:
        """What the group stands on, for calls that ray.util.collective does not have."""
        return self._comm

    def destroy_group(self) -> None:
        self._comm.close()

    def allreduce(self, tensor: Any, allreduce_options: Any = None) -> None:
        options = allreduce_options or types.AllReduceOptions
        mine = _only("allreduce", tensor)
        self._comm.all_reduce(mine, _OPS[options.reduceOp], out=mine, timeout=_seconds(options))

    def barrier(self, barrier_options: Any = None) -> None:
        self._comm.barrier(timeout=_seconds(barrier_options))

    def reduce(self, tensor: Any, reduce_options: Any = None) -> None:
        """Into the root's tensor. The others' are left as they are."""
        options = reduce_options or types.ReduceOptions
        mine = _only("reduce", tensor)
        out = mine if self.rank == options.root_rank else None
        self._comm.reduce(mine, _OPS[options.reduceOp], options.root_rank, out=out, timeout=_seconds(options))

    def broadcast(self, tensor: Any, broadcast_options: Any = None) -> None:
        options = broadcast_options or types.BroadcastOptions
        self._comm.broadcast(_only("broadcast", tensor), options.root_rank, timeout=_seconds(options))

    def allgather(self, tensor_list: Any, tensor: Any, allgather_options: Any = None) -> None:
        """The ranks' tensors, of one shape, into those of the list."""
        mine = _only("allgather", tensor)
        rows = _rows_like(mine, self.world_size)
        self._comm.all_gather(_as_row(mine), out=rows, timeout=_seconds(allgather_options))
        for target, row in zip(_only("allgather", tensor_list), rows):
            _copy(target, row)

    def reducescatter(self, tensor: Any, tensor_list: Any, reducescatter_options: Any = None) -> None:
        """Element r of the ranks' lists, combined, into rank r's tensor. Lists are left as they are."""
        options = reducescatter_options or types.ReduceScatterOptions
        mine = _only("reducescatter", tensor)
        self._comm.reduce_scatter(_copied(_only("reducescatter", tensor_list)), _OPS[options.reduceOp], out=_as_row(mine),
                                  timeout=_seconds(options))

    def send(self, tensor: Any, send_options: Any) -> None:
        self._comm.send(_only("send", tensor), send_options.dst_rank, timeout=_seconds(send_options))

    def recv(self, tensor: Any, recv_options: Any) -> None:
        self._comm.recv(_only("recv", tensor), recv_options.src_rank, timeout=_seconds(recv_options))


def register() -> None:
    """Called where this module is imported; by its name also as a hook of Ray's, which makes the backend known in every
    worker: ray.init(runtime_env={"worker_process_setup_hook": "cohort.ray.register"})."""
    if not collective.is_backend_available(NAME):
        register_collective_backend(NAME, CohortGroup)


register()
