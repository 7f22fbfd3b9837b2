# SPDX-License-Identifier: Apache-2.0
"""Calls for asyncio. What waits for them is _bridge's, which is imported with the first wait: asyncio itself takes longer
to import than all of this package."""

from __future__ import annotations

from typing import Any, Generator

from ._cohort import Communicator, Request

CALLS = ("all_gather", "all_reduce", "all_to_all", "barrier", "broadcast", "exclusive_scan", "gather", "recv", "reduce",
         "reduce_scatter", "scan", "scatter", "send")


def _first_await(self: Request) -> Generator[Any, None, Any]:
    from ._bridge import wait_for

    setattr(Request, "__await__", wait_for)
    return wait_for(self)


setattr(Request, "__await__", _first_await)


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
