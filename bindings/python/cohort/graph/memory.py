# SPDX-License-Identifier: Apache-2.0
"""Where gradients lie: side by side in the order of the plan, so that a bucket is a range that is reduced as it is."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import torch

from .errors import MemoryOverflowError

# An item of a plan, as the native module has it: (name, ready_us, bytes, offset).
Item = Tuple[str, float, int, int]


@dataclasses.dataclass
class Slot:
    """A parameter, and what is known of its gradient in the step that runs."""

    index: int
    name: str
    parameter: torch.nn.Parameter
    view: torch.Tensor = None  # type: ignore[assignment]  # where its gradient is reduced; set by the memory
    buckets: Tuple[int, ...] = ()  # those that its pieces are in
    is_used: bool = False  # it has a gradient since gradients were cleared
    is_ready: bool = False  # in the pass that runs
    passes: int = 0  # whose gradients it holds since it was reduced last
    ready_us: float = 0.0

    @property
    def bytes(self) -> int:
        return self.parameter.numel() * self.parameter.element_size()


@dataclasses.dataclass
class Bucket:
    """What travels together: a range of the memory of each type that is in it."""

    index: int
    name: str
    ranges: List[torch.Tensor]
    slots: List[Slot]
    compresses: bool = False
    pending: int = 0  # gradients that are not ready in the pass that runs
    is_sent: bool = False  # in the pass that runs


def mapped(group: Any) -> Any:
    """Where tensors lie in memory that the ranks of a host map, if the group is cohort's."""
    from .. import torch as backend

    return backend.mapped_tensors(group) if backend.is_of_cohort(group) else contextlib.nullcontext()


class GradientMemory:
    """Flat memory for all gradients of a model, one tensor for each type, behind which the flags of a step lie.

    Where `is_reused` a parameter's gradient is a view of it, and nothing is copied; else gradients have memory of their own,
    and are copied there and back. `copied_bytes` counts."""

    def __init__(self, slots: Sequence[Slot], flag_count: int, group: Any, is_reused: bool) -> None:
        self.slots = list(slots)
        self.by_name = {slot.name: slot for slot in slots}
        self.group = group
        self.is_reused = is_reused
        self.copied_bytes = 0
        self.flats: Dict[torch.dtype, torch.Tensor] = {}
        self.buckets: List[Bucket] = []
        self.flag_count = flag_count
        self.flags: torch.Tensor = None  # type: ignore[assignment]  # of the step; set by lay_out()
        self.are_flags_in_last = False  # they travel with the last bucket

    def lay_out(self, items: Sequence[Item], cuts: Sequence[Tuple[int, int]]) -> None:
        """By the items of a plan and its buckets, (first, end) of them. What gradients there are is kept."""
        before = {slot.index: slot.view for slot in self.slots if slot.view is not None}
        order = [self.by_name[item[0]] for item in items if item[3] == 0]
        last_type = self.by_name[items[-1][0]].parameter.dtype
        self.are_flags_in_last = last_type in (torch.float32, torch.float64)
        flats = self._allocate(order, last_type)
        begins: Dict[str, int] = {}
        used = dict.fromkeys(flats, 0)
        for slot in order:
            begins[slot.name] = used[slot.parameter.dtype]
            used[slot.parameter.dtype] += slot.parameter.numel()
        for slot in order:
            begin = begins[slot.name]
            view = flats[slot.parameter.dtype][begin:begin + slot.parameter.numel()].view(slot.parameter.shape)
            if slot.index in before:
                view.copy_(before[slot.index])
            self._give(slot, view)
        self.flats = flats
        flags_at = flats[last_type] if self.are_flags_in_last else flats[torch.float32]
        self.flags = flags_at[-self.flag_count:]
        self.buckets = [self._bucket(index, items[first:end], begins) for index, (first, end) in enumerate(cuts)]
        if self.are_flags_in_last:
            last = self.buckets[-1].ranges[-1]
            at = last.storage_offset()
            self.buckets[-1].ranges[-1] = flats[last_type][at:]
        for slot in self.slots:
            slot.buckets = tuple(bucket.index for bucket in self.buckets if slot in bucket.slots)

    def _allocate(self, order: Sequence[Slot], last_type: torch.dtype) -> Dict[torch.dtype, torch.Tensor]:
        counts: Dict[torch.dtype, int] = {}
        for slot in order:
            counts[slot.parameter.dtype] = counts.get(slot.parameter.dtype, 0) + slot.parameter.numel()
        flag_type = last_type if self.are_flags_in_last else torch.float32
        counts[flag_type] = counts.get(flag_type, 0) + self.flag_count
        try:
            with mapped(self.group):
                return {kind: torch.zeros(count, dtype=kind) for kind, count in counts.items()}
        except (RuntimeError, MemoryError) as failure:
            largest = max(order, key=lambda slot: slot.bytes)
            raise MemoryOverflowError(
                f"parameter {largest.name}", f"there is no memory for {sum(counts.values())} elements of gradients ({failure})",
                "enable memory optimisation, as memory_config={'gradient_checkpointing': True}, or take a smaller model") from failure

    def _bucket(self, index: int, items: Sequence[Item], begins: Dict[str, int]) -> Bucket:
        """Items of one type follow each other in its memory, in the order of the plan."""
        spans: Dict[torch.dtype, Tuple[int, int]] = {}
        slots: List[Slot] = []
        for name, _, size, offset in items:
            slot = self.by_name[name]
            width = slot.parameter.element_size()
            begin = begins[name] + offset // width
            first, _ = spans.pop(slot.parameter.dtype, (begin, begin))
            spans[slot.parameter.dtype] = (first, begin + size // width)  # the type of the last item comes last
            if slot not in slots:
                slots.append(slot)
        name = "..".join(f"{item[0]}:{item[3]}" for item in (items[0], items[-1]))
        return Bucket(index, name, [self.flats[kind][a:b] for kind, (a, b) in spans.items()], slots)

    def _give(self, slot: Slot, view: torch.Tensor) -> None:
        slot.view = view
        if self.is_reused:
            slot.parameter.grad = view

    def take(self, slot: Slot) -> None:
        """The gradient that was accumulated lies where it is reduced; it does already, unless somebody took the view away."""
        gradient = slot.parameter.grad
        if gradient is slot.view or gradient is None:
            return
        if gradient.data_ptr() != slot.view.data_ptr():
            with torch.no_grad():  # it may be one that can be differentiated again
                slot.view.copy_(gradient)
            self.copied_bytes += slot.bytes
        if self.is_reused:
            slot.parameter.grad = slot.view

    def give_back(self, slots: Sequence[Slot]) -> None:
        """What was reduced is the parameters' gradient."""
        for slot in slots:
            gradient = slot.parameter.grad
            if self.is_reused:
                slot.parameter.grad = slot.view
            elif gradient is None:
                slot.parameter.grad = slot.view.clone()
                self.copied_bytes += slot.bytes
            else:
                gradient.copy_(slot.view)
                self.copied_bytes += slot.bytes

    def clear(self, slots: Optional[Sequence[Slot]] = None) -> None:
        """Gradients are zero: of all, or of these."""
        if slots is None:
            for flat in self.flats.values():
                flat.zero_()
        for slot in self.slots if slots is None else slots:
            if slots is not None:
                slot.view.zero_()
            if self.is_reused:
                slot.parameter.grad = slot.view
            else:
                slot.parameter.grad = None

    @contextlib.contextmanager
    def hidden(self, slots: Sequence[Slot]) -> Iterator[None]:
        """While a step is made that these have no part in."""
        before = [slot.parameter.grad for slot in slots]
        for slot in slots:
            slot.parameter.grad = None
        try:
            yield
        finally:
            for slot, gradient in zip(slots, before):
                slot.parameter.grad = gradient

    @property
    def bytes(self) -> int:
        return sum(flat.numel() * flat.element_size() for flat in self.flats.values())
