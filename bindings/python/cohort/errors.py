# SPDX-License-Identifier: Apache-2.0
"""What calls raise: a tree below CohortError, with what a program may want to branch on as attributes."""

from __future__ import annotations

import contextlib
import sys
from typing import Dict, Optional, Type

__all__ = [
    "AuthFailed", "Cancelled", "CohortError", "DeadlineExceeded", "DuplicateRank", "Internal", "InvalidArgument",
    "JoinError", "LinkFault", "Mismatch", "MissingRanks", "PeerAborted", "PeerDied", "PeerError", "PeerSilent",
    "ProtocolError", "ResourceLimit", "Revoked", "SystemCallError", "Unsupported", "WorldSize",
]


class CohortError(RuntimeError):
    """A call failed. After all kinds but InvalidArgument the communicator has been given up, on every rank.

    kind: its name, such as "PeerDied". rank: the rank that caused it, if one is known. op: the call. sequence: the number
    of the collective that failed, among those of its communicator, which later calls raise, too; None where none ran.
    advice: what to do, where the message says so.
    """

    def __init__(self, message: str = "", *, kind: Optional[str] = None, rank: Optional[int] = None,
                 op: Optional[str] = None, sequence: Optional[int] = None, given: Optional[str] = None) -> None:
        text = message if not given else f"{message} (this rank gave {given})"
        super().__init__(text)
        self.message = message
        self.kind = kind or type(self).__name__
        self.rank = rank
        self.op = op
        self.sequence = sequence
        head, separator, tail = message.partition("; ")
        self.advice = tail if separator else None

    def __str__(self) -> str:
        """Without the kind where the class says it, as tracebacks do."""
        text = super().__str__()
        return text if _BY_KIND.get(self.kind) is type(self) else f"{self.kind}: {text}"


class InvalidArgument(CohortError, ValueError):
    """This call is wrong, whatever the other ranks do. The communicator can still be used."""


class Mismatch(CohortError):
    """The ranks disagree about a collective, or about how they are set up."""


class PeerError(CohortError, ConnectionError):
    """Another rank, or the way to it, is gone."""


class PeerDied(PeerError):
    """A rank's process ended without leaving."""


class PeerSilent(PeerError):
    """A rank lives but does not answer."""


class PeerAborted(PeerError):
    """A rank left early, or gave up for a reason of its own."""


class LinkFault(PeerError):
    """The connection between two living ranks broke."""


class Revoked(PeerError):
    """Somebody gave the communicator up."""


class ProtocolError(CohortError):
    """A peer sent what makes no sense here."""


class DeadlineExceeded(CohortError, TimeoutError):
    """The time given to the call is over."""


class Cancelled(CohortError):
    """The caller asked to stop."""


class JoinError(CohortError):
    """The ranks did not come together."""


class AuthFailed(JoinError):
    """The other end does not know the job's secret, or there is none where one is needed."""


class DuplicateRank(JoinError):
    """Two processes claim one rank."""


class WorldSize(JoinError):
    """The ranks disagree about their number."""


class MissingRanks(JoinError):
    """Not every rank came in time."""


class ResourceLimit(CohortError):
    """Memory, descriptors, threads or another limit of this host."""


class Unsupported(CohortError):
    """Not available here, and why."""


class SystemCallError(CohortError):
    """The kernel refused something it should not have."""


class Internal(CohortError):
    """A bug in cohort."""


_BY_KIND: Dict[str, Type[CohortError]] = {
    name: kind for name, kind in globals().items() if isinstance(kind, type) and issubclass(kind, CohortError)
}
_BY_KIND["SystemError"] = SystemCallError  # another name, since Python has one of that name


def reason_of(failure: BaseException) -> str:
    """What other ranks are told of an exception that ends this one: its type, and its text where that is one."""
    reason = type(failure).__name__
    with contextlib.suppress(Exception):  # of its text
        reason += f": {failure}".encode("utf-8", "replace").decode()
    return reason


def reason_of_end() -> Optional[str]:
    """The same where it is an exception that the interpreter ends by. At a prompt there may be one of long ago."""
    failure = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)
    return None if failure is None else reason_of(failure)


def error_of(kind: str, message: str, rank: Optional[int], op: str, sequence: Optional[int], given: str) -> CohortError:
    """The exception of one of the library's errors."""
    return _BY_KIND.get(kind, CohortError)(message, kind=kind, rank=rank, op=op or None, sequence=sequence,
                                           given=given or None)
