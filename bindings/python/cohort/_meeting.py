# SPDX-License-Identifier: Apache-2.0
"""Where the ranks of a process group of another library meet: what its rank 0 says to the others in a store."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import random
import secrets
import socket
from typing import Optional, Sequence

_SECRETS = ("COHORT_SECRET_FD", "COHORT_SECRET_FILE", "COHORT_SECRET")


def host() -> str:
    """What tells this machine, as far as processes on it meet at Unix addresses, from others: also from one of the same
    image, which COHORT_MACHINE_ID is for."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return f"{socket.gethostname()} {file.read().strip()} {os.environ.get('COHORT_MACHINE_ID', '')}"


def unix_address(library: str) -> str:
    """One that nobody has had, among ranks of one host; `library`: what they meet by."""
    return f"unix:cohort-{os.getuid()}-{library}-{secrets.token_hex(16)}"


def _ports() -> Sequence[int]:
    """Those at which ranks may listen, in the order in which to try them; 0: any. Joining refuses a range that is none."""
    low, _, high = os.environ.get("COHORT_PORT_RANGE", "").partition("-")
    if not (low.isdecimal() and high.isdecimal()):
        return [0]
    ports = list(range(max(int(low), 1), min(int(high), 65535) + 1))
    random.shuffle(ports)  # jobs that start at once find others
    return ports


def free_port() -> int:
    """One at which nobody listens, of COHORT_PORT_RANGE where that is set."""
    for port in _ports():
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("", port))
            return int(probe.getsockname()[1])
    raise RuntimeError(f"cohort: no port of COHORT_PORT_RANGE={os.environ.get('COHORT_PORT_RANGE')} is free on "
                       f"{socket.gethostname()}; give a wider range")


def own_address_toward(host: str, port: int) -> Optional[str]:
    """This host's own address on the way there, or None. Nothing is sent."""
    with contextlib.suppress(OSError):
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM):
            with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as probe:
                probe.connect(address)
                return str(probe.getsockname()[0])
    return None


def listening_host(master: Optional[str], port: int) -> str:
    """What other hosts reach this one by: its address toward the master, unless it is the master's host, whose name the
    others know and which may call itself 127.0.1.1."""
    name = master or socket.gethostname()
    own = own_address_toward(name, port)
    if own is None or ipaddress.ip_address(own.partition("%")[0]).is_loopback:
        return name
    return f"[{own}]" if ":" in own else own


def own_host() -> str:
    """What other hosts reach rank 0's host by, where no master is known: as they reached it to join, if they were told that."""
    address = os.environ.get("COHORT_ADDR", "")
    told = "" if address.startswith("unix:") else address.rpartition(":")[0].strip("[]")
    return listening_host(told or None, 1).strip("[]")


def has_secret() -> bool:
    """Whether the launcher has given this process the job's secret, as it then has the others."""
    return any(os.environ.get(name) for name in _SECRETS)


def place(is_one_host: bool) -> str:
    """"ADDRESS SECRET": a Unix address among ranks of one host, else one of this host's and, where the ranks have none, a
    secret that is worth as much as the store is closed to others."""
    if is_one_host:
        return f"{unix_address('torch')} "
    port = os.environ.get("MASTER_PORT", "")
    host = listening_host(os.environ.get("MASTER_ADDR"), int(port) if port.isdecimal() else 1)
    return f"{host}:{free_port()} {'' if has_secret() else secrets.token_hex(32)}"
