# SPDX-License-Identifier: Apache-2.0
"""The backend "cohort" of torch.distributed, for tensors in CPU memory:

    import cohort.torch
    torch.distributed.init_process_group("cohort")      # by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
    cohort.torch.init_process_group()                   # the same by whatever launcher started the job
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import pathlib
import re
import tempfile
import threading
import time
from datetime import timedelta
from typing import Any, Iterator, Optional, Sequence

import numpy

try:
    import torch
    import torch.distributed as dist
except ImportError as error:
    raise ImportError(f"cohort.torch needs PyTorch, of the release that its backend is built for: pip install 'cohort[torch]' ({error})") \
        from error

from . import _meeting
from . import init as _init
from ._cohort import join_options
from .errors import reason_of_end



def _check_release() -> None:
    """torch's interface of backends differs from release to release: what was built for another one may not be loaded."""
    file = pathlib.Path(__file__).with_name("_torch_release.txt")
    release = file.read_text(encoding="ascii").strip() if file.exists() else None
    if release is None:
        raise ImportError("cohort was built without its torch backend; build it: ./run torch, or -DCOHORT_TORCH_PYTHON=PYTHON of a build")
    if not torch.__version__.startswith(f"{release}."):
        raise ImportError(f"cohort's backend is built for torch {release}, and torch {torch.__version__} is installed: install "
                          f"torch {release}, or build cohort with it (docs/use/torch.md)")


_check_release()
from . import _torch as _torch  # noqa: E402


def _is_there(store: Any, key: str, seconds: float) -> bool:
    """Whether the store holds it by then."""
    until = time.monotonic() + seconds
    while not store.check([key]):  # wait() would warn each time that it is not there yet
        if time.monotonic() >= until:
            return False
        time.sleep(0.001)
    return True


def _wait_for(store: Any, key: str, size: int, of_each: str = "cohort/host/") -> bytes:
    """What the store holds, as long as it gives the ranks to come. In turns, since its own wait does not hear Ctrl-C.

    `of_each`, with a rank's number, is a key that each rank sets when it comes: who is missing has not."""
    seconds = store.timeout.total_seconds()
    until = time.monotonic() + seconds
    while not _is_there(store, key, 0.1):
        if time.monotonic() >= until:
            missing = [str(rank) for rank in range(size) if not _is_there(store, f"{of_each}{rank}", 0.01)]
            raise RuntimeError(
                f"cohort: Timed out: of {size} ranks, {', '.join(missing) or 'none'} had not come to make the group after "
                f"{seconds:g} s; see what they do instead, or give the store more time")
    value: bytes = store.get(key)
    return value


def _meeting_place(store: Any, rank: int, size: int) -> str:
    """"ADDRESS SECRET", as rank 0 says."""
    store.set(f"cohort/host/{rank}", _meeting.host())
    if rank == 0:
        hosts = {_wait_for(store, f"cohort/host/{other}", size) for other in range(size)}
        store.set("cohort/place", _meeting.place(is_one_host=len(hosts) == 1))
    return _wait_for(store, "cohort/place", size).decode()


def create(store: Any, rank: int, size: int, timeout: timedelta, name: str = "torch", world_ranks: Sequence[int] = ()) -> Any:
    """The backend of a process group of `size` ranks that share the store.

    `timeout` is for its calls. Ranks may be apart by more when they make it: they have as long as the store gives them.
    `name` and `world_ranks`, which ranks of the world those of a group are, are for errors."""
    address, _, secret = _meeting_place(store, rank, size).partition(" ")
    join_timeout = max(timeout, store.timeout)
    _joined.process = os.getpid()
    return _torch.create(name, address, secret, rank, size, timeout.total_seconds(), join_timeout.total_seconds(),
                         list(world_ranks), join_options(address))


def _backend_of(group: Any) -> Any:
    """That for CPU memory, or None if the group has none."""
    try:
        backend = group._get_backend(torch.device("cpu"))
    except RuntimeError:
        return None
    return getattr(backend, "wrapped_pg", backend)  # in debug mode torch puts another one before it


def is_of_cohort(group: Any = None) -> bool:
    """Whether calls of the group on tensors in CPU memory are made by this backend."""
    return isinstance(_backend_of(group or dist.distributed_c10d._get_default_group()), _torch.Backend)


def _world() -> Any:
    """The backend of torch's default group, if that is of this kind, which is the same on all of its ranks; else None."""
    backend = _backend_of(dist.distributed_c10d._get_default_group())
    return backend if isinstance(backend, _torch.Backend) else None


def _timeout_of_calls(given: timedelta) -> timedelta:
    """COHORT_TIMEOUT, if it is set, stands in for torch's default. What the program gives itself holds; torch does not tell
    whether it has given the default."""
    seconds = _torch.timeout_of_environment() if given == dist.default_pg_timeout else 0
    return timedelta(seconds=seconds) if seconds > 0 else given


def _create(given: Any, _: Any) -> Any:
    """As torch asks for it: the world, whose ranks it does not list, or a group of it, which is made of the world's ranks over
    what they have in common already."""
    ranks = given.global_ranks_in_group
    timeout = _timeout_of_calls(given.timeout)
    if not ranks:
        return create(given.store, given.group_rank, given.group_size, timeout)
    world = _world()
    if world is not None:
        name = re.sub("[^!-.0-~]", "_", given.group_id)
        return _torch.create_within(world, name, given.group_rank, timeout.total_seconds(), ranks)
    return create(given.store, given.group_rank, given.group_size, timeout, name=f"torch/{given.group_id}",
                  world_ranks=ranks)


def monitored_barrier(group: Any = None, timeout: Optional[timedelta] = None, wait_all_ranks: bool = False) -> None:
    """torch.distributed.monitored_barrier, which refuses every backend but one by its name: a barrier that names on rank 0
    the first rank, or with wait_all_ranks all of them, that has not come in time. The group cannot be used after that."""
    group = group or dist.distributed_c10d._get_default_group()
    group.monitored_barrier(*([] if timeout is None else [timeout]), wait_all_ranks=wait_all_ranks)


def dump_fr_trace(include_collectives: bool = True, include_stack_traces: bool = True, only_active: bool = False) -> bytes:
    """What torch's flight recorder keeps of this process's calls over "cohort", pickled as by torch's own function, which
    knows calls of torch's backends alone. torchfrtrace reads it from files named PREFIX and the rank. Without a single entry
    unless TORCH_FR_BUFFER_SIZE, or TORCH_NCCL_TRACE_BUFFER_SIZE, was above zero when the groups were made."""
    pickled: bytes = _torch.dump_fr_trace(include_collectives, include_stack_traces, only_active)
    return pickled


def dump_fr_trace_json(include_collectives: bool = True, only_active: bool = False) -> str:
    """The same in JSON, without stacks."""
    text: str = _torch.dump_fr_trace_json(include_collectives, only_active)
    return text


class _Joined:
    """Who made process groups last: a process, or none."""

    process: Optional[int] = None


_joined = _Joined()
_mapped = threading.local()  # .group: whose ranks map what this thread makes


@contextlib.contextmanager
def mapped_tensors(group: Any = None) -> Iterator[None]:
    """Tensors of 64 KiB and more that this thread makes inside lie in memory that the ranks of this host map, as long as
    there is room (COHORT_HEAPSIZE, 4 GiB): collectives on them copy nothing twice. So do gradients and the buckets of
    DistributedDataParallel, which it makes when it is constructed and anew in the second step. They keep the group until they
    are freed. A child of fork writes to them for itself alone. `group`: one of the backend "cohort"; ValueError for others."""
    group = _backend_of(group or dist.distributed_c10d._get_default_group())
    if group is None:
        raise ValueError("mapped_tensors: the group has no backend for tensors in CPU memory")
    before = getattr(_mapped, "group", None)
    _torch.map_tensors(group)
    _mapped.group = group
    try:
        yield
    finally:
        _torch.map_tensors(before)
        _mapped.group = before


class _StoreOfHost:
    """A file that ranks of one host share and that has no name, so that nothing is left of it, however they end."""

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self._stores = 0
        place = bytearray(512)
        file = None
        if comm.rank == 0:
            file, path = tempfile.mkstemp(prefix="cohort-torch-")
            place[:len(os.fsencode(path))] = os.fsencode(path)
        name = None
        try:
            comm.broadcast(place)
            name = os.fsdecode(bytes(place).rstrip(b"\0"))
            if file is None:
                file = os.open(name, os.O_RDWR | os.O_CLOEXEC)
            comm.barrier()
        except BaseException:
            if file is not None:
                os.close(file)
            raise
        finally:
            if comm.rank == 0:
                os.unlink(path)
        # Torch opens it for each operation, by its descriptor, which therefore stays open.
        self._store = dist.FileStore(f"/proc/self/fd/{file}", comm.size)

    def next(self) -> Any:
        """One that no group has had, the same on all ranks, which ask as often."""
        self._stores += 1
        return dist.PrefixStore(f"group{self._stores}", self._store)


_of_host: Optional[_StoreOfHost] = None


def _store(comm: Any, timeout: timedelta) -> Any:
    """One that all ranks of the communicator share: a file among ranks of one host, else a service of rank 0's."""
    global _of_host
    if _of_host is not None and _of_host.comm is comm:
        return _of_host.next()
    mine = numpy.frombuffer(hashlib.sha256(_meeting.host().encode()).digest(), numpy.uint8).copy()
    hosts = comm.all_gather(mine[numpy.newaxis])
    if (hosts == mine).all():
        _of_host = _StoreOfHost(comm)
        return _of_host.next()
    place = bytearray(512)
    if comm.rank == 0:
        name = f"{_meeting.own_host()} {_meeting.free_port()}"
        place[:len(name)] = name.encode()
    comm.broadcast(place)
    host, port = place.rstrip(b"\0").decode().split()
    return dist.TCPStore(host, int(port), comm.size, comm.rank == 0, timeout)


def _is_started_by_torch() -> bool:
    """Whether the variables of torch.distributed.run are of a launcher of torch's, and not those that `cohort run` adds."""
    if not all(os.environ.get(name) for name in ("MASTER_ADDR", "RANK", "WORLD_SIZE")):
        return False
    own = (os.environ.get("COHORT_RANK"), os.environ.get("COHORT_SIZE"))
    return own != (os.environ["RANK"], os.environ["WORLD_SIZE"])


def init_process_group(backend: str = "cohort", timeout: timedelta = dist.default_pg_timeout, **options: Any) -> None:
    """torch.distributed.init_process_group with the ranks of the launcher that started the job: torch.distributed.run, or
    the environment it sets, as always; for others, as `cohort run`, mpirun and mpiexec, those of cohort.init(). A `store`, or
    another `init_method` than "env://", among the options says who the ranks are itself."""
    is_told = options.get("store") is not None or options.get("init_method", "env://") not in (None, "env://")
    if not is_told and not _is_started_by_torch():
        comm = _init()
        options.pop("init_method", None)
        options.update(store=_store(comm, timeout), rank=comm.rank, world_size=comm.size)
    dist.init_process_group(backend, timeout=timeout, **options)
    # Torch leaves out the default where devices have backends of their own, and one of them is not its own.
    if ":" in str(backend) and "cohort" in str(backend) and "nccl" not in str(backend):
        dist.group.WORLD._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)


def _end() -> None:
    """The interpreter ends: groups that are open are left, and the other ranks told if it is by an exception."""
    if os.getpid() != _joined.process:
        return  # a child of fork has no part in its parent's
    _torch.end(reason_of_end() or "")


atexit.register(_end)
if "cohort" not in dist.Backend.backend_list:  # by cohort_autoload, which calls _create
    dist.Backend.register_backend("cohort", _create, extended_api=True, devices=["cpu"])
