# SPDX-License-Identifier: Apache-2.0
"""Requests in asyncio: each event loop waits for one descriptor."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any, Dict, Generator, List

from ._cohort import Completions, Request


class _Bridge:
    """What a loop waits for, as long as it lives."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._completions = Completions()
        self._waiting: Dict[int, List["asyncio.Future[None]"]] = {}
        loop.add_reader(self._completions.fileno(), self._drain)

    def future_of(self, request: Request) -> "asyncio.Future[None]":
        loop = self._loop()
        assert loop is not None
        future: "asyncio.Future[None]" = loop.create_future()
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


_bridges: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Bridge]" = weakref.WeakKeyDictionary()


def wait_for(request: Request) -> Generator[Any, None, Any]:
    """Request.__await__: its result, once the running loop has been told that it is over."""
    if not request.done():
        loop = asyncio.get_running_loop()
        bridge = _bridges.get(loop)
        if bridge is None:
            bridge = _bridges[loop] = _Bridge(loop)
        try:
            yield from bridge.future_of(request)
        except asyncio.CancelledError:
            request.cancel()
            raise
    return request.result()
