# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over the backend "cohort", on every rank; started by backend_test.py."""

import os
import sys
import threading
import time
from datetime import timedelta
from unittest import mock

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import cohort.torch  # noqa: F401: registers the backend
from support import run_parts

RANK = SIZE = 0


def ranks_sum():
    return SIZE * (SIZE + 1) // 2


def check_raises(call, text):
    try:
        call()
    except (RuntimeError, ValueError) as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"nothing was raised that says: {text}")


def part_reductions():
    assert dist.get_backend() == "cohort"
    for kind in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int32, torch.int64,
                 torch.complex64):
        tensor = torch.full((3, 2), RANK + 1, dtype=kind)
        dist.all_reduce(tensor)
        assert (tensor == ranks_sum()).all(), (kind, tensor)
    flag = torch.tensor([RANK == 0, False])
    dist.all_reduce(flag)
    assert flag.tolist() == [True, False]
    tensor = torch.tensor([float(RANK)])
    dist.reduce(tensor, 0, op=dist.ReduceOp.MAX)
    assert RANK != 0 or tensor.item() == SIZE - 1


def part_futures():
    tensor = torch.ones(4)
    work = dist.all_reduce(tensor, async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    assert doubled.wait().tolist() == [2.0 * SIZE] * 4
    assert work.wait() and work.is_completed() and work.is_success()


def part_moves():
    places = [torch.empty(2) for _ in range(SIZE)]
    dist.all_gather(places, torch.full((2,), float(RANK)))
    assert [place[0].item() for place in places] == list(range(SIZE))
    share = torch.empty(2)
    dist.reduce_scatter(share, [torch.full((2,), float(rank)) for rank in range(SIZE)])
    assert share.tolist() == [RANK * SIZE] * 2
    root = RANK == 1
    dist.gather(torch.tensor([RANK]), places := [torch.empty(1, dtype=torch.int64) for _ in range(SIZE)] if root else None,
                dst=1)
    assert not root or [place.item() for place in places] == list(range(SIZE))
    got = torch.empty(1, dtype=torch.int64)
    dist.scatter(got, [torch.tensor([rank]) for rank in range(SIZE)] if root else None, src=1)
    assert got.item() == RANK
    out = torch.empty(SIZE)
    dist.all_to_all_single(out, torch.arange(SIZE, dtype=torch.float32) + 10 * RANK)
    assert out.tolist() == [10 * rank + RANK for rank in range(SIZE)]
    outs = [torch.empty(rank + RANK) for rank in range(SIZE)]
    dist.all_to_all(outs, [torch.full((RANK + rank,), float(RANK)) for rank in range(SIZE)])
    assert all((one == rank).all() for rank, one in enumerate(outs))
    objects = [None] * SIZE
    dist.all_gather_object(objects, {"rank": RANK})
    assert objects == [{"rank": rank} for rank in range(SIZE)]
    dist.barrier()


def operations_of(call):
    """torch's own in this thread, by name, while it is made."""
    with torch.autograd.profiler.profile() as profile:
        call()
    return {event.name for event in profile.function_events}


def group_without_heap():
    """What such a group needs besides its tensors torch makes, and profilers tell of that."""
    with mock.patch.dict(os.environ, COHORT_HEAPSIZE="64K"), mock.patch("cohort.torch._world", lambda: None):
        return dist.new_group()


def part_lists_that_lie_in_one_piece_are_not_copied():
    count = 1000
    mine = torch.full((count,), float(RANK))
    parts = list(torch.empty(SIZE * count).split(count))
    apart = [torch.full((count,), float(rank)) for rank in range(SIZE)]
    assert "aten::empty" not in operations_of(lambda: dist.all_gather(parts, mine))
    assert all((place == rank).all() for rank, place in enumerate(parts))
    share = torch.empty(count)
    scatter = lambda places: lambda: dist.reduce_scatter(share, places)  # noqa: E731
    for places, copies in ((apart, True), (parts, False)):
        assert ("aten::empty" in operations_of(scatter(places))) == copies
        assert (share == RANK * SIZE).all()
        assert all((place == rank).all() for rank, place in enumerate(places)), "the input was written to"


def part_lists_with_the_own_one_among_them():
    whole = torch.empty(SIZE, 5)
    parts = list(whole)
    parts[RANK].fill_(RANK)
    dist.all_gather(parts, parts[RANK])
    assert all((part == rank).all() for rank, part in enumerate(parts))
    dist.reduce_scatter(parts[RANK], parts)
    assert (parts[RANK] == RANK * SIZE).all()
    whole.fill_(1.0)
    dist.all_gather(parts, whole.flatten()[1:6])  # across two of them
    assert (whole == 1).all()


def part_lists_that_lie_apart_are_written_where_they_lie():
    group = group_without_heap()
    for count in (1, 5, 200_000):
        mine = torch.full((count,), float(RANK))
        rows = torch.empty(SIZE, count)
        in_place = [torch.empty(count) for _ in range(SIZE)]
        in_place[RANK] = mine
        strided = [torch.empty(count, 2)[:, 0] for _ in range(SIZE)]
        # Apart; in one piece, but in another order, or not from end to end; and what cannot be written as it is.
        for places in ([torch.empty(count) for _ in range(SIZE)], list(rows)[::-1],
                       [row[:count] for row in torch.empty(SIZE, count + 1)], in_place, strided):
            operations = operations_of(lambda: dist.all_gather(places, mine, group=group))
            assert all((place == rank).all() for rank, place in enumerate(places))
            assert count < 200_000 or places is strided or "aten::empty" not in operations
        rows.fill_(1.0)
        dist.all_gather(list(rows)[::-1], rows.flatten()[count // 2:][:count], group=group)  # across two of them
        assert (rows == 1).all()


def part_messages():
    if RANK == 0:
        got = torch.empty(1)
        assert sorted(dist.recv(got) for _ in range(SIZE - 1)) == list(range(1, SIZE))
    else:
        dist.send(torch.tensor([float(RANK)]), 0)
    requests = [dist.isend(torch.full((5,), float(RANK)), (RANK + 1) % SIZE, tag=3)]
    got = torch.empty(5)
    requests.append(dist.irecv(got, (RANK - 1) % SIZE, tag=3))
    for request in requests:
        request.wait()
    assert got[0].item() == (RANK - 1) % SIZE


def part_groups():
    pair = dist.new_group([0, 1])
    if RANK < 2:
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=pair)
        assert tensor.item() == 2


def part_coalesced():
    tensors = [torch.ones(3), torch.full((1000, 100), 2.0)]
    dist.all_reduce_coalesced(tensors)
    assert tensors[0][0].item() == SIZE and tensors[1][-1, -1].item() == 2 * SIZE


def part_gradients():
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 50), torch.nn.ReLU(), torch.nn.Linear(50, 2)))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(3):
        loss = model(torch.full((3, 4), float(RANK + step))).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    mine = torch.cat([parameter.data.flatten() for parameter in model.parameters()])
    all_ranks = [torch.empty_like(mine) for _ in range(SIZE)]
    dist.all_gather(all_ranks, mine)
    assert all(torch.equal(one, mine) for one in all_ranks)


class Pause(torch.autograd.Function):
    """Passes on what it gets; on the way back only once `is_over()`."""

    @staticmethod
    def forward(ctx, tensor, is_over):
        ctx.is_over = is_over
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx, gradient):
        until = time.monotonic() + 30
        while not ctx.is_over():
            assert time.monotonic() < until, "no bucket was reduced while backward went on"
            time.sleep(0.001)
        return gradient, None


class PausedModel(torch.nn.Module):
    """Two layers, each larger than DDP's first bucket. The gradients of the first are made after a pause."""

    def __init__(self, is_over):
        super().__init__()
        self.first, self.last = torch.nn.Linear(600, 600), torch.nn.Linear(600, 600)
        self.is_over = is_over

    def forward(self, data):
        return self.last(Pause.apply(self.first(data), self.is_over))


def part_gradients_are_reduced_while_backward_goes_on():
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    torch.manual_seed(0)
    buckets = []
    is_first_step = True

    def hook(group, bucket):
        buckets.append(allreduce_hook(group, bucket))
        return buckets[-1]

    # Nobody waits: what reduces the bucket goes on by itself.
    model = DistributedDataParallel(PausedModel(lambda: is_first_step or buckets and buckets[0].done()), bucket_cap_mb=1)
    model.register_comm_hook(None, hook)
    for is_first_step in (True, False):  # the first has one bucket for all
        buckets.clear()
        model.zero_grad()
        model(torch.full((3, 600), float(RANK))).sum().backward()
    assert len(buckets) > 1
    assert torch.allclose(model.module.last.bias.grad, torch.tensor(3.0))


def is_mapped_by_peers(tensor):
    """Whether its memory is of a mapping that processes share."""
    with open("/proc/self/maps", encoding="ascii") as maps:
        for line in maps:
            place, access = line.split()[:2]
            begin, end = (int(part, 16) for part in place.split("-"))
            if begin <= tensor.data_ptr() < end:
                return access.endswith("s")
    raise AssertionError("it lies nowhere")


def part_gradients_in_memory_that_peers_map():
    model = torch.nn.Linear(600, 600)
    with cohort.torch.mapped_tensors():
        model = DistributedDataParallel(model, gradient_as_bucket_view=True)
        for _ in range(3):
            model.zero_grad()
            model(torch.full((3, 600), float(RANK))).sum().backward()
        assert not is_mapped_by_peers(torch.empty(100)), "small ones are not worth it"
        large = torch.empty(100, 1000)
    assert is_mapped_by_peers(model.module.weight.grad) and is_mapped_by_peers(large)
    assert torch.allclose(model.module.weight.grad, torch.tensor(3.0 * (SIZE - 1) / 2))
    assert not is_mapped_by_peers(torch.empty(100, 1000)), "that was asked for inside only"
    with cohort.torch.mapped_tensors():
        whole = torch.empty(2, 1 << 31, dtype=torch.int8)  # more than there is room for
    assert not is_mapped_by_peers(whole)


def part_convolutions_beside_memory_that_peers_map():
    """oneDNN takes and frees memory of torch's allocator by its address alone."""
    layer = torch.nn.Conv2d(16, 64, 3)
    images = torch.rand(4, 16, 64, 64)
    expected = layer(images)
    with cohort.torch.mapped_tensors():
        inside = layer(images)
        copied = expected.to_mkldnn().to_dense()
    assert torch.allclose(inside, expected) and torch.equal(copied, expected)
    assert torch.allclose(layer(images), expected)
    del inside, copied


def part_sparse_in_memory_that_peers_map():
    """What is made of the results is made on the engine, which would wait for itself."""
    count = 100_000
    with cohort.torch.mapped_tensors():
        for _ in range(5):
            tensor = torch.sparse_coo_tensor(torch.arange(count)[None], torch.ones(count), (count,))
            dist.all_reduce(tensor)
            assert (tensor.to_dense() == SIZE).all()


def part_lists_of_an_inference_are_filled_by_whoever_drives():
    count = 1_000_000  # too large to be copied past torch
    with torch.inference_mode():
        places = [torch.empty(count) for _ in range(SIZE)]
        given = [torch.full((count,), float(RANK)) for _ in range(SIZE)]
        over = dist.all_to_all(places, given, async_op=True).get_future()
        while not over.done():  # that drives nothing
            time.sleep(0.001)
        over.wait()
    assert all((place == rank).all() for rank, place in enumerate(places))


def part_scratch_of_an_inference_serves_training():
    ones = torch.ones(4_000_000, dtype=torch.uint8)  # as scratch has it: a view of another type would be made anew
    share = torch.empty_like(ones)
    with torch.inference_mode():
        dist.reduce_scatter(torch.empty_like(ones), [ones.clone() for _ in range(SIZE)])
    dist.reduce_scatter(share, [ones.clone() for _ in range(SIZE)])
    assert (share == SIZE).all()


def part_scratch_is_kept_from_call_to_call():
    group = group_without_heap()
    share = torch.empty(100_000)
    places = [torch.full((100_000,), float(rank)) for rank in range(SIZE)]
    scatter = lambda: dist.reduce_scatter(share, places, group=group)  # noqa: E731
    assert "aten::empty" in operations_of(scatter)
    share.zero_()
    assert "aten::empty" not in operations_of(scatter), "it was made anew"
    assert (share == RANK * SIZE).all()


def part_scratch_is_not_shared_by_two():
    """Lists that lie apart, larger than what is left to the C library, two at a time and of growing size."""
    for count in (10_000, 100_000, 50_000):
        mine = torch.full((count,), float(RANK))
        places = [[torch.empty(count) for _ in range(SIZE)] for _ in range(2)]
        works = [dist.all_gather(places[0], mine, async_op=True), dist.all_gather(places[1], mine + 10, async_op=True)]
        for work in works:
            work.wait()
        for index, one in enumerate(places):
            assert all((place == rank + 10 * index).all() for rank, place in enumerate(one))
        outs = [torch.empty(count) for _ in range(SIZE)]
        dist.all_to_all(outs, [torch.full((count,), float(10 * RANK + rank)) for rank in range(SIZE)])
        assert all((out == 10 * rank + RANK).all() for rank, out in enumerate(outs))
        share = torch.empty(count)
        dist.reduce_scatter(share, [torch.full((count,), float(rank)) for rank in range(SIZE)])
        assert (share == RANK * SIZE).all()


def part_gradients_by_a_hook():
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 2))
    model.register_comm_hook(None, fp16_compress_hook)
    model(torch.full((3, 4), float(RANK))).sum().backward()
    # The gradient of a weight is the mean over ranks of three times the rank.
    assert torch.allclose(model.module.weight.grad, torch.tensor(3.0 * (SIZE - 1) / 2))


def part_optimizer_in_shares():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    models = []
    for kind in (torch.optim.Adam, lambda parameters, lr: ZeroRedundancyOptimizer(parameters, torch.optim.Adam, lr=lr)):
        torch.manual_seed(0)
        model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Linear(5, 2)))
        optimizer = kind(model.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            model(torch.full((3, 4), float(RANK + step))).pow(2).mean().backward()
            optimizer.step()
        models.append(torch.cat([parameter.data.flatten() for parameter in model.parameters()]))
    assert torch.allclose(*models)


def part_coalesced_gather():
    inputs = [torch.full((2,), float(RANK)), torch.full((3, 3), 10.0 * RANK)]
    places = [[torch.empty(2), torch.empty(3, 3)] for _ in range(SIZE)]
    dist.all_gather_coalesced(places, inputs)
    assert all((small == rank).all() and (large == 10 * rank).all() for rank, (small, large) in enumerate(places))


def part_sparse():
    for kind, width in ((torch.float32, ()), (torch.int64, (2,))):
        # Rank r holds r + 1 elements from place r on; the last place is nobody's.
        places = torch.arange(RANK, 2 * RANK + 1)[None]
        values = torch.ones((RANK + 1, *width), dtype=kind)
        tensor = torch.sparse_coo_tensor(places, values, (2 * SIZE, *width))
        dist.all_reduce(tensor)
        whole = sum(torch.zeros(2 * SIZE, *width, dtype=kind).index_fill(0, torch.arange(rank, 2 * rank + 1), 1)
                    for rank in range(SIZE))
        assert torch.equal(tensor.to_dense(), whole), tensor
    empty = torch.sparse_coo_tensor(torch.empty(1, 0, dtype=torch.int64), torch.empty(0), (4,))
    dist.all_reduce(empty)
    assert empty._nnz() == 0


def part_monitored_barrier():
    cohort.torch.monitored_barrier()
    group = dist.new_group()
    if RANK == SIZE - 1:
        return
    try:
        cohort.torch.monitored_barrier(group, timedelta(seconds=5))
    except RuntimeError as error:
        text = f"Rank {SIZE - 1} failed to pass monitoredBarrier"
        assert text in str(error), error
        assert RANK == 0 or f"Rank {RANK} successfully reached monitoredBarrier" in str(error), error
    else:
        raise AssertionError("nothing was raised")


def part_ranks_may_join_later_than_calls_may_take():
    store = dist.PrefixStore("late", dist.distributed_c10d._get_default_store())
    join = cohort.torch._torch.create

    def join_first(*arguments):
        threading.Timer(1, store.set, ("late", "now")).start()
        return join(*arguments)

    def join_late(*arguments):
        store.wait(["late"])
        return join(*arguments)

    with mock.patch.object(cohort.torch._torch, "create", join_late if RANK else join_first):
        group = cohort.torch.create(store, RANK, SIZE, timedelta(milliseconds=200))
    if RANK == 0:
        check_raises(lambda: group.barrier().wait(), " Timed out ")
        alone = ("torch", "unix:cohort-test-of-nobody", "", 0, 2)
        options = cohort.torch.join_options(alone[1])
        check_raises(lambda: join(*alone, timeout_s=100, join_timeout_s=0.2, world_ranks=[], options=options), "after 0.2 s, rank 1 of 2 is missing")
    dist.barrier()


def part_calls_have_deadlines_of_their_own():
    group = dist.new_group()
    if RANK == 0:
        options = dist.BarrierOptions()
        options.timeout = timedelta(milliseconds=200)
        check_raises(lambda: group.barrier(options).wait(), " Timed out ")
    dist.barrier()


def part_profiling():
    with torch.autograd.profiler.profile(record_shapes=True) as profile:
        dist.all_reduce(torch.ones(3, 2))
    events = [event for event in profile.function_events if event.name == "cohort:all_reduce"]
    assert len(events) == 1 and events[0].input_shapes == [[3, 2]], profile.function_events


def part_what_is_wrong_is_told():
    check_raises(lambda: dist.all_gather([torch.empty(1)], torch.ones(1)), "one for each rank")
    several, one = torch.ones(2 * SIZE), torch.ones(2)
    check_raises(lambda: dist.all_gather_into_tensor(several, one.int()), "the output holds Float, the input Int")
    check_raises(lambda: dist.reduce_scatter_tensor(one.int(), several), "the output holds Int, the input Float")
    check_raises(lambda: dist.all_gather_into_tensor(one, one), f"the output holds 2 elements; give {2 * SIZE}")
    check_raises(lambda: dist.reduce_scatter_tensor(one, one), f"the input holds 2 elements; give {2 * SIZE}")
    dist.barrier()  # nothing of this has harmed the group


def part_a_call_keeps_the_memory_of_a_tensor_that_is_given_other():
    store = dist.distributed_c10d._get_default_store()
    tensor = torch.full((100_000,), float(RANK))
    if RANK:
        store.wait(["memory was given away"])  # while rank 0's call is under way
    work = dist.all_reduce(tensor, async_op=True)
    tensor.data = torch.zeros(1)
    after = [torch.full((100_000,), 7.0) for _ in range(4)]  # where the memory would be used again
    if RANK == 0:
        store.set("memory was given away", "")
    work.wait()
    assert all((one == 7).all() for one in after)


def part_end():
    dist.destroy_process_group()


def debug_part_gradients():
    part_gradients()


def debug_part_different_calls_are_told():
    group = dist.new_group()
    try:
        if RANK == 0:
            dist.all_reduce(torch.ones(3), group=group)
        else:
            dist.broadcast(torch.ones(3), 0, group=group)
    except RuntimeError as error:
        assert "mismatch between collectives" in str(error) and "BROADCAST" in str(error), error
    else:
        raise AssertionError("nothing was raised")


def debug_part_end():
    dist.destroy_process_group()


def run(rank, size, store, debug_level):
    """Every part of that level, in this process."""
    global RANK, SIZE
    RANK, SIZE = rank, size
    dist.set_debug_level(debug_level)
    dist.init_process_group("cohort", store=dist.FileStore(store, size), rank=rank, world_size=size,
                            timeout=timedelta(seconds=60))
    run_parts(sys.modules[__name__], "part_" if debug_level == dist.DebugLevel.OFF else "debug_part_")
