# SPDX-License-Identifier: Apache-2.0
"""What compression has not sent yet, by parameter: it stays with its gradient whatever buckets a plan has."""

from __future__ import annotations

from typing import Dict, List, Sequence

import torch

from .memory import Bucket, GradientMemory, Slot
from .ways import AnyWay

KINDS = ("residual", "momentum")  # of which there is one for each element of a gradient


def _kind_of(name: str) -> str:
    return name.rpartition(".")[2]


class Residuals:
    """The compressor keeps them by bucket while a plan is in use, and this from one plan to the next, also where none of its
    buckets is compressed. What a bucket has that is of no element stays as long as that bucket does. Threads: as Reduction."""

    def __init__(self, slots: Sequence[Slot], way: AnyWay) -> None:
        self.slots, self.way = [slot for slot in slots if slot.parameter.dtype == torch.float32], way
        self._kept: Dict[str, torch.Tensor] = {}  # by parameter and kind, flat
        self._of_buckets: Dict[str, torch.Tensor] = {}  # by bucket and what it is

    def take(self, memory: GradientMemory) -> None:
        """From the buckets that there are, before others are laid out."""
        state = self.way.state()
        ranges = self._compressed(memory.buckets)
        for kind in KINDS:
            parts = {name: state[f"{name}.{kind}"] for name in ranges if f"{name}.{kind}" in state}
            if not parts:
                continue
            flat = self._flat_of(memory, kind)
            for name, values in parts.items():
                begin = ranges[name].storage_offset()
                flat[begin:begin + ranges[name].numel()] = values
            for slot in self.slots:
                begin = slot.view.storage_offset()
                self._kept[f"{slot.name}.{kind}"] = flat[begin:begin + slot.view.numel()].clone()
        self._of_buckets.update({name: values for name, values in state.items() if _kind_of(name) not in KINDS})

    def give(self, memory: GradientMemory) -> None:
        """To the buckets that there are now."""
        ranges = self._compressed(memory.buckets)
        state = {name: values for name, values in self._of_buckets.items() if name.rpartition(".")[0] in ranges}
        if ranges:
            self._of_buckets = dict(state)
        for kind in KINDS:
            if not any(_kind_of(name) == kind for name in self._kept):
                continue
            flat = self._flat_of(memory, kind)
            for name, part in ranges.items():
                begin = part.storage_offset()
                state[f"{name}.{kind}"] = flat[begin:begin + part.numel()].clone()
        if state or self.way.state():
            self.way.restore(state)
        self._drop(memory)

    def state(self, memory: GradientMemory) -> Dict[str, torch.Tensor]:
        """For checkpoints."""
        self.take(memory)
        state = {**self._kept, **self._of_buckets}
        self._drop(memory)
        return state

    def restore(self, state: Dict[str, torch.Tensor], memory: GradientMemory) -> None:
        """Those of a checkpoint of the same model, in place of these; other parameters' are dropped."""
        known: List[str] = [f"{slot.name}.{kind}" for slot in self.slots for kind in KINDS]
        self._kept = {name: values.clone() for name, values in state.items() if name in known}
        self._of_buckets = {name: values.clone() for name, values in state.items() if _kind_of(name) not in KINDS}
        self.give(memory)

    def _drop(self, memory: GradientMemory) -> None:
        """What buckets have."""
        for slot in self.slots:
            if all(memory.buckets[index].compresses for index in slot.buckets):
                for kind in KINDS:
                    self._kept.pop(f"{slot.name}.{kind}", None)

    def _flat_of(self, memory: GradientMemory, kind: str) -> torch.Tensor:
        """In the order of the gradients, zero where nothing is kept."""
        flat = torch.zeros(memory.flats[torch.float32].numel())
        for slot in self.slots:
            values = self._kept.get(f"{slot.name}.{kind}")
            if values is not None and values.numel() == slot.view.numel():
                begin = slot.view.storage_offset()
                flat[begin:begin + values.numel()] = values
        return flat

    @staticmethod
    def _compressed(buckets: Sequence[Bucket]) -> Dict[str, torch.Tensor]:
        """By name: of one type, and so in one piece."""
        return {bucket.name: bucket.ranges[0] for bucket in buckets if bucket.compresses}
