# SPDX-License-Identifier: Apache-2.0
"""Read by mypy --strict, never run: what hints allow, and, by `type: ignore`, what they find. An ignore too many is an error."""

import asyncio
from typing import List, Optional

import numpy

import cohort
import hcomm


def right() -> None:
    with cohort.init(timeout=30.0) as comm:
        rank: int = comm.rank
        names: List[int] = comm.world_ranks
        group: Optional[cohort.Communicator] = comm.split(rank % 2)
        total = cohort.all_reduce(numpy.ones(3), "sum", group, timeout=1.0)
        comm.reduce_scatter(total, op=cohort.scaled_sum(0.5), uneven=True)
        request: cohort.Request = comm.all_reduce(total, async_op=True)
        over: bool = request.test()
        print(rank, names, over, request.wait(timeout=2))
    try:
        cohort.barrier()
    except cohort.PeerDied as error:
        culprit: Optional[int] = error.rank
        print(culprit, error.kind.upper())
    print(hcomm.get_world_size() + 1)


async def in_asyncio(comm: cohort.Communicator) -> None:
    await asyncio.gather(comm.aio.all_reduce(numpy.ones(1)), comm.aio.barrier())
    await comm.all_reduce(numpy.ones(1), async_op=True)


def wrong(comm: cohort.Communicator, request: cohort.Request) -> None:
    comm.all_reduce(numpy.ones(1), timeout="soon")  # type: ignore[arg-type]
    comm.all_reduce(numpy.ones(1), roots=1)  # type: ignore[call-arg]
    comm.all_redcue(numpy.ones(1))  # type: ignore[attr-defined]
    comm.rank = 3  # type: ignore[misc]
    comm.group(0, "pair")  # type: ignore[arg-type]
    print(request.wait(timeout="soon"))  # type: ignore[arg-type]
    rank: str = cohort.get_rank()  # type: ignore[assignment]
    print(rank)
