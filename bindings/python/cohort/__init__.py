# SPDX-License-Identifier: Apache-2.0
"""Collective communication between processes: all_reduce, all_gather and the others, on numpy arrays and torch tensors.

    import cohort, numpy

    cohort.init()
    total = cohort.all_reduce(numpy.ones(1024, dtype=numpy.float32), op="sum")

Every rank is a process, started by `cohort run -n 4 -- python3 program.py` or another launcher. All ranks make the same
calls in the same order. Calls take whatever holds elements in memory and copy none of them; results are new arrays of the
same kind, or go where `out` says. See docs/use/python.md.
"""

from __future__ import annotations

import atexit
import operator
import os
import sys
import weakref
from typing import Any, Optional, Sequence, Union

from . import errors
from ._aio import AsyncCalls
from ._cohort import Communicator, Request, cancel_started, forget_started
from ._cohort import join as _join
from ._cohort import root_info
from .errors import *  # noqa: F403: the exceptions are the package's
from .errors import CohortError, InvalidArgument

__version__ = "0.1.0"
__all__ = [
    "Communicator", "Request", "ScaledSum", "__version__", "abort", "all_gather", "all_reduce", "all_to_all", "barrier",
    "broadcast", "empty", "exclusive_scan", "finalize", "gather", "get_rank", "get_world_size", "init", "is_initialized",
    "join", "new_group", "recv", "reduce", "reduce_scatter", "root_info", "scaled_sum", "scan", "scatter", "send", "split", "world",
    *errors.__all__,
]

# A module that is loaded anew finds what it had.
_world: Optional[Communicator] = globals().get("_world")
_open: "weakref.WeakSet[Communicator]" = globals().get("_open") or weakref.WeakSet()
_is_forked: bool = globals().get("_is_forked", False)  # from a rank, and it has not called init() itself


class ScaledSum:
    """The reduction of scaled_sum()."""

    def __init__(self, factor: float) -> None:
        self.factor = float(factor)

    def __repr__(self) -> str:
        return f"scaled_sum({self.factor})"


def scaled_sum(factor: float) -> ScaledSum:
    """A reduction: the sum of the elements, each multiplied by the factor first."""
    return ScaledSum(factor)


def join(**options: Any) -> Communicator:
    """Joins another communicator than the world: name, rank, size, address, job, host_id, machine_id, transport, algorithm,
    determinism ("D0" to "D3"), timeout and join_timeout in seconds, buffer_bytes, heap_bytes; root_info with rank and size:
    the bytes that rank 0 got of root_info() and sent to all. What is not given is the environment's."""
    comm = _join(**options)
    _open.add(comm)
    return comm


def init(**options: Any) -> Communicator:
    """Joins the world, by what the launcher says in the environment; options as for join(). Returns it: also a context
    manager that leaves at its end. Once it is there, init() without options gives it again."""
    global _world, _is_forked
    if _world is not None and not _world.is_closed:
        if options:
            raise InvalidArgument("init() was called before; finalize() first, or join() another communicator")
        return _world
    _world = join(**options)
    _is_forked = False
    return _world


def finalize() -> None:
    """Cancels requests that are under way, and leaves the world and every other communicator. Called when the
    interpreter ends, if the program does not. Raises the first failure, after it has tried to leave all."""
    global _world
    cancel_started()
    failures = []
    for comm in list(_open):
        try:
            if not comm.is_closed:
                comm.close()
        except CohortError as failure:
            failures.append(failure)
    _open.clear()
    _world = None
    if failures:
        raise failures[0]


def _end() -> None:
    """The interpreter ends: the other ranks are told if it is by an exception."""
    reason = errors.reason_of_end()
    for comm in list(_open):
        try:
            if reason is not None and not comm.is_closed:
                comm.abort(reason)
        except CohortError:
            pass  # a child of fork, or nobody is left to be told
    try:
        finalize()
    except CohortError as failure:  # too late to be raised
        print(f"cohort: {errors.reason_of(failure)}", file=sys.stderr)


def _forget() -> None:
    """A child of fork is no rank: what there is belongs to its parent."""
    global _world, _is_forked
    _is_forked = _is_forked or any(not comm.is_closed for comm in _open)
    _open.clear()
    _world = None
    forget_started()


atexit.register(_end)
os.register_at_fork(after_in_child=_forget)


def is_initialized() -> bool:
    """Whether init() has been called, and finalize() not since."""
    return _world is not None and not _world.is_closed


def world() -> Communicator:
    """The communicator of all ranks."""
    if _world is None and _is_forked:
        raise InvalidArgument(
            "this process was forked from a rank after it had joined, and is none itself; call cohort in the parent, start "
            "a process anew, or join here under another name: cohort.init(name=...)")
    if _world is None:
        raise InvalidArgument("there is no communicator in this process yet; call cohort.init() first")
    return _world


def get_rank(group: Optional[Communicator] = None) -> int:
    """This process's number, from 0 on."""
    return (group or world()).rank


def get_world_size(group: Optional[Communicator] = None) -> int:
    """How many ranks there are."""
    return (group or world()).size


def new_group(ranks: Sequence[int], name: Optional[str] = None, group: Optional[Communicator] = None) -> Communicator:
    """A communicator of these ranks, called by them only, with the same ranks and name."""
    return (group or world()).group(list(ranks), name or "ranks-" + "-".join(map(str, ranks)))


def split(color: int, key: int = 0, group: Optional[Communicator] = None) -> Optional[Communicator]:
    """The communicator of the ranks that give the same color; None for a negative one. Every rank calls it."""
    return (group or world()).split(color, key)


def abort(reason: str, group: Optional[Communicator] = None) -> None:
    """Gives up: calls of all ranks fail with PeerAborted and this reason."""
    (group or world()).abort(reason)


def empty(shape: Union[int, Sequence[int]], dtype: Any = "float32", group: Optional[Communicator] = None) -> Any:
    """A numpy array, not filled, in memory that the ranks of this host map: collectives on it copy nothing twice.
    dtype "bfloat16" gives uint16 elements: pass dtype="bfloat16" to the calls, too."""
    import numpy

    kind = numpy.dtype("uint16" if dtype == "bfloat16" else dtype)
    try:
        extents = tuple(map(operator.index, [shape] if isinstance(shape, (int, numpy.integer)) else shape))
    except TypeError:
        raise TypeError(f"empty: `shape` is {shape!r}; give a number of elements, or one for each dimension") from None
    if min(extents, default=0) < 0:
        raise ValueError(f"empty: `shape` is {shape!r}; give numbers of 0 or more")
    count = 1
    for extent in extents:
        count *= extent
    if count == 0:
        return numpy.empty(extents, kind)
    memory = (group or world()).allocate(count * kind.itemsize)
    return numpy.frombuffer(memory, dtype=kind).reshape(extents)


def _track(make: Any) -> Any:
    def made(self: Communicator, *arguments: Any, **keywords: Any) -> Any:
        comm = make(self, *arguments, **keywords)
        if comm is not None:
            _open.add(comm)
        return comm

    made.__name__, made.__doc__ = make.__name__, make.__doc__
    return made


def _enter(self: Communicator) -> Communicator:
    return self


def _exit(self: Communicator, kind: Any, failure: Optional[BaseException], traceback: Any) -> None:
    if failure is not None:
        self.abort(errors.reason_of(failure))
    if self is _world:
        finalize()
    else:
        self.close()


def _repr(self: Communicator) -> str:
    return f"<cohort.Communicator '{self.name}', rank {self.rank} of {self.size}, {self.transport}>"


for _name, _function in {
    "split": _track(Communicator.split), "group": _track(Communicator.group), "__enter__": _enter, "__exit__": _exit,
    "__repr__": _repr, "aio": property(AsyncCalls, doc=AsyncCalls.__doc__),
    "empty": lambda self, shape, dtype="float32": empty(shape, dtype, self),
}.items():
    setattr(Communicator, _name, _function)


# The world's calls, or a group's. Written out, since each call counts.


def all_reduce(tensor: Any, op: Any = "sum", group: Optional[Communicator] = None, *, out: Any = None,
               timeout: Optional[float] = None, algorithm: Optional[str] = None, dtype: Any = None,
               async_op: bool = False) -> Any:
    """Communicator.all_reduce, of the group or the world: the ranks' tensors combined, on every rank."""
    return (group or _world or world()).all_reduce(tensor, op, out=out, timeout=timeout, algorithm=algorithm, dtype=dtype,
                                                   async_op=async_op)


def all_gather(tensor: Any, group: Optional[Communicator] = None, **options: Any) -> Any:
    """Communicator.all_gather: every rank's rows, one rank behind the other, on every rank."""
    return (group or _world or world()).all_gather(tensor, **options)


def reduce_scatter(tensor: Any, op: Any = "sum", group: Optional[Communicator] = None, **options: Any) -> Any:
    """Communicator.reduce_scatter: the ranks' tensors combined, and the rows of the result shared out."""
    return (group or _world or world()).reduce_scatter(tensor, op, **options)


def broadcast(tensor: Any, root: int = 0, group: Optional[Communicator] = None, **options: Any) -> Any:
    """Communicator.broadcast: the root's tensor into everybody's, in place."""
    return (group or _world or world()).broadcast(tensor, root, **options)


def reduce(tensor: Any, op: Any = "sum", root: int = 0, group: Optional[Communicator] = None, **options: Any) -> Any:
    """Communicator.reduce: as all_reduce, for the root alone."""
    return (group or _world or world()).reduce(tensor, op, root, **options)


def gather(tensor: Any, root: int = 0, group: Optional[Communicator] = None, **options: Any) -> Any:
    """Communicator.gather: as all_gather, for the root alone."""
    return (group or _world or world()).gather(tensor, root, **options)


def scatter(tensor: Any = None, root: int = 0, group: Optional[Communicator] = None, **options: Any) -> Any:
    """Communicator.scatter: the rows of the root's tensor, shared out."""
    return (group or _world or world()).scatter(tensor, root, **options)


def all_to_all(tensor: Any, group: Optional[Communicator] = None, **options: Any) -> Any:
    """Communicator.all_to_all: block r of the rows to rank r."""
    return (group or _world or world()).all_to_all(tensor, **options)


def scan(tensor: Any, op: Any = "sum", group: Optional[Communicator] = None, **options: Any) -> Any:
    """Communicator.scan: the tensors of ranks 0 to this one, combined."""
    return (group or _world or world()).scan(tensor, op, **options)


def exclusive_scan(tensor: Any, op: Any = "sum", group: Optional[Communicator] = None, **options: Any) -> Any:
    """Communicator.exclusive_scan: the tensors of the ranks before this one, combined."""
    return (group or _world or world()).exclusive_scan(tensor, op, **options)


def barrier(group: Optional[Communicator] = None, **options: Any) -> Any:
    """Returns when every rank has called it."""
    return (group or _world or world()).barrier(**options)


def send(tensor: Any, to: int, tag: int = 0, group: Optional[Communicator] = None, **options: Any) -> Any:
    """Communicator.send: the tensor to that rank, whose recv takes it."""
    return (group or _world or world()).send(tensor, to, tag, **options)


def recv(tensor: Any, source: Optional[int] = None, tag: int = 0, group: Optional[Communicator] = None,
         **options: Any) -> Any:
    """Communicator.recv: into the tensor, from that rank or from anybody; the rank that it is from."""
    return (group or _world or world()).recv(tensor, source, tag, **options)
