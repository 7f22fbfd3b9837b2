# SPDX-License-Identifier: Apache-2.0
"""Which rank this process is, when another launcher than `cohort run` started it on one host."""

from __future__ import annotations

import hashlib
import os
from typing import Any, Dict, Mapping, NamedTuple, Tuple


class Launcher(NamedTuple):
    """What a launcher says by its environment."""

    name: str
    rank: str
    size: str
    local_size: str  # equal to size: all on one host
    job: Tuple[str, ...]  # any of which tells this job from all others of the host


LAUNCHERS = (
    Launcher("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
             ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid")),
    Launcher("MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", ()),
    Launcher("torch.distributed.run", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", ("MASTER_PORT",)),
    Launcher("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", ()),  # may start the others
)
# Counts how often a launcher has started the ranks of a job again.
ROUND = "TORCHELASTIC_RESTART_COUNT"


def _started_by(variable: str) -> str:
    """The launcher's own process, by which ranks know their job: the first ancestor that has not the rank's variable,
    as scripts around the rank have."""
    process = os.getppid()
    while process > 1:
        try:
            with open(f"/proc/{process}/environ", "rb") as file:
                is_of_rank = any(entry.startswith(variable.encode() + b"=") for entry in file.read().split(b"\0"))
            with open(f"/proc/{process}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()  # from the state on: the name may hold anything
        except OSError:
            break  # another user's, so no rank's
        if not is_of_rank:
            return f"{process}@{fields[19].decode()}"  # and when it started: numbers are used again
        process = int(fields[1])
    return str(process)


def place_from(environment: Mapping[str, str] = os.environ) -> Dict[str, Any]:
    """rank, size and address for join(), or nothing where cohort's own variables, or none, say it."""
    if environment.get("COHORT_RANK") or environment.get("COHORT_SIZE"):
        return {}
    for launcher in LAUNCHERS:
        rank, size = environment.get(launcher.rank, ""), environment.get(launcher.size, "")
        if not (rank.isdecimal() and size.isdecimal()):
            continue
        local = environment.get(launcher.local_size, "")
        place: Dict[str, Any] = {"rank": int(rank), "size": int(size)}
        if environment.get("COHORT_ADDR"):
            place["address"] = environment["COHORT_ADDR"]
        elif local in ("", size):
            job = next((environment[name] for name in launcher.job if environment.get(name)), None)
            known = (launcher.name, job or _started_by(launcher.rank), environment.get(ROUND, ""))
            tag = hashlib.sha256("|".join(known).encode()).hexdigest()[:16]
            place["address"] = f"unix:cohort-{os.getuid()}-{tag}"
        else:
            raise RuntimeError(
                f"{launcher.name} started {size} ranks on several hosts: set COHORT_ADDR=HOST:PORT of rank 0 and "
                "COHORT_SECRET_FILE for all of them")
        return place
    return {}
