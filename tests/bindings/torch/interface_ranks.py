# SPDX-License-Identifier: Apache-2.0
"""What a backend of torch 2 has beside the collectives, and what they take, on every rank; started by backend_test.py."""

import threading
from datetime import timedelta

import torch
import torch.distributed as dist

import cohort.torch  # noqa: F401: registers the backend
from backend_ranks import check_raises, is_mapped_by_peers

RANK = SIZE = 0

MOVED = [torch.uint16, torch.uint32, torch.uint64, torch.int16, torch.bool, torch.complex64, torch.complex32, torch.bfloat16,
         torch.float8_e4m3fn, torch.float8_e5m2]


def own_backend(group=None):
    return (group or dist.group.WORLD)._get_backend(torch.device("cpu"))


def bytes_of(tensor):
    return tensor.contiguous().view(torch.uint8).flatten().tolist()


def of_rank(rank, kind, count=6):
    return torch.arange(rank, rank + count).remainder(2 if kind == torch.bool else 100).to(kind)


def part_any_type_is_moved():
    for kind in MOVED:
        mine = of_rank(RANK, kind)
        tensor = mine.clone()
        dist.broadcast(tensor, 1)
        assert bytes_of(tensor) == bytes_of(of_rank(1, kind)), kind
        places = [torch.zeros(6, dtype=kind) for _ in range(SIZE)]
        dist.all_gather(places, mine)
        whole = torch.zeros(6 * SIZE, dtype=kind)
        dist.all_gather_single(whole, mine)
        expected = sum((bytes_of(of_rank(rank, kind)) for rank in range(SIZE)), [])
        assert bytes_of(whole) == sum(map(bytes_of, places), []) == expected, kind
        dist.gather(mine, places if RANK == 0 else None)
        got = torch.zeros(6, dtype=kind)
        dist.scatter(got, [of_rank(rank, kind) for rank in range(SIZE)] if RANK == 0 else None)
        assert bytes_of(got) == bytes_of(mine), kind
        back = torch.zeros_like(whole)
        dist.all_to_all_single(back, whole)
        assert bytes_of(back) == bytes_of(mine) * SIZE, kind
        sizes = [rank + 1 for rank in range(SIZE)]
        uneven = torch.zeros((RANK + 1) * SIZE, dtype=kind)
        dist.all_to_all_single(uneven, of_rank(7, kind, sum(sizes)), [RANK + 1] * SIZE, sizes)
        first = sum(sizes[:RANK])
        assert bytes_of(uneven) == bytes_of(of_rank(7, kind, sum(sizes))[first:first + RANK + 1]) * SIZE, kind
        requests = [dist.isend(mine, (RANK + 1) % SIZE), dist.irecv(got, (RANK - 1) % SIZE)]
        for request in requests:
            request.wait()
        assert bytes_of(got) == bytes_of(of_rank((RANK - 1) % SIZE, kind)), kind


def part_unsigned_integers_are_combined():
    for kind in (torch.uint16, torch.uint32, torch.uint64):
        tensor = torch.tensor([RANK, 3]).to(kind)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [SIZE * (SIZE - 1) // 2, 3 * SIZE], kind
    check_raises(lambda: dist.all_reduce(torch.zeros(1).to(torch.float8_e5m2)), "can be moved only")


def part_averages_and_factors():
    for kind in (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64):
        tensor = torch.tensor([2 * RANK, 8]).to(kind)
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        assert tensor.tolist() == [SIZE - 1, 8], (kind, tensor)
    check_raises(lambda: dist.all_reduce(torch.ones(1, dtype=torch.bool), dist.ReduceOp.AVG), "have no average")
    for factor in (0.5, torch.tensor([0.5])):
        tensor = torch.tensor([4.0])
        dist.all_reduce(tensor, dist._make_nccl_premul_sum(factor))
        assert tensor.item() == 2 * SIZE
        share = torch.empty(1)
        dist.reduce_scatter_single(share, torch.full((SIZE,), 4.0), dist._make_nccl_premul_sum(factor))
        assert share.item() == 2 * SIZE


def part_tensors_of_any_strides():
    plain = torch.arange(24.0).view(4, 6) * (RANK + 1)
    kinds = [plain.clone(), plain.t().contiguous().t(), torch.stack([plain, plain], -1)[..., 0],
             torch.view_as_complex(torch.stack([plain, plain], -1)).conj().real]
    mine = kinds[RANK % len(kinds)]  # other strides on every rank: elements are what counts
    expected = torch.arange(24.0).view(4, 6) * (SIZE * (SIZE + 1) / 2)
    dist.all_reduce(mine)
    assert torch.equal(mine, expected)
    image = torch.full((2, 3, 4, 4), float(RANK)).to(memory_format=torch.channels_last)
    work = dist.broadcast(image, 1, async_op=True)
    work.wait()
    assert (image == 1).all() and image.is_contiguous(memory_format=torch.channels_last)
    out = torch.zeros(6, 4 * SIZE).t()
    dist.all_gather_single(out, expected.t().contiguous().t())
    assert torch.equal(out, expected.repeat(SIZE, 1))
    share = torch.zeros(2, 3)[:, 1]
    dist.reduce_scatter_single(share, torch.arange(4.0 * SIZE).view(2 * SIZE, 2)[:, 0])
    assert share.tolist() == [4.0 * RANK * SIZE, (4.0 * RANK + 2) * SIZE]
    column = torch.zeros(3, 2)[:, 1]
    requests = [dist.isend(torch.full((3, 2), float(RANK))[:, 0], (RANK + 1) % SIZE), dist.irecv(column, (RANK - 1) % SIZE)]
    for request in requests:
        request.wait()
    assert (column == (RANK - 1) % SIZE).all()
    conjugate = torch.full((2,), complex(0, RANK + 1)).conj()
    own_backend().broadcast(conjugate, 1).wait()  # torch itself refuses it in dist.broadcast
    assert (conjugate == complex(0, -2)).all()
    tensors = [torch.ones(2, 3).t(), torch.ones(5)]
    dist.all_reduce_coalesced(tensors)
    assert all((tensor == SIZE).all() for tensor in tensors)
    check_raises(lambda: dist.all_reduce(torch.ones(1).expand(3)), "share their memory")


def part_lists_go_where_each_call_says_though_the_input_stays():
    mine = torch.zeros(1)
    calls = []
    for call in range(20):
        mine.fill_(10.0 * call + RANK)
        calls.append([torch.full((1,), -1.0) for _ in range(SIZE)])
        dist.all_gather(calls[-1], mine)
    for call, places in enumerate(calls):
        assert [place.item() for place in places] == [10.0 * call + rank for rank in range(SIZE)], call


def part_lists_of_several_sizes():
    places = [torch.empty(rank + 1) for rank in range(SIZE)]
    dist.all_gather(places, torch.full((RANK + 1,), float(RANK)))
    assert all((place == rank).all() for rank, place in enumerate(places))
    share = torch.empty(RANK + 1)
    dist.reduce_scatter(share, [torch.full((rank + 1,), float(rank)) for rank in range(SIZE)])
    assert (share == RANK * SIZE).all()
    check_raises(lambda: dist.all_gather([torch.empty(3) for _ in range(SIZE)], torch.empty(2)), "for this rank holds 3")


def part_coalesced():
    tensors = [torch.full((count,), float(RANK)) for count in (1, 5, 70_000)]
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    assert all((tensor == SIZE * (SIZE - 1) / 2).all() for tensor in tensors)
    wholes = [torch.empty(count * SIZE) for count in (1, 3)]
    with dist._coalescing_manager():
        for whole, count in zip(wholes, (1, 3)):
            dist.all_gather_single(whole, torch.full((count,), float(RANK)))
    for whole, count in zip(wholes, (1, 3)):
        assert whole.tolist() == sum(([float(rank)] * count for rank in range(SIZE)), [])
    shares = [torch.empty(count) for count in (2, 4)]
    with dist._coalescing_manager():
        for share in shares:
            dist.reduce_scatter_single(share, torch.arange(float(share.numel() * SIZE)))
    for share in shares:
        assert share.tolist() == [(RANK * share.numel() + i) * SIZE for i in range(share.numel())]
    ins = [torch.ones(1), torch.ones(2, dtype=torch.int64)]  # of several types
    for out in torch.ops._c10d_functional.all_gather_into_tensor_coalesced(ins, SIZE, dist.group.WORLD.group_name):
        assert (torch.ops._c10d_functional.wait_tensor(out) == 1).all()


def part_batches_of_messages():
    sent, got = torch.full((1000,), float(RANK)), torch.empty(1000)
    operations = [dist.P2POp(dist.irecv, got, (RANK - 1) % SIZE), dist.P2POp(dist.isend, sent, (RANK + 1) % SIZE)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    assert (got == (RANK - 1) % SIZE).all()
    work = own_backend().recv_anysource([got], 5) if RANK == 0 else own_backend().send([sent], 0, 5) if RANK == 1 else None
    if work is not None:
        work.wait()
    assert RANK != 0 or work._source_rank() == 1


def part_calls_that_are_not_asynchronous_are_over():
    options = dist.AllreduceOptions()
    options.asyncOp = False
    tensor = torch.ones(3)
    assert own_backend().allreduce([tensor], options) is None and (tensor == SIZE).all()
    options = dist.BarrierOptions()
    options.asyncOp = False
    assert own_backend().barrier(options) is None


def part_options_and_numbers():
    group = dist.new_group(timeout=timedelta(seconds=44))
    backend = own_backend(group)
    assert backend.options._timeout == timedelta(seconds=44) and backend.options.backend == "cohort"
    assert backend.options.global_ranks_in_group == list(range(SIZE)) and backend.name() == "cohort"
    before = backend._get_sequence_number_for_group()
    work = dist.all_reduce(torch.ones(1), group=group, async_op=True)
    work.wait()
    assert backend._get_sequence_number_for_group() == before + 1
    assert backend.supports_splitting and not backend.supports_coalescing
    assert backend.get_error() == dist._ErrorType.SUCCESS if hasattr(dist, "_ErrorType") else True


def part_timing():
    group = dist.new_group()
    check_raises(lambda: dist.all_reduce(torch.ones(1), group=group, async_op=True)._get_duration(), "not timed")
    group._enable_collectives_timing()
    work = dist.all_reduce(torch.ones(1), group=group, async_op=True)
    work.wait()
    assert 0 < work._get_duration() < 60_000
    dist.barrier()


def part_set_timeout():
    group = dist.new_group()
    group.set_timeout(timedelta(milliseconds=200))
    if RANK == 0:
        check_raises(lambda: dist.all_reduce(torch.ones(1), group=group), "Timed out")
    dist.barrier()


def part_abort_ends_what_waits():
    group = dist.new_group(timeout=timedelta(seconds=50))
    errors = []

    received = dist.irecv(torch.ones(1), (RANK + 1) % SIZE, group=group)

    def wait():
        try:
            received.wait()
        except RuntimeError as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    dist.barrier()
    if RANK == 0:
        group.abort()
    waiting.join(40)
    assert errors and "rank 0 has aborted" in str(errors[0]), errors
    check_raises(lambda: dist.all_reduce(torch.ones(1), group=group), "has aborted")
    dist.barrier()


def part_shutdown():
    group = dist.new_group()
    tensor = torch.ones(1)
    work = dist.all_reduce(tensor, group=group, async_op=True)
    group.shutdown()
    work.wait()
    assert tensor.item() == SIZE
    check_raises(lambda: dist.all_reduce(tensor, group=group), "was shut down")
    dist.barrier()


def part_split_and_merge():
    half = [rank for rank in range(SIZE) if rank % 2 == RANK % 2]
    for _ in range(2):  # a name may come again while the first is held
        part = own_backend().supports_splitting and dist.group.WORLD.split_group(half, group_name=f"half{RANK % 2}")
        tensor = torch.tensor([float(RANK)])
        part.allreduce(tensor).wait()
        assert part.size() == len(half) and tensor.item() == sum(half)
    store = dist.PrefixStore("merge", dist.distributed_c10d._get_default_store())
    merged = part.merge_remote_group(store, SIZE, timedelta(seconds=30), "merged")
    tensor = torch.ones(1)
    merged.allreduce(tensor).wait()
    assert merged.size() == SIZE and tensor.item() == SIZE


def part_allocated_tensors_are_mapped():
    backend = own_backend()
    assert backend.supports_tensor_alloc(torch.device("cpu"))
    for kind in (torch.float32, torch.bfloat16):
        tensor = backend.allocate_tensor(100_000, dtype=kind, device=torch.device("cpu"))
        assert tensor.shape == (100_000,) and tensor.dtype == kind and is_mapped_by_peers(tensor)
        tensor.fill_(1)
        dist.all_reduce(tensor)
        assert (tensor == SIZE).all()


def mapped_kib():
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Pss_Shmem"))


def part_hundreds_of_groups_at_once():
    dist.barrier()
    before = mapped_kib()
    groups = [dist.new_group() for _ in range(200)]
    for index, group in enumerate(groups):
        tensor = torch.full((2,), float(index))
        dist.all_reduce(tensor, group=group)
        assert (tensor == index * SIZE).all()
    dist.barrier()
    assert mapped_kib() - before < 200 * 1024, "more than 1 MiB for a group"
    for group in groups:
        dist.destroy_process_group(group)
    dist.barrier()


def part_groups_of_some_in_any_order():
    pairs = [dist.new_group([first, second]) for first in range(SIZE) for second in range(first + 1, SIZE)]
    for group in pairs:
        if dist.get_rank(group) >= 0:
            tensor = torch.ones(1)
            dist.all_reduce(tensor, group=group)
            assert tensor.item() == 2
    local = dist.new_group([0, 1], use_local_synchronization=True) if RANK < 2 else None
    again = dist.new_group([0, 1], use_local_synchronization=True) if RANK < 2 else None
    for group in (local, again):
        if group is not None:
            dist.barrier(group)
    dist.barrier()


def part_other_devices_are_refused():
    nowhere = torch.ones(2, device="meta")
    check_raises(lambda: own_backend().allreduce([nowhere]), "must be in CPU memory, this one is on meta: give tensor.cpu()")
    check_raises(lambda: own_backend().allgather([[torch.ones(2)] * SIZE], [nowhere]), "must be in CPU memory")
    dist.barrier()


def part_other_threads_run_while_one_waits():
    """Rank 0 waits for what another thread of its own has rank 1 send."""
    store = dist.distributed_c10d._get_default_store()
    got = torch.zeros(1)
    waits = [lambda: dist.recv(got, 1), lambda: dist.irecv(got, 1).wait(), lambda: dist.irecv(got, 1).get_future().wait(),
             lambda: dist.all_reduce(got), lambda: dist.barrier()]
    for index, wait in enumerate(waits):
        if RANK == 0:
            threading.Timer(0.05, store.set, (f"send{index}", "now")).start()
        else:
            store.wait([f"send{index}"])
        if RANK == 1 and index < 3:
            dist.send(torch.ones(1), 0)
        elif RANK == 0 or index >= 3:
            wait()
    assert RANK != 0 or got.item() >= 1


def part_works_outlive_their_group():
    group = dist.new_group()
    tensors = [torch.ones(1 << 16) for _ in range(4)]
    works = [dist.all_reduce(tensor, group=group, async_op=True) for tensor in tensors]
    futures = [work.get_future() for work in works]
    dist.destroy_process_group(group)
    del group
    for work, future, tensor in zip(works, futures, tensors):
        assert future.wait()[0] is not None and work.wait() and (tensor == SIZE).all()


def part_shrink():
    """The last: it takes the default group's place."""
    if RANK == SIZE - 1:
        return
    shrunken = dist.shrink_group([SIZE - 1])
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=shrunken)
    assert tensor.item() == SIZE - 1 == shrunken.size()
    assert dist.get_world_size() == SIZE - 1
