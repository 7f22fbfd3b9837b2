# SPDX-License-Identifier: Apache-2.0
"""Calls in asyncio: several under way, cancelled, late; the loop goes on meanwhile."""

import unittest

from support import RanksTestCase

SEVERAL = """
import asyncio
import cohort, numpy

comm = cohort.init()

async def main():
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticker = asyncio.create_task(tick())
    for count in (1, 1000, 300_000):
        parts = [numpy.full(count, float(comm.rank + i)) for i in range(4)]
        sums = await asyncio.gather(*(comm.aio.all_reduce(part) for part in parts))
        for i, total in enumerate(sums):
            assert (total == sum(range(comm.size)) + comm.size * i).all()
    if comm.rank == 0:
        waiting = comm.aio.barrier()
        before = ticks
        while ticks < before + 10:
            await asyncio.sleep(0)
        assert not waiting.done()
        await comm.aio.send(numpy.ones(1), 1)
        await waiting
    else:
        assert await comm.aio.recv(numpy.empty(1), 0) == 0
        await comm.aio.barrier()
    ticker.cancel()
    request = comm.aio.all_reduce(numpy.ones(1))
    first, second = await asyncio.gather(request, request)  # awaited twice
    assert first is second

asyncio.run(main())
asyncio.run(main())  # in a loop of its own
"""

IN_TWO_LOOPS = """
import asyncio, gc, threading
import cohort, numpy

comm = cohort.init()
request = comm.all_reduce(numpy.ones(1), async_op=True) if comm.rank == 0 else None
if comm.rank == 0:
    waiting = threading.Barrier(3)

    async def wait():
        task = asyncio.ensure_future(request)
        await asyncio.sleep(0)
        waiting.wait()
        assert (await task)[0] == comm.size

    async def give_up():
        awaiting = request.__await__()
        next(awaiting)  # expected in a loop that ends before

    asyncio.run(give_up())
    gc.collect()
    threads = [threading.Thread(target=lambda: asyncio.run(wait())) for _ in range(2)]
    for thread in threads:
        thread.start()
    waiting.wait()
    cohort.send(numpy.ones(1), 1)
    for thread in threads:
        thread.join()
else:
    cohort.recv(numpy.ones(1), 0)
    comm.all_reduce(numpy.ones(1))
"""

GIVEN_UP = """
import asyncio
import cohort, numpy

comm = cohort.init()

async def main():
    if comm.rank == 0:
        data = numpy.ones(1)
        try:
            await asyncio.wait_for(comm.aio.all_reduce(data), 0.1)
        except asyncio.TimeoutError:
            print("late", flush=True)
        try:
            await comm.aio.barrier()
        except cohort.PeerAborted as error:  # for all ranks, this one too
            assert error.rank == 0
            print("given up", flush=True)
    else:
        while comm.failure is None:
            await asyncio.sleep(0.01)
        try:
            await comm.aio.barrier(timeout=5)
        except cohort.PeerAborted:
            print("told", flush=True)

asyncio.run(main())
"""


class Asyncio(RanksTestCase):
    def test_several_are_under_way_and_the_loop_goes_on(self):
        for transport in ("shm", "tcp"):
            self.check_ranks(2, SEVERAL, COHORT_TRANSPORT=transport)

    def test_one_call_may_be_awaited_in_several_loops(self):
        self.check_ranks(2, IN_TWO_LOOPS)

    def test_a_wait_that_is_cancelled_cancels_the_call(self):
        output = self.check_ranks(2, GIVEN_UP)
        for word in ("late", "given up", "told"):
            self.assertIn(word, output)


if __name__ == "__main__":
    unittest.main()
