# SPDX-License-Identifier: Apache-2.0
"""Which rank this process is, when another launcher than `cohort run` started it on one host."""

from __future__ import annotations

import hashlib
import os
from typing import Any, Dict, Mapping, NamedTuple, Optional


class Launcher(NamedTuple):
    """What a launcher says by its environment."""

    name: str
    rank: str
    size: str
    local_size: Optional[str]  # equal to size: all on one host
    job: tuple  # what tells one job from others


LAUNCHERS = (
    Launcher("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
             ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid")),
    Launcher("MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", ("HYDI_CONTROL_FD", "PMI_ID_JOB")),
    Launcher("torch.distributed.run", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
             ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")),
)


def place_from(environment: Mapping[str, str] = os.environ, parent: Optional[int] = None) -> Dict[str, Any]:
    """rank, size and address for join(), or nothing where cohort's own variables, or none, say it."""
    if environment.get("COHORT_RANK") or environment.get("COHORT_SIZE"):
        return {}
    for launcher in LAUNCHERS:
        rank, size = environment.get(launcher.rank, ""), environment.get(launcher.size, "")
        if not (rank.isdecimal() and size.isdecimal()):
            continue
        local = environment.get(launcher.local_size or "", "")
        place: Dict[str, Any] = {"rank": int(rank), "size": int(size)}
        if environment.get("COHORT_ADDR"):
            place["address"] = environment["COHORT_ADDR"]
        elif local in ("", size):
            # Ranks of one job have a parent in common, those of another job have another one.
            known = [f"{name}={environment[name]}" for name in launcher.job if environment.get(name)]
            known.append(str(os.getppid() if parent is None else parent))
            tag = hashlib.sha256("|".join([launcher.name, *known]).encode()).hexdigest()[:16]
            place["address"] = f"unix:cohort-{os.getuid()}-{tag}"
        else:
            raise RuntimeError(
                f"{launcher.name} started {size} ranks on several hosts: set COHORT_ADDR=HOST:PORT of rank 0 and "
                "COHORT_SECRET_FILE for all of them")
        return place
    return {}
