# SPDX-License-Identifier: Apache-2.0
"""What each rank of mpi_test.py does: mpi_ranks.py CASE, under `cohort run --mpi`."""

import os
import sys
import threading

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size


def error_of(function, *arguments, **options):
    """What MPI raises, which it does as mpi4py sets MPI.ERRORS_RETURN."""
    try:
        function(*arguments, **options)
    except MPI.Exception as error:
        return error
    raise AssertionError(f"{function.__name__} did not fail")


def check_alive():
    assert world.allreduce(1) == size


def wrong():
    """Calls that are wrong on all ranks alike leave the communicator as it was."""
    data = np.ones(4)
    for error, text in ((error_of(world.Bcast, data, root=size), f"MPI_Bcast_c: root {size} of a communicator of {size}"),
                        (error_of(world.Send, data, dest=size), f"rank {size} of a communicator"),
                        (error_of(world.Send, data, dest=0, tag=-5), "tag -5"),
                        (error_of(world.Allreduce, data, np.ones(4), op=MPI.BAND), "MPI defines no such operation"),
                        (error_of(world.Split, color=-3), "colour -3"),
                        (error_of(MPI.Comm.Free, MPI.Intracomm(MPI.COMM_SELF)), "are not freed")):
        assert text in error.Get_error_string(), error
        check_alive()
    assert error_of(world.Bcast, data, root=size).Get_error_class() == MPI.ERR_ROOT


def missing():
    """What is not here says so by its name."""
    for function, arguments, reason in ((MPI.Win.Create, (None,), "MPI_Win_create: cohort does not have one-sided"),
                                        (MPI.File.Open, (MPI.COMM_SELF, os.devnull), "MPI_File_open: cohort does not have files"),
                                        (MPI.COMM_SELF.Spawn, (sys.executable,), "MPI_Comm_spawn: cohort does not have ranks"),
                                        (world.Create_cart, ((size,),), "MPI_Cart_create: cohort does not have topologies")):
        error = error_of(function, *arguments)
        assert reason in error.Get_error_string(), error
        assert error.Get_error_class() == MPI.ERR_UNSUPPORTED_OPERATION
        check_alive()


def messages():
    """Of lengths that nobody says before, from whomever, and to oneself; of types with gaps."""
    if rank == 0:
        seen = set()
        for _ in range(size - 1):
            status = MPI.Status()
            message = world.Mprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
            got = np.empty(status.Get_count(MPI.INT), "i")
            message.Recv(got)
            assert (got == status.source).all() and got.size == 1000 * status.source and status.tag == status.source + 7
            seen.add(status.source)
        assert seen == set(range(1, size))
    else:
        world.Send(np.full(1000 * rank, rank, "i"), dest=0, tag=rank + 7)
    world.Barrier()  # what is sent to rank 0 from here on it does not look for above
    request = world.Irecv(np.empty(1), source=rank, tag=1)
    request.Cancel()
    status = MPI.Status()
    request.Wait(status)
    assert status.Is_cancelled()
    grid = np.arange(20.0).reshape(4, 5) + rank
    column = MPI.DOUBLE.Create_vector(4, 1, 5).Commit()
    into = np.zeros((4, 5))
    world.Sendrecv([grid.ravel()[2:], 1, column], (rank + 1) % size, recvbuf=[into.ravel()[1:], 1, column],
                   source=(rank - 1) % size)
    assert (into[:, 1] == np.arange(20.0).reshape(4, 5)[:, 2] + (rank - 1) % size).all() and into.sum() == into[:, 1].sum()
    world.Barrier()


def reductions():
    """Complex numbers, pairs with places, long doubles, and a function of Python, which does not commute."""
    random = np.random.default_rng(5)
    all_data = random.standard_normal((size, 300)) + 1j * random.standard_normal((size, 300))
    got = np.empty(300, complex)
    world.Allreduce(all_data[rank], got)
    np.testing.assert_allclose(got, all_data.sum(axis=0))
    wide = np.full(5, rank + 1, np.longdouble)
    world.Allreduce(MPI.IN_PLACE, wide, MPI.PROD)
    assert (wide == np.prod(np.arange(1, size + 1))).all()
    place, value = world.allreduce((-rank, rank), MPI.MINLOC), world.allreduce((rank, rank), MPI.MAXLOC)
    assert place == (1 - size, size - 1) and value == (size - 1, size - 1)

    def compose(left, right, _):
        """Maps x to a x + b, one after the other."""
        a, b = np.frombuffer(left, "d").reshape(-1, 2), np.frombuffer(right, "d").reshape(-1, 2)
        b[:] = np.stack([b[:, 0] * a[:, 0], b[:, 0] * a[:, 1] + b[:, 1]], axis=1)

    op = MPI.Op.Create(compose, commute=False)
    pair = MPI.DOUBLE.Create_contiguous(2).Commit()
    maps = np.stack([np.arange(2.0, 2 + size), np.arange(1.0, 1 + size)], axis=1)
    for call in (world.Allreduce, world.Scan):
        got = np.empty((40, 2))
        call([np.tile(maps[rank], (40, 1)), 40, pair], [got, 40, pair], op)
        expected = np.array([1.0, 0.0])
        for a, b in maps[:size if call == world.Allreduce else rank + 1]:
            expected = np.array([a * expected[0], a * expected[1] + b])
        np.testing.assert_allclose(got, np.tile(expected, (40, 1)))
    op.Free()


def groups():
    """Many communicators, some at once, some of a few ranks only."""
    open_ones = [world.Split(rank % 2, -rank) for _ in range(6)]
    for one in open_ones:
        assert one.allgather(rank) == sorted(range(rank % 2, size, 2), reverse=True)
    group = world.group.Incl([0, size - 1] if size > 1 else [0])
    for _ in range(3):
        if group.rank != MPI.UNDEFINED:
            few = world.Create_group(group, tag=4)
            assert few.allgather(rank) == sorted({0, size - 1})
            few.Free()
    for one in open_ones:
        one.Free()
    for _ in range(60):
        world.Dup().Free()
    assert world.Split_type(MPI.COMM_TYPE_SHARED).size == size


def threads():
    """Each thread has a communicator of its own."""
    comms = [world.Dup() for _ in range(3)]
    failures = []

    def work(comm, number):
        try:
            for i in range(50):
                assert comm.allreduce(i + number) == size * (i + number)
                assert comm.sendrecv((rank, i), (rank + 1) % size, source=(rank - 1) % size) == ((rank - 1) % size, i)
        except BaseException as failure:
            failures.append(failure)
            raise

    workers = [threading.Thread(target=work, args=(comm, number)) for number, comm in enumerate(comms)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    assert not failures


def killed():
    check_alive()
    if rank == 1:
        os.kill(os.getpid(), 9)
    print(f"rank {rank}: {error_of(check_alive).Get_error_string()}", flush=True)
    os._exit(0)


def disagreeing():
    error = error_of(world.Allreduce, np.ones(4 + rank), np.ones(4 + rank))
    print(f"rank {rank}: {error.Get_error_string()}", flush=True)
    os._exit(0)


globals()[sys.argv[1]]()
