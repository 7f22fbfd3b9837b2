# SPDX-License-Identifier: Apache-2.0
"""step() that returns at once: a parameter's update is made where the parameter is used next, and waits for its bucket alone."""

from __future__ import annotations

import collections
import threading
import time
from typing import Any, Deque, Dict, List, Optional, Sequence, Tuple

import torch
from torch.optim import optimizer as torch_optimizer
from torch.utils._pytree import tree_leaves

from .errors import DistGraphBuildError
from .memory import Bucket, Slot
from .ways import Started

# What these make of a parameter depends on no other one.
ONE_BY_ONE = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.NAdam, torch.optim.RAdam, torch.optim.Adamax,
              torch.optim.Adagrad, torch.optim.Adadelta, torch.optim.RMSprop, torch.optim.ASGD, torch.optim.Rprop)

_Tensor = torch.Tensor
# What an update does not change, and so waits for none.
UNCHANGED = {
    _Tensor.size, _Tensor.dim, _Tensor.numel, _Tensor.stride, _Tensor.element_size, _Tensor.is_contiguous,
    *(getattr(_Tensor, name).__get__ for name in ("shape", "dtype", "device", "layout", "ndim", "requires_grad", "is_leaf")),
}

_owners: Dict[int, "LazyStep"] = {}  # of parameters that are pending, by id


class Pending(torch.nn.Parameter):
    """What a parameter is while its gradient is averaged or its update is still to come: any function of torch that gets it, as
    reading its values or its gradient, waits for that first, whoever calls it. It is a Parameter again from then on."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        if func in UNCHANGED:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        for one in tree_leaves((args, kwargs)):
            if type(one) is Pending:
                complete(one)
        return func(*args, **(kwargs or {}))

    def __deepcopy__(self, memo: Any) -> Any:
        complete(self)
        return self.__deepcopy__(memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        complete(self)
        return self.__reduce_ex__(protocol)


def complete(parameter: torch.nn.Parameter) -> None:
    """It is as it has to be: the collectives and updates that are due before its own are made, and its own."""
    owner = _owners.get(id(parameter))
    if owner is not None:
        owner.complete(parameter)


def check(inner: torch.optim.Optimizer, slots: Sequence[Slot], model: torch.nn.Module) -> None:
    """Raises DistGraphBuildError where updates cannot be put off."""
    if type(inner) not in ONE_BY_ONE:
        raise DistGraphBuildError("lazy_step", f"{type(inner).__name__} may update parameters together",
                                  f"take one of {', '.join(kind.__name__ for kind in ONE_BY_ONE)}, or leave lazy_step out")
    for slot in slots:
        if type(slot.parameter) is not torch.nn.Parameter:
            raise DistGraphBuildError(f"parameter {slot.name}", f"it is a {type(slot.parameter).__name__}, and lazy_step would not "
                                      "see who reads it", "leave lazy_step out")
    if any(module._compiled_call_impl is not None for module in model.modules()) or hasattr(model, "_orig_mod"):
        raise DistGraphBuildError("lazy_step", "the model is compiled, and reads parameters unseen", "leave lazy_step out")


class LazyStep:
    """Of one optimizer. From the end of a backward pass on its parameters are pending: before step() whoever touches one waits for
    all gradients; after it, for the buckets that were sent up to that parameter's, whose updates are made then, with the settings
    that the optimizer had at step().

    Threads: any, one at a time. Errors: those of collectives, where somebody waits: in forward, most of the time."""

    def __init__(self, reduction: Any, inner: torch.optim.Optimizer) -> None:
        self.reduction, self.inner = reduction, inner
        self.deferred = 0  # steps
        self._lock = threading.RLock()
        self._step: Any = None  # of the reduction, that is pending
        self._groups: Optional[List[Dict[str, Any]]] = None  # settings at step(); None before it
        self._group_of: Dict[int, int] = {}  # of parameters, by id
        self._left: Deque[Started] = collections.deque()
        self._missing: Dict[int, int] = {}  # collectives of each bucket that are not over
        self._reduced: List[Slot] = []  # not updated yet
        self._flags: Optional[List[float]] = None
        self._is_cleared = False  # zero_grad() came: gradients are cleared once they have been used
        self._handles = [inner.register_state_dict_pre_hook(lambda _: self.finish()),
                         inner.register_load_state_dict_pre_hook(lambda *_: self.finish())]

    def close(self) -> None:
        self.finish()
        for handle in self._handles:
            handle.remove()

    # What the reduction and the optimizer do.

    def begin(self, step: Any, started: Sequence[Started]) -> bool:
        """The pass is over and its collectives are under way: whether their ends are waited for later."""
        if self.reduction.planning.stage == "profiling" or self.reduction.is_joining or self._has_hooks():
            return False
        with self._lock:
            self._step, self._left, self._groups = step, collections.deque(started), None
            self._missing = collections.Counter(one.bucket for one in started)
            self._reduced, self._flags, self._is_cleared = [], None, False
            step.waited_us = 0.0
            for slot in self.reduction.slots:
                _owners[id(slot.parameter)] = self
                slot.parameter.__class__ = Pending
        return True

    def _has_hooks(self) -> bool:
        """Programs want to be called around the one step that they know of."""
        return bool(self.inner._optimizer_step_pre_hooks or self.inner._optimizer_step_post_hooks
                    or torch_optimizer._global_optimizer_pre_hooks or torch_optimizer._global_optimizer_post_hooks)

    def defer(self) -> bool:
        """step(): whether the updates come later."""
        with self._lock:
            if self._step is None or self._groups is not None:
                return False
            if self._has_hooks():
                self.finish()
                return False
            self._groups = [{name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in group.items()
                             if name != "params"} for group in self.inner.param_groups]
            self._group_of = {id(one): place for place, group in enumerate(self.inner.param_groups) for one in group["params"]}
            self.deferred += 1
            self._apply()
            return True

    def clear(self) -> bool:
        """zero_grad(): whether gradients that are still needed are cleared later."""
        with self._lock:
            if self._groups is None:
                self.finish()
                return False
            self._is_cleared = True
            for slot in self.reduction.slots:
                if id(slot.parameter) not in _owners:
                    self._clear(slot)
            return True

    def complete(self, parameter: torch.nn.Parameter) -> None:
        with self._lock:
            if self._groups is None:
                self.finish()
            while id(parameter) in _owners and self._step is not None:
                self._advance()

    def finish(self) -> None:
        """Nothing is pending any more."""
        with self._lock:
            while self._step is not None:
                self._advance()

    # One collective after another, as they were sent.

    def _advance(self) -> None:
        step, reduction = self._step, self.reduction
        if self._left:
            started = self._left[0]
            began = time.perf_counter()
            reduction.wait_for(started, step)  # what it raises is raised again to whoever comes next
            step.waited_us += (time.perf_counter() - began) * 1e6
            self._left.popleft()
            self._missing[started.bucket] -= 1
            with torch._C.DisableTorchFunctionSubclass():
                self._take(started)
            self._apply()
        if not self._left:
            self._end()

    def _take(self, started: Started) -> None:
        """It is over."""
        buckets: List[Bucket] = self.reduction.memory.buckets
        if started.bucket == len(buckets):
            self._flags = self.reduction.take_flags(self._step)
        elif self._missing[started.bucket] == 0:
            self._reduced += [slot for slot in buckets[started.bucket].slots
                              if all(self._missing[index] == 0 for index in slot.buckets)]

    def _apply(self) -> None:
        """Updates what can be: where it is known which parameters were used anywhere, and step() has come."""
        if self._flags is None or self._groups is None or not self._reduced:
            return
        slots, self._reduced = self._reduced, []
        for slot in slots:
            self._release(slot)
        began = time.perf_counter()
        self._update(slots)
        self._step.update_us += (time.perf_counter() - began) * 1e6
        if self._is_cleared:
            for slot in slots:
                self._clear(slot)

    def _update(self, slots: Sequence[Slot]) -> None:
        """By the optimizer itself, of these parameters alone, whatever mode forward is in."""
        assert self._groups is not None
        groups: List[Dict[str, Any]] = [{"params": [], **group} for group in self._groups]
        for slot in slots:
            groups[self._group_of[id(slot.parameter)]]["params"].append(slot.parameter)
        kept, self.inner.param_groups = self.inner.param_groups, groups
        try:
            with torch.inference_mode(False), torch.no_grad(), torch.autocast("cpu", enabled=False):
                self.inner.step()
        finally:
            self.inner.param_groups = kept

    def _release(self, slot: Slot) -> None:
        slot.parameter.__class__ = torch.nn.Parameter
        _owners.pop(id(slot.parameter), None)

    @staticmethod
    def _clear(slot: Slot) -> None:
        slot.view.zero_()
        slot.parameter.grad = slot.view
        slot.is_used = False

    def _end(self) -> None:
        for slot in self.reduction.slots:
            if id(slot.parameter) in _owners:
                self._release(slot)
        step, flags, self._step = self._step, self._flags, None
        assert flags is not None
        self.reduction.end_step(step, flags)
        if self._is_cleared:
            self.reduction.unused = []
        self._groups = None


def send_order(buckets: Sequence[Tuple[float, int]], cost: Any) -> List[int]:
    """Places of buckets, each (ready in us, bytes) and in the order in which they are ready, as they are sent on one link: of those
    that are ready the last one first. The gradient that is ready last is of the parameter that forward uses first."""
    order: List[int] = []
    ready: List[int] = []
    now, place = 0.0, 0
    while len(order) < len(buckets):
        while place < len(buckets) and buckets[place][0] <= now:
            ready.append(place)
            place += 1
        if not ready:
            now = buckets[place][0]
            continue
        is_queued = bool(order) and now > buckets[ready[-1]][0]
        order.append(ready.pop())
        now += (cost.queued_us if is_queued else cost.idle_us) + cost.byte_us * buckets[order[-1]][1]
    return order


def least_bytes(cost: Any) -> int:
    """Of a bucket whose start-up is a twentieth of what it takes: small enough to be sent in the right order, and no smaller."""
    return int(19 * cost.queued_us / cost.byte_us) if cost.byte_us > 0 else 0
