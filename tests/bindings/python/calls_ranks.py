# SPDX-License-Identifier: Apache-2.0
"""Every call of the package, on every rank of a world of three or more; started by calls_test.py."""

import array
import ctypes
import inspect
import os
import sys
import threading

import numpy as np

import cohort
from support import run_parts

try:
    import torch  # before the ranks meet: it takes seconds of a core, which no call has to wait for
except ImportError:
    torch = None

comm = cohort.init(timeout=30)
RANK, SIZE = comm.rank, comm.size


def raises(kind, function, *texts):
    try:
        function()
    except kind as error:
        for text in texts:
            assert text in str(error), f"'{text}' is not in '{error}'"
        return error
    raise AssertionError(f"{kind} was not raised")


def equal(got, wanted):
    np.testing.assert_array_equal(np.asarray(got), np.asarray(wanted))
    assert np.asarray(got).shape == np.asarray(wanted).shape


def part_places():
    assert cohort.is_initialized() and cohort.init() is comm
    assert cohort.get_rank() == RANK and cohort.get_world_size() == SIZE
    assert comm.world_ranks == list(range(SIZE)) and comm.name == "world"
    assert f"rank {RANK} of {SIZE}" in repr(comm)


def part_reductions_by_name():
    mine = np.arange(6, dtype=np.float64).reshape(2, 3) + RANK
    all_ranks = np.stack([np.arange(6, dtype=np.float64).reshape(2, 3) + rank for rank in range(SIZE)])
    for op, result in {"sum": all_ranks.sum(0), "avg": all_ranks.mean(0), "max": all_ranks.max(0),
                       "min": all_ranks.min(0), "prod": all_ranks.prod(0)}.items():
        np.testing.assert_allclose(cohort.all_reduce(mine, op=op), result)
    equal(cohort.all_reduce(mine, cohort.scaled_sum(0.5)), all_ranks.sum(0) * 0.5)
    bits = np.array([1 << RANK], dtype=np.uint32)
    equal(cohort.all_reduce(bits, "bit_or"), np.array([(1 << SIZE) - 1], dtype=np.uint32))
    raises(ValueError, lambda: cohort.all_reduce(mine, op="median"), "op='median' is not one of sum, avg")


def part_types():
    for kind in (np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16,
                 np.uint32, np.uint64):
        got = cohort.all_reduce(np.full(5, RANK + 1, dtype=kind))
        assert got.dtype == kind
        equal(got, np.full(5, SIZE * (SIZE + 1) // 2, dtype=kind))
    equal(cohort.all_reduce(np.array([RANK == 0, False]), "logical_or"), [True, False])
    raises(TypeError, lambda: cohort.all_reduce(np.array([True])), "sum of bool", "logical_or")
    equal(cohort.all_reduce(np.array([1 + 2j * RANK])), [SIZE + 1j * SIZE * (SIZE - 1)])
    raises(TypeError, lambda: cohort.all_reduce(np.array([1j]), "max"), "complex")
    dates = np.array(["2026-11-22"], dtype="M8[D]")
    equal(cohort.all_gather(dates), np.repeat(dates, SIZE))
    one = np.array([0x3F80], dtype=np.uint16)  # 1.0 as bfloat16
    total = cohort.all_reduce(one, dtype="bfloat16")
    equal((total.astype(np.uint32) << 16).view(np.float32), [float(SIZE)])


def part_out_and_in_place():
    out = np.empty(4, dtype=np.float32)
    mine = np.full(4, RANK, dtype=np.float32)
    assert cohort.all_reduce(mine, out=out) is out
    equal(out, np.full(4, SIZE * (SIZE - 1) / 2, dtype=np.float32))
    assert cohort.all_reduce(mine, out=mine) is mine
    equal(mine, out)


def part_buffers_of_others():
    numbers = array.array("d", [1.0, float(RANK)])
    equal(cohort.all_reduce(numbers), [float(SIZE), SIZE * (SIZE - 1) / 2])
    equal(cohort.all_reduce(memoryview(numbers), out=numbers), numbers)
    letters = bytearray(b"?")
    if RANK == 1:
        letters[:] = b"x"
    cohort.broadcast(letters, root=1)
    assert letters == b"x"
    equal(cohort.all_gather(bytes([RANK])), np.arange(SIZE, dtype=np.uint8))


class OfAnotherLibrary:
    """What speaks DLPack and nothing else."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self):
        return self.values.__dlpack__()


def part_dlpack():
    equal(cohort.all_reduce(OfAnotherLibrary(np.full(3, 2, dtype=np.int64))), np.full(3, 2 * SIZE))
    place = np.zeros(3, dtype=np.int64)
    cohort.all_reduce(OfAnotherLibrary(np.full(3, 2, dtype=np.int64)), out=OfAnotherLibrary(place))
    equal(place, np.full(3, 2 * SIZE))


class OfHalfBytes:
    """A DLPack tensor of two elements of 4 bits."""

    class _Managed(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("dimensions", ctypes.c_int32),
                    ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                    ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.c_void_p),
                    ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]

    def __dlpack__(self):
        self.shape = (ctypes.c_int64 * 1)(2)
        self.byte = ctypes.c_uint8()
        self.managed = self._Managed(data=ctypes.addressof(self.byte), device=(1, 0), dimensions=1, code=1, bits=4,
                                     lanes=1, shape=self.shape)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.managed), b"dltensor", None)


def part_memory_that_cannot_be_used():
    grid = np.zeros((4, 4), dtype=np.float32)
    raises(TypeError, lambda: cohort.all_reduce(grid[:, ::2]), "strided", "numpy.ascontiguousarray(array)")
    raises(TypeError, lambda: cohort.all_reduce(grid.astype(">f4")), "bytes swapped", "newbyteorder")
    fixed = np.zeros(4, dtype=np.float32)
    fixed.flags.writeable = False
    raises(TypeError, lambda: cohort.all_reduce(fixed, out=fixed), "read-only", "numpy.array(x)")
    raises(TypeError, lambda: cohort.all_gather(np.array([None, "x"])), "Python objects")
    raises(TypeError, lambda: cohort.all_reduce([1.0, 2.0]), "`tensors[0]` is a number", "give numpy.array(tensors)")
    raises(TypeError, lambda: cohort.all_reduce(grid, out=np.zeros((4, 4))), "give both one type")
    raises(ValueError, lambda: cohort.all_reduce(grid, out=np.zeros(3, dtype=np.float32)), "both have the same size")
    raises(ValueError, lambda: cohort.all_reduce(grid, timeout=-1), "above zero")
    holders = sys.getrefcount(grid), sys.getrefcount(fixed)
    strided = grid[:, ::2]
    before = sys.getrefcount(strided)
    for _ in range(10):
        raises(TypeError, lambda: cohort.all_reduce(strided))
        raises(TypeError, lambda: cohort.all_reduce(fixed, out=fixed))
    assert sys.getrefcount(strided) == before, "a tensor that was refused is held"
    del strided
    assert (sys.getrefcount(grid), sys.getrefcount(fixed)) == holders
    truth = np.zeros(4, dtype=bool)
    raises(TypeError, lambda: cohort.all_reduce(truth, "max", out=np.zeros(4, dtype=np.uint8)), "give both one type")
    raises(TypeError, lambda: cohort.all_reduce(OfHalfBytes()), "elements of 4 bits")
    cohort.barrier()  # nothing of this has harmed the communicator


def part_every_type_of_numpy():
    for letter in "?bBhHiIlLqQefd":
        data = np.array([1, RANK == 0], dtype=letter)
        equal(comm.all_reduce(data, "max"), np.array([1, 1], dtype=letter))


def part_how_calls_are_written():
    data = np.ones(2)
    assert str(inspect.signature(type(comm).reduce)) == ("(self, /, tensor, op='sum', root=0, *, out=None, timeout=None, "
                                                         "algorithm=None, dtype=None, async_op=False)")
    assert "in place" in comm.broadcast.__doc__
    equal(comm.all_reduce(op="max", tensor=data, **{"".join(("o", "ut")): data}), data)
    raises(TypeError, lambda: comm.all_reduce(), "missing the required argument 'tensor'")
    raises(TypeError, lambda: comm.all_reduce(data, "sum", data), "takes 2 positional arguments but 3")
    raises(TypeError, lambda: comm.all_reduce(data, places=data), "unexpected keyword argument 'places'; it takes tensor, op, ")
    raises(TypeError, lambda: comm.all_reduce(data, timout=1), "'timout' (is `timeout` meant?); it takes tensor, op, ")
    raises(TypeError, lambda: comm.all_reduce(data, tensor=data), "multiple values for argument 'tensor'")
    raises(TypeError, lambda: comm.broadcast(data, "first"), "`root` is 'first'", "give a number")
    raises(TypeError, lambda: comm.broadcast(data, -1), "`root` is -1", "give a number")
    raises(TypeError, lambda: comm.all_reduce(None), "`tensor` is", "NoneType")
    raises(TypeError, lambda: comm.all_reduce(data, timeout="soon"), "all_reduce: `timeout` is 'soon'; give seconds")
    raises(TypeError, lambda: comm.all_reduce(data, algorithm=3), "`algorithm` is 3; give a name")
    raises(TypeError, lambda: comm.recv(data, source="anybody"), "`source` is 'anybody'; give a rank")
    raises(TypeError, lambda: comm.all_gather(data, sizes=["many"]), "`sizes` is ['many']; give a list")
    raises(TypeError, lambda: comm.all_to_all(data, send_sizes=["many"], recv_sizes=[1] * SIZE),
           "`send_sizes` is ['many']; give a list")
    raises(TypeError, lambda: cohort.split("red"), "split: `color` is 'red'; give a number")
    raises(TypeError, lambda: cohort.split(1 << 40), f"split: `color` is {1 << 40}; give a number that fits")
    raises(TypeError, lambda: cohort.new_group(["first"]), "`ranks` is ['first']; give a list of ranks")
    raises(TypeError, lambda: comm.group([0], name=3), "`name` is 3; give a text")
    raises(ValueError, lambda: cohort.empty(-1, np.float32), "empty: `shape` is -1; give numbers of 0 or more")
    raises(ValueError, lambda: comm.empty([2, -1]), "empty: `shape` is [2, -1]; give numbers of 0 or more")
    raises(TypeError, lambda: cohort.empty(2.5), "empty: `shape` is 2.5; give a number of elements")
    raises(TypeError, lambda: cohort.empty(["two"]), "empty: `shape` is ['two']; give a number of elements")
    raises(TypeError, lambda: cohort.empty(1 << 62), "allocate: `bytes`", "give a number that fits")
    raises(TypeError, lambda: type(comm).all_reduce(None, data), "Communicator")
    raises(TypeError, lambda: type(comm).__new__(type(comm)).all_reduce(data), "no communicator in this object")
    comm.barrier()


def part_options_that_are_none():
    def refused(options, *texts):
        raises(TypeError, lambda: cohort.join(**{"name": "refused", "rank": 0, "size": 1, **options}), *texts)

    refused({"timout": 1, "nosuch": 3},
            "unexpected keyword argument 'timout' (is `timeout` meant?), 'nosuch'; it takes rank, size, name, ")
    refused({"timeout": "x"}, "`timeout` is 'x'; give seconds, a number")
    refused({"join_timeout": []}, "`join_timeout` is []; give seconds, a number")
    refused({"rank": "a"}, "`rank` is 'a'; give a whole number from 0 on")
    refused({"rank": -1}, "`rank` is -1; give a whole number from 0 on")
    refused({"size": 2.5}, "`size` is 2.5; give how many ranks there are")
    refused({"heap_bytes": -5}, "`heap_bytes` is -5; give a number of bytes")
    refused({"name": 7}, "`name` is 7; give a text")
    refused({"determinism": 3}, "`determinism` is 3; give one of 'D0'")
    place = {"name": f"alone-{RANK}", "rank": 0, "size": 1, "address": f"unix:alone-{os.getpid()}"}
    with cohort.join(**place, timeout=np.float32(3), job=None) as alone:
        assert alone.size == 1


def part_gathering():
    equal(cohort.all_gather(np.full((2, 2), RANK)), np.repeat(np.arange(SIZE), 4).reshape(2 * SIZE, 2))
    equal(cohort.all_gather(np.float32(RANK)), np.arange(SIZE, dtype=np.float32))
    mine = np.full((RANK, 3), RANK, dtype=np.int32)  # another first dimension on each rank
    wanted = np.concatenate([np.full((rank, 3), rank, dtype=np.int32) for rank in range(SIZE)])
    equal(cohort.all_gather(mine), wanted)
    equal(cohort.all_gather(mine, sizes=list(range(SIZE))), wanted)
    got = cohort.gather(mine, root=1)
    assert (got is None) == (RANK != 1)
    if RANK == 1:
        equal(got, wanted)
    out = np.empty(SIZE, dtype=np.int64)
    assert cohort.all_gather(np.array([RANK]), out=out) is out
    equal(out, np.arange(SIZE))


def part_layouts_that_do_not_fit_are_errors_everywhere():
    shape = (2, 3) if RANK != SIZE - 1 else (2, 4)
    error = raises(cohort.Mismatch, lambda: cohort.all_gather(np.zeros(shape, dtype=np.float32)),
                   "rank 0 gives float32 of shape (2, 3)", f"rank {SIZE - 1} gives float32 of shape (2, 4)")
    assert error.rank == SIZE - 1 and error.op == "all_gather" and "same shape" in error.advice
    kind = np.float32 if RANK else np.float64
    error = raises(cohort.Mismatch, lambda: cohort.gather(np.zeros(2, dtype=kind)), "rank 0 gives float64")
    assert error.rank == (0 if SIZE > 2 else 1)
    cohort.barrier()  # they were found before the call


def part_scattering():
    rows = np.arange(2 * SIZE * 3, dtype=np.float64).reshape(2 * SIZE, 3)
    equal(cohort.scatter(rows if RANK == 1 else None, root=1), rows[2 * RANK:2 * RANK + 2])
    out = np.empty((2, 3))
    cohort.scatter(rows if RANK == 0 else None, out=out)
    equal(out, rows[2 * RANK:2 * RANK + 2])
    ones = np.full(SIZE, 0x3F80, dtype=np.uint16)  # bfloat16, as only the root knows
    equal(cohort.scatter(ones, dtype="bfloat16") if RANK == 0 else cohort.scatter(None), ones[:1])
    sizes = list(range(SIZE))
    some = np.arange(sum(sizes), dtype=np.int64)
    out = np.empty(RANK, dtype=np.int64)
    cohort.scatter(some if RANK == 0 else None, out=out, sizes=sizes)
    equal(out, some[sum(sizes[:RANK]):sum(sizes[:RANK + 1])])
    equal(cohort.reduce_scatter(np.ones((2 * SIZE, 2), dtype=np.float32)), np.full((2, 2), SIZE, dtype=np.float32))
    equal(cohort.reduce_scatter(np.ones(sum(sizes)), sizes=sizes), np.full(RANK, float(SIZE)))


def part_rows_that_do_not_divide():
    rows = np.ones(1024 * SIZE + 1, dtype=np.float32)
    error = raises(cohort.InvalidArgument, lambda: cohort.reduce_scatter(rows),
                   f"cannot be split evenly over {SIZE} ranks", f"to {1025 * SIZE} on every rank", "uneven=True")
    assert error.op == "reduce_scatter" and error.advice.startswith("pad the tensor")
    got = cohort.reduce_scatter(rows, uneven=True)
    equal(got, np.full(1024 + (RANK == 0), float(SIZE), dtype=np.float32))
    raises(ValueError, lambda: cohort.all_to_all(rows), "pad the tensor")
    raises(ValueError, lambda: cohort.scatter(rows if RANK == 0 else None), "pad the tensor")


def part_all_to_all_and_scans():
    mine = np.arange(SIZE) + 10 * RANK
    equal(cohort.all_to_all(mine), np.arange(SIZE) * 10 + RANK)
    sends = [RANK + to for to in range(SIZE)]
    gets = [of + RANK for of in range(SIZE)]
    got = cohort.all_to_all(np.full(sum(sends), RANK), send_sizes=sends, recv_sizes=gets)
    equal(got, np.repeat(np.arange(SIZE), gets))
    equal(cohort.scan(np.array([RANK])), [RANK * (RANK + 1) // 2])
    equal(cohort.exclusive_scan(np.array([RANK])), [RANK * (RANK - 1) // 2])
    got = cohort.reduce(np.array([RANK]), "max", root=SIZE - 1)
    assert got is None if RANK != SIZE - 1 else got == [SIZE - 1]


def part_several_tensors():
    tensors = [np.full(3, float(RANK)), np.full((100, 100), 1.0)]
    small, large = cohort.all_reduce(tensors)
    equal(small, np.full(3, SIZE * (SIZE - 1) / 2))
    equal(large, np.full((100, 100), float(SIZE)))
    cohort.all_reduce(tensors, "avg", out=tensors)
    equal(tensors[1], np.full((100, 100), 1.0))
    cohort.broadcast(tensors, root=0)
    equal(cohort.all_gather([np.array([RANK])])[0], np.arange(SIZE))
    equal(cohort.reduce_scatter([np.ones(SIZE)])[0], [float(SIZE)])
    raises(TypeError, lambda: cohort.all_reduce([np.ones(2), np.ones(2, dtype=np.int64)]), "give one type")
    mixed = [np.ones(2), np.ones(1, dtype=np.complex128)], [np.ones(1, dtype=np.uint8), np.ones(1, dtype=bool)]
    for tensors in mixed:
        raises(TypeError, lambda: cohort.all_reduce(tensors), "give one type")


def part_messages():
    right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    got = np.empty(50_000)
    receiving = comm.recv(got, left, tag=3, async_op=True)
    cohort.send(np.full(50_000, float(RANK)), right, tag=3)
    assert receiving.wait() == left
    equal(got[:2], [left, left])
    if RANK == 0:
        word = np.empty(1)
        seen = sorted((cohort.recv(word, tag=4), float(word[0])) for _ in range(SIZE - 1))
        assert seen == [(rank, float(rank)) for rank in range(1, SIZE)], seen
    else:
        cohort.send(np.array([float(RANK)]), 0, tag=4)


def part_started_calls():
    data = [np.full(1000 * (i + 1), float(RANK)) for i in range(5)]
    requests = [comm.all_reduce(one, out=one, async_op=True) for one in data]
    assert requests[-1].wait() is data[-1]
    for request, one in zip(requests, data):
        assert request.done() and request.test() and request.result() is one
        equal(one[:1], [SIZE * (SIZE - 1) / 2])
    gone = comm.all_reduce(np.ones(100_000), async_op=True)
    del gone  # the call goes on, on memory that lives as long
    cohort.barrier()


def part_groups():
    half = cohort.split(RANK % 2, key=-RANK)
    members = sorted((rank for rank in range(SIZE) if rank % 2 == RANK % 2), reverse=True)
    assert half.world_ranks == members
    equal(cohort.all_reduce(np.array([RANK]), group=half), [sum(members)])
    nobody = cohort.split(-1 if RANK == 0 else 0)
    assert (nobody is None) == (RANK == 0)
    if RANK < 2:
        with cohort.new_group([1, 0]) as pair:
            assert cohort.get_rank(pair) == 1 - RANK
            pair.barrier()
    half.close()


def part_threads_with_groups_of_their_own():
    groups = [comm.split(0) for _ in range(2)]
    totals = {}

    def work(number):
        for _ in range(50):
            totals[number] = groups[number].all_reduce(np.full(1000 * (number + 1), 1.0))[0]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert totals == {0: float(SIZE), 1: float(SIZE)}


def part_memory_that_peers_map():
    grid = cohort.empty((256, 1024), "float32")
    assert grid.shape == (256, 1024) and grid.dtype == np.float32 and grid.flags.writeable
    grid[:] = RANK
    assert cohort.all_reduce(grid, out=grid) is grid
    equal(grid[5, :2], np.full(2, SIZE * (SIZE - 1) / 2, dtype=np.float32))
    assert comm.empty(3, "bfloat16").dtype == np.uint16 and cohort.empty(0).size == 0


def part_algorithms():
    equal(cohort.all_reduce(np.ones(1000), algorithm="ring"), np.full(1000, float(SIZE)))
    raises(ValueError, lambda: cohort.all_reduce(np.ones(3), algorithm="magic"), "magic")
    assert ":" in comm.explain("all_reduce", "float32", 8)


def part_torch():
    if torch is None:
        return
    for kind in (torch.float32, torch.bfloat16, torch.float16, torch.int64):
        got = cohort.all_reduce(torch.full((2, 2), RANK + 1, dtype=kind))
        assert got.dtype == kind and (got == SIZE * (SIZE + 1) // 2).all(), got
    weights = torch.nn.Parameter(torch.ones(4))
    cohort.broadcast(weights.data)
    raises(TypeError, lambda: cohort.all_reduce(torch.ones(4, 4).t()), "tensor.contiguous()")
    complex_ones = torch.ones(4, dtype=torch.complex64)
    raises(TypeError, lambda: cohort.all_reduce(complex_ones.conj()), "tensor.resolve_conj()")
    raises(TypeError, lambda: cohort.all_reduce(torch.ones(4)._neg_view()), "tensor.resolve_neg()")
    got = cohort.all_gather(torch.full((RANK, 2), RANK))
    assert isinstance(got, torch.Tensor) and got.shape == (SIZE * (SIZE - 1) // 2, 2)
    rows = torch.arange(2 * SIZE)
    got = cohort.scatter(rows if RANK == 0 else None)
    assert isinstance(got, torch.Tensor) and got.tolist() == [2 * RANK, 2 * RANK + 1]


def part_end():
    cohort.finalize()
    assert not cohort.is_initialized() and comm.is_closed
    raises(cohort.InvalidArgument, lambda: comm.barrier(), "is closed")


if __name__ == "__main__":
    run_parts(sys.modules[__name__])
