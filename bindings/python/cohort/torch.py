# SPDX-License-Identifier: Apache-2.0
"""The backend "cohort" of torch.distributed, for tensors in CPU memory:

    import cohort.torch
    torch.distributed.init_process_group("cohort")
"""

from __future__ import annotations

import os
import secrets
import socket
from datetime import timedelta
from typing import Any

import torch.distributed as dist

try:
    from . import _torch
except ImportError as missing:
    raise ImportError("cohort was built without its torch backend; build it: ./run torch") from missing


def _host() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return f"{socket.gethostname()} {file.read().strip()}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def _meeting_place(store: Any, rank: int, size: int) -> str:
    """"ADDRESS SECRET", as rank 0 says: a Unix address among ranks of one host, else one of rank 0's."""
    store.set(f"cohort/host/{rank}", _host())
    if rank == 0:
        hosts = {store.get(f"cohort/host/{other}") for other in range(size)}
        tag = secrets.token_hex(32)
        address = f"unix:cohort-{os.getuid()}-torch-{tag[:32]}"
        if len(hosts) > 1:
            address = f"{os.environ.get('MASTER_ADDR') or socket.gethostname()}:{_free_port()}"
        store.set("cohort/place", f"{address} {tag if len(hosts) > 1 else ''}")
    return store.get("cohort/place").decode()


def _create(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    address, _, secret = _meeting_place(store, rank, size).partition(" ")
    return _torch.create("torch", address, secret, rank, size, timeout.total_seconds())


dist.Backend.register_backend("cohort", _create)
