# SPDX-License-Identifier: Apache-2.0
"""How the ranks of a group find each other by a store in which groups of the same name, whose ranks were killed, may have
left what they had written."""

from __future__ import annotations

import json
import secrets
import time
from typing import Any, Callable, Dict, List, NoReturn, Optional, Protocol

from . import _meeting
from .errors import DuplicateRank, MissingRanks, WorldSize

_SHORTEST_TURN_S = 0.002
_LONGEST_TURN_S = 0.05


class Store(Protocol):
    """What all ranks reach. Values are small."""

    def get(self, key: str) -> Optional[bytes]: ...
    def put(self, key: str, value: bytes) -> None: ...
    def delete(self, key: str) -> None: ...


class Rendezvous:
    """One rank's part in it.

    Each rank writes a token that nobody had before, and rank 0 the place with the tokens that it has seen: a rank takes
    no place that does not name its own. It says so; what is left of ranks that were killed says nothing, and a rank that
    came anew has replaced it meanwhile. Once all have said so the place holds.

    Threads: one. Lifetime: keys of the store that begin with the name are its own; leave() deletes them."""

    def __init__(self, store: Store, name: str, rank: int, size: int, timeout_s: float) -> None:
        self._store, self._name, self._rank, self._size = store, name, rank, size
        self._timeout_s = timeout_s
        self._until = time.monotonic() + timeout_s
        self._turn_s = _SHORTEST_TURN_S
        self._token = secrets.token_hex(16)

    def meet(self, place_for: Callable[[bool], str]) -> str:
        """What place_for(whether all are on one host) gave rank 0. Raises MissingRanks, with who has not come, after the
        timeout; WorldSize for ranks that say another size, DuplicateRank if another process has come as this rank."""
        return self._lead(place_for) if self._rank == 0 else self._follow()

    def leave(self) -> None:
        """Once all ranks are there, as when they have joined: deletes what it has written, unless another one has written
        there since."""
        for key in [self._arrival_of(self._rank)] + ([self._place] if self._rank == 0 else []):
            if self._read(key).get("token") == self._token:
                self._store.delete(key)

    @property
    def _place(self) -> str:
        return f"{self._name}/place"

    def _arrival_of(self, rank: int) -> str:
        return f"{self._name}/rank/{rank}"

    def _read(self, key: str) -> Dict[str, Any]:
        text = self._store.get(key)
        value = json.loads(text) if text else {}
        return value if isinstance(value, dict) else {}

    def _write(self, key: str, **value: Any) -> None:
        self._store.put(key, json.dumps({"token": self._token, **value}).encode())

    def _arrive(self, taken: str = "") -> None:
        self._write(self._arrival_of(self._rank), host=_meeting.host(), size=self._size, taken=taken)

    def _arrivals(self) -> List[Dict[str, Any]]:
        return [self._read(self._arrival_of(rank)) for rank in range(self._size)]

    def _lead(self, place_for: Callable[[bool], str]) -> str:
        self._arrive()
        edition, tokens, place = "", [""], ""
        while True:
            arrivals = self._arrivals()
            if all(arrival.get("size") == self._size for arrival in arrivals):
                if [arrival["token"] for arrival in arrivals] != tokens:
                    tokens, edition = [arrival["token"] for arrival in arrivals], secrets.token_hex(16)
                    place = place_for(len({arrival["host"] for arrival in arrivals}) == 1)
                    self._write(self._place, tokens=tokens, edition=edition, place="")
                    self._turn_s = _SHORTEST_TURN_S
                if all(arrival["taken"] == edition for arrival in arrivals[1:]):
                    self._write(self._place, tokens=tokens, edition=edition, place=place)
                    return place
            self._wait(lambda arrival: arrival.get("taken") == edition)

    def _follow(self) -> str:
        self._arrive()
        taken = ""
        while True:
            place = self._read(self._place)
            if self._token in place.get("tokens", []):
                if place["place"]:
                    return str(place["place"])
                if place["edition"] != taken:
                    taken = place["edition"]
                    self._arrive(taken)
                    self._turn_s = _SHORTEST_TURN_S
            self._wait(bool)

    def _wait(self, has_come: Callable[[Dict[str, Any]], bool]) -> None:
        """For the next turn. `has_come`: whether that is written by a rank that is there, as far as this one can tell."""
        if time.monotonic() >= self._until:
            self._complain(has_come)
        time.sleep(self._turn_s)
        self._turn_s = min(2 * self._turn_s, _LONGEST_TURN_S)

    def _complain(self, has_come: Callable[[Dict[str, Any]], bool]) -> NoReturn:
        arrivals = self._arrivals()
        what = f"group '{self._name}' of {self._size} ranks"
        if arrivals[self._rank].get("token") != self._token:
            raise DuplicateRank(f"another process has come as rank {self._rank} of {what}; give each a rank of its own",
                                rank=self._rank, op="join")
        missing = [rank for rank, arrival in enumerate(arrivals) if rank != self._rank and not has_come(arrival)] or [0]
        sizes = {rank: arrival["size"] for rank, arrival in enumerate(arrivals) if arrival.get("size", self._size) != self._size}
        if sizes:
            rank = min(sizes)
            raise WorldSize(f"rank {rank} of {what} says that they are {sizes[rank]}; give all ranks the same number",
                            rank=rank, op="join")
        raise MissingRanks(
            f"{what}: {', '.join(map(str, missing))} had not come to make it after {self._timeout_s:g} s; see what they do "
            "instead, or set COHORT_JOIN_TIMEOUT", rank=missing[0], op="join")
