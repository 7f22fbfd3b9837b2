# SPDX-License-Identifier: Apache-2.0
"""Requests in asyncio: each event loop waits for one descriptor."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any, Dict, Generator, List

from ._cohort import Communicator, Completions, Request

CALLS = ("all_gather", "all_reduce", "all_to_all", "barrier", "broadcast", "exclusive_scan", "gather", "recv", "reduce",
         "reduce_scatter", "scan", "scatter", "send")


class _Bridge:
    """What a loop waits for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._completions = Completions()
        self._waiting: Dict[int, List["asyncio.Future[None]"]] = {}

    def future_of(self, request: Request) -> "asyncio.Future[None]":
        loop = self._loop()
        assert loop is not None
        future: "asyncio.Future[None]" = loop.create_future()
        if not self._waiting:
            loop.add_reader(self._completions.fileno(), self._drain)
        waiting = self._waiting.setdefault(request._id, [])
        waiting.append(future)
        if len(waiting) == 1:
            request._expect(self._completions)
        return future

    def _drain(self) -> None:
        for identity in self._completions.take():
            for future in self._waiting.pop(identity, ()):
                if not future.done():
                    future.set_result(None)
        loop = self._loop()
        if not self._waiting and loop is not None:
            loop.remove_reader(self._completions.fileno())


_bridges: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Bridge]" = weakref.WeakKeyDictionary()


def _await(self: Request) -> Generator[Any, None, Any]:
    if not self.done():
        loop = asyncio.get_running_loop()
        bridge = _bridges.get(loop)
        if bridge is None:
            bridge = _bridges[loop] = _Bridge(loop)
        try:
            yield from bridge.future_of(self)
        except asyncio.CancelledError:
            self.cancel()
            raise
    return self.result()


setattr(Request, "__await__", _await)


class AsyncCalls:
    """A communicator's calls for asyncio: they start when they are called, in that order, and are awaited.

    `await comm.aio.all_reduce(x)`; several may be under way, as in asyncio.gather. Cancelling the wait cancels the call,
    which gives the communicator up on all ranks once it has begun; timeout=SECONDS does the same with an error that
    says who has not come.
    """

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm

    def __getattr__(self, name: str) -> Any:
        if name not in CALLS:
            raise AttributeError(f"'{name}' is no call that can be awaited; there are {', '.join(CALLS)}")
        call = getattr(self._comm, name)

        def start(*arguments: Any, **keywords: Any) -> Request:
            request: Request = call(*arguments, async_op=True, **keywords)
            return request

        start.__name__, start.__doc__ = name, call.__doc__
        setattr(self, name, start)
        return start
