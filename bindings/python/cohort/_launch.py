# SPDX-License-Identifier: Apache-2.0
"""Which rank this process is, when another launcher than `cohort run` started it on one host."""

from __future__ import annotations

import functools
import hashlib
import os
from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple


class Launcher(NamedTuple):
    """What a launcher says by its environment."""

    name: str
    rank: str
    size: str
    local_size: str  # equal to size: all on one host
    job: Tuple[str, ...]  # any of which tells this job from all others of the host


# Those of net/join/launcher.cpp, in its order: programs of both join one job. Slurm last: with it the others start theirs.
LAUNCHERS = (
    Launcher("torch.distributed.run", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", ("MASTER_PORT",)),
    Launcher("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
             ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid")),
    Launcher("MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", ()),
    Launcher("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", ()),
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


def _local_size_of(launcher: Launcher, environment: Mapping[str, str]) -> str:
    """Or nothing, where it is not known. Where RANK is set by hand, rank 0 at a loopback address says that all are here."""
    local = environment.get(launcher.local_size, "")
    if not local and launcher.rank == "RANK" and environment.get("MASTER_ADDR") in ("127.0.0.1", "localhost", "::1"):
        return environment[launcher.size]
    return local


class Statement(NamedTuple):
    launcher: Launcher
    rank: int
    size: int
    local: str  # empty where it does not say it


def _statement_of(launcher: Launcher, environment: Mapping[str, str]) -> Optional[Statement]:
    rank, size = environment.get(launcher.rank, ""), environment.get(launcher.size, "")
    if not (rank.isdecimal() and size.isdecimal()):
        return None
    return Statement(launcher, int(rank), int(size), _local_size_of(launcher, environment))


def _inner_of(first: Statement, other: Statement) -> Statement:
    """Which of two tells the rank. Environments are inherited, so that either may have started the other; what has one
    process on each host is there to start others."""
    is_same = first[1:3] == other[1:3]
    if is_same or first.size <= 1 or other.size <= 1 or other.launcher is LAUNCHERS[-1]:
        return first
    if (first.local == "1") != (other.local == "1"):
        return other if first.local == "1" else first
    ranks = " and ".join(f"rank {rank} of {size} by {launcher.name} ({launcher.rank}, {launcher.size})"
                         for launcher, rank, size, _ in (first, other))
    raise RuntimeError(f"this process is {ranks}, and which of them started the other is not known: set COHORT_RANK and "
                       "COHORT_SIZE")


def place_from(environment: Mapping[str, str] = os.environ) -> Dict[str, Any]:
    """rank, size and address for join(), or nothing where cohort's own variables, or none, say it."""
    if environment.get("COHORT_RANK") or environment.get("COHORT_SIZE"):
        return {}
    address = environment.get("COHORT_ADDR")
    statements = [statement for launcher in LAUNCHERS if (statement := _statement_of(launcher, environment))]
    of_known_hosts = [statement for statement in statements if statement.local]
    statements = of_known_hosts or (statements if address else [])
    if not statements:
        return {}
    launcher, rank, size, local = functools.reduce(_inner_of, statements)
    if size <= 1:
        return {"rank": 0, "size": 1}
    if local != str(size) and not address:
        raise RuntimeError(
            f"{launcher.name} started {size} ranks on several hosts ({launcher.local_size}={local}): set "
            "COHORT_ADDR=HOST:PORT of rank 0's host and COHORT_SECRET_FILE for all of them, or COHORT_RANK=0 "
            "COHORT_SIZE=1 if each is to be alone")
    return {"rank": rank, "size": size, "address": address or _address_of(launcher, environment)}


def _address_of(launcher: Launcher, environment: Mapping[str, str]) -> str:
    job = next((environment[name] for name in launcher.job if environment.get(name)), None)
    known = (launcher.name, job or _started_by(launcher.rank), environment.get(ROUND, ""))
    tag = hashlib.sha256("|".join(known).encode()).hexdigest()[:16]
    return f"unix:cohort-{os.getuid()}-{tag}"
