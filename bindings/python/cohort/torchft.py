# SPDX-License-Identifier: Apache-2.0
"""The backend "cohort" as a process group of torchft, which configures it anew for each quorum:

    from cohort.torchft import ProcessGroupCohort
    manager = torchft.Manager(pg=ProcessGroupCohort(timeout=timedelta(seconds=30)), ...)
"""

from __future__ import annotations

import json
import secrets
from datetime import timedelta
from typing import Any, Optional

try:
    import torch
    from torchft.process_group import ProcessGroupWrapper
except ImportError as error:
    raise ImportError(f"cohort.torchft needs torchft: pip install torchft-nightly ({error})") from error

from . import _torch
from . import torch as _backend

_KIND = torch.distributed.ProcessGroup.BackendType.CUSTOM


class _Met:
    """The quorum that met by its store last, and what this process was in it."""

    def __init__(self, backend: Any, rank: int, token: str) -> None:
        self.backend, self.rank, self.token = backend, rank, token


class ProcessGroupCohort(ProcessGroupWrapper):  # type: ignore[misc]
    """As torchft's ProcessGroupGloo, with reduce_scatter.

    A quorum whose members have all met in one before is a group of that one's ranks, over what they have in common already,
    also after one has died. Others meet by the store of the quorum. Threads: one that configures.

    timeout: of a quorum's making and of its calls."""

    def __init__(self, timeout: timedelta = timedelta(seconds=60), pg: Any = None) -> None:
        super().__init__(timeout, pg)
        self._met: Optional[_Met] = None
        self.is_made_of_survivors = False  # of the quorum that there is

    def getBackendName(self) -> str:
        return "torchft-cohort"

    def _create_pg(self, store: Any, rank: int, world_size: int) -> Any:
        backend = self._make(store, rank, world_size)
        group = torch.distributed.ProcessGroup(store, rank, world_size)
        group._set_default_backend(_KIND)
        group._register_backend(torch.device("cpu"), _KIND, backend)
        return group

    def _make(self, store: Any, rank: int, size: int) -> Any:
        """Ranks say in the store where they met before; all of them come to the same answer."""
        met = self._met
        store.set(f"cohort/met/{rank}", json.dumps([met.token, met.rank] if met else None))
        members = [json.loads(_backend._wait_for(store, f"cohort/met/{other}", size, "cohort/met/")) for other in range(size)]
        if rank == 0:
            store.compare_set("cohort/token", "", secrets.token_hex(8))
        token = _backend._wait_for(store, "cohort/token", size, "cohort/met/").decode()
        self.is_made_of_survivors = met is not None and all(member and member[0] == met.token for member in members)
        self._met = None  # until the group stands: ranks that lost each other meet anew
        if met is None or not self.is_made_of_survivors:
            backend = _backend.create(store, rank, size, self._timeout, name="torchft")
            self._met = _Met(backend, rank, token)
            return backend
        ranks = [member[1] for member in members]
        backend = _torch.create_within(met.backend, f"quorum-{token}", rank, self._timeout.total_seconds(), ranks)
        self._met = met
        return backend
