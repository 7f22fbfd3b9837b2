# SPDX-License-Identifier: Apache-2.0
"""The optimizer that averages gradients over all ranks while backward runs, by a plan made of what is measured."""

from __future__ import annotations

import contextlib
import inspect
import pathlib
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Union

import torch
import torch.distributed as dist

from .buffers import Buffers
from .errors import DistGraphBuildError
from .lazy import LazyStep, check
from .memory import Slot
from .options import Options, keywords_of_file, make_options
from .planning import TYPES
from .reduction import Reduction, Step, stderr_teller
from .savings import checkpoint_layers, offload_activations
from .ways import most_of_all, way_of

STATE = "cohort"  # of state_dict(): what this rank keeps besides the inner optimizer's


class GEDistributedOptimizer(torch.optim.Optimizer):
    """Around a torch optimizer, and in DistributedDataParallel's place: `loss.backward()` averages gradients over the ranks.

        optimizer = GEDistributedOptimizer(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))

    model: on all ranks the same parameters, in CPU memory; rank 0's values are sent to all. Without it, attach(model) comes
    before the first step. optimizer: an instance; without it AdamW with `lr`. process_group: the default one if None.
    config: a YAML file, or a mapping of its keys; keywords go before it. All other keywords, and what they do, are in
    docs/use/graph-pytorch.md; unknown ones are refused.

    Raises DistGraphBuildError, AllReduceInsertError and MemoryOverflowError, and what collectives raise: RuntimeError with
    the rank that is at fault. backward() and step() are collectives: every rank makes them as often, or uses join()."""

    def __init__(self, model: Optional[torch.nn.Module] = None, optimizer: Optional[torch.optim.Optimizer] = None, *,
                 config: Union[None, str, pathlib.Path, Mapping[str, Any]] = None, lr: float = 1e-3, process_group: Any = None,
                 **keywords: Any) -> None:
        given = {**(keywords_of_file(config) if config is not None else {}), **keywords}
        self.options: Options = make_options(given)
        self.inner = optimizer
        self.model: Optional[torch.nn.Module] = None
        self._lr, self._group = lr, process_group
        self._reduction: Optional[Reduction] = None
        self._calls = 0  # of step(), since the last that stepped
        self.step_count = 0
        self.scaler = torch.amp.GradScaler("cpu", enabled=self.options.precision_mode == "fp16")
        self._optimizer_step_pre_hooks: Dict[int, Any] = {}  # of torch's class, until attach()
        self._optimizer_step_post_hooks: Dict[int, Any] = {}
        if model is not None:
            self.attach(model)

    # Making it.

    def attach(self, model: torch.nn.Module) -> "GEDistributedOptimizer":
        """The model whose gradients these are; once, if it was not given at first. A collective. Returns itself."""
        if self._reduction is not None:
            raise DistGraphBuildError("attach", "the optimizer has a model already", "make another optimizer")
        if not (dist.is_available() and dist.is_initialized()):
            raise DistGraphBuildError("attach", "there is no process group", "cohort.torch.init_process_group() comes first")
        group = self._group or dist.distributed_c10d._get_default_group()
        slots = self._slots_of(model)
        if self.inner is None:
            self.inner = torch.optim.AdamW([slot.parameter for slot in slots], lr=self._lr)
        self._check_parameters(slots)
        if self.options.kernel_fusion:
            self._fuse()
        super().__init__(self.inner.param_groups, self.inner.defaults)
        self.param_groups, self.state = self.inner.param_groups, self.inner.state
        with torch.no_grad():
            for tensor in [*model.parameters(), *model.buffers()]:
                dist.broadcast(tensor.data, dist.get_global_rank(group, 0), group=group)
        if self.options.lazy_step:
            check(self.inner, slots, model)
        self._prepare(model)
        self.model = model
        self._buffers = Buffers(model, group)
        self._reduction = Reduction(slots, group, way_of(group, self.options), self.options, stderr_teller(group),
                                    self._buffers if self.options.broadcast_buffers else None)
        if self.options.lazy_step:
            self._reduction.lazy = LazyStep(self._reduction, self.inner)
        self._accumulate()
        self._handle = model.register_forward_pre_hook(self._before_forward)
        return self

    def _before_forward(self, *_: Any) -> None:
        """Not in compiled graphs, where there is no moment to take: a step begins with its first gradient then."""
        if not torch.compiler.is_compiling() and self._reduction is not None:
            self._reduction.begin_forward()

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """Refused once there is a model: nobody would average what is added."""
        if self._reduction is not None:
            raise DistGraphBuildError("add_param_group", "the plan is made of the parameters that the model had",
                                      "call close(), and make another optimizer")
        super().add_param_group(param_group)

    def _slots_of(self, model: torch.nn.Module) -> List[Slot]:
        slots: List[Slot] = []
        for name, parameter in model.named_parameters():  # a shared one once
            if not parameter.requires_grad:
                continue
            if parameter.device.type != "cpu" or parameter.dtype not in TYPES:
                raise DistGraphBuildError(f"parameter {name}", f"it is {parameter.dtype} on {parameter.device}",
                                          f"give parameters of {', '.join(TYPES.values())} in CPU memory")
            slots.append(Slot(len(slots), name, parameter))
        if not slots:
            raise DistGraphBuildError("model", "no parameter of it wants a gradient", "give a model with some that require_grad")
        return slots

    def _check_parameters(self, slots: List[Slot]) -> None:
        assert self.inner is not None
        names = {id(slot.parameter): slot.name for slot in slots}
        updated = {id(parameter) for group in self.inner.param_groups for parameter in group["params"]}
        for place, parameter in enumerate(p for group in self.inner.param_groups for p in group["params"]):
            if id(parameter) not in names and parameter.requires_grad:
                raise DistGraphBuildError(f"parameter {place} of the optimizer", "the model has no such parameter",
                                          "make the optimizer of model.parameters()")
        for key, name in names.items():
            if key not in updated:
                raise DistGraphBuildError(f"parameter {name}", "the optimizer does not update it",
                                          "give it to the optimizer, or requires_grad_(False)")

    def _fuse(self) -> None:
        """Updates of all parameters in one kernel, where the optimizer has one."""
        assert self.inner is not None
        if "fused" not in inspect.signature(type(self.inner).__init__).parameters:
            raise DistGraphBuildError("kernel_fusion", f"{type(self.inner).__name__} has no fused kernel",
                                      "take AdamW, Adam, SGD or Adagrad of torch, or leave kernel_fusion out")
        for group in (*self.inner.param_groups, self.inner.defaults):
            group.update(fused=True, foreach=False)

    def _prepare(self, model: torch.nn.Module) -> None:
        self._forward = model.__dict__.get("forward")  # where the program has set one
        if self.options.memory.gradient_checkpointing:
            checkpoint_layers(model)
        if self.options.memory.activation_offloading:
            self.offloaded = offload_activations(model, self.options.memory.offload_dir)
        if self.options.precision_mode != "fp32":
            kind = torch.float16 if self.options.precision_mode == "fp16" else torch.bfloat16
            model.forward = torch.amp.autocast("cpu", dtype=kind)(model.forward)  # type: ignore[method-assign]

    @property
    def reduction(self) -> Reduction:
        """What averages gradients. Raises before attach()."""
        if self._reduction is None:
            raise DistGraphBuildError("GEDistributedOptimizer", "it has no `model` yet",
                                      "give model=..., or call attach(model) before the first step")
        return self._reduction

    # A step.

    def _accumulate(self) -> None:
        """Whether the next backward pass is the last before a step."""
        self.reduction.syncs = self._calls + 1 >= self.options.gradient_accumulation_steps

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss as backward() has to see it: times the loss scale where precision_mode is fp16."""
        self.reduction.is_scaled = self.scaler.is_enabled()
        return self.scaler.scale(loss)

    def synchronize_gradients(self) -> None:
        """Averages what gradients there are, if backward() has not. A collective then."""
        self.reduction.synchronize()

    def synchronize_buffers(self) -> None:
        """Sends rank 0's buffers to all ranks: after a program has changed them there alone. A collective."""
        self.reduction.settle()
        self._buffers.start()
        self._buffers.finish()

    def complete(self) -> None:
        """With lazy_step: waits for all updates that are still to come. Whatever touches a parameter by torch does that for itself;
        what reads its memory otherwise calls this before."""
        if self.reduction.lazy is not None:
            self.reduction.lazy.finish()

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:  # type: ignore[override]
        """One step of the inner optimizer, or, of gradient_accumulation_steps, the last one alone."""
        reduction, inner = self.reduction, self.inner
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._calls += 1
        if self._calls < self.options.gradient_accumulation_steps:
            self._accumulate()
            return loss
        self._calls = 0
        self._accumulate()
        if reduction.lazy is not None and reduction.lazy.defer():
            reduction.is_synchronized = False
            self.step_count += 1
            return loss
        reduction.synchronize()
        began = reduction.clock()
        with reduction.memory.hidden(reduction.not_due):
            self._update(inner)
        reduction.is_synchronized = False
        if reduction.steps:
            reduction.steps[-1].update_us = (reduction.clock() - began) * 1e6
        self.step_count += 1
        return loss

    def _update(self, inner: Any) -> None:
        is_scaled, self.reduction.is_scaled = self.reduction.is_scaled, False
        if is_scaled:
            self.scaler.unscale_(inner)
        if self.options.gradient_clipping is not None:
            torch.nn.utils.clip_grad_norm_([slot.parameter for slot in self.reduction.slots], self.options.gradient_clipping)
        if is_scaled:
            self.scaler.step(inner)
            self.scaler.update()
        else:
            inner.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Gradients are zero, where they lie. Amid gradient_accumulation_steps they stay."""
        if self._calls == 0:
            self.reduction.settle()
            self.reduction.clear()

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of backward passes inside are added up on this rank, and averaged with the next pass outside."""
        before, self.reduction.syncs = self.reduction.syncs, False
        try:
            yield
        finally:
            self.reduction.syncs = before

    @contextlib.contextmanager
    def join(self) -> Iterator[None]:
        """Around a loop over batches of which ranks have different numbers: one that has none left takes part in the others'
        steps without a gradient, and averages are over those that had one. All end with the same parameters, buffers and
        state. Not amid gradient_accumulation_steps."""
        reduction = self.reduction
        self.complete()
        reduction.is_joining = True
        try:
            yield
        except BaseException:
            reduction.is_joining = False
            raise
        is_uneven = reduction.counts["steps"] > 0 and 0 < reduction.present < 1 - 1e-6
        reduction.is_present = False
        was_last = True
        try:
            while True:
                self.zero_grad()
                reduction.synchronize()
                if reduction.present <= 0:
                    break
                is_uneven, was_last = True, False
                if reduction.is_scaled_anywhere:
                    self.scale(torch.zeros(()))  # as those do that have a batch, so that the scale stays one
                self._update(self.inner)
                reduction.is_synchronized = False
            reduction.is_synchronized = False
        finally:
            reduction.is_present, reduction.is_joining = True, False
            self.zero_grad()
        if is_uneven:
            self._take_from_last(was_last)

    def _take_from_last(self, was_last: bool) -> None:
        """Parameters, buffers and state of a rank that had a batch in the last step: learning rates may have gone on there."""
        assert self.model is not None
        group = self.reduction.group
        source = int(most_of_all([float(dist.get_rank(group) if was_last else -1)], group)[0])
        tensors = [*self.model.parameters(), *self.model.buffers()]
        tensors += [value for state in self.state.values() for value in state.values() if isinstance(value, torch.Tensor)]
        with torch.no_grad():
            for tensor in tensors:
                dist.broadcast(tensor.data, dist.get_global_rank(group, source), group=group)
        if self.scaler.is_enabled():
            scale = torch.tensor([self.scaler.get_scale(), self.scaler.state_dict()["_growth_tracker"]], dtype=torch.float64)
            dist.broadcast(scale, dist.get_global_rank(group, source), group=group)
            state = {**self.scaler.state_dict(), "scale": scale[0].item(), "_growth_tracker": int(scale[1])}
            self.scaler.load_state_dict(state)

    # What it knows.

    @property
    def steps(self) -> List[Step]:
        """The last steps of this rank, as they were measured."""
        return list(self.reduction.steps)

    def explain(self) -> str:
        """The plan, what it is predicted and measured to come to, the bound below which no plan comes, and other rules."""
        return self.reduction.explain()

    def graph(self) -> Any:
        """A step as a graph with its collectives: to_json(), to_text(), to_svg()."""
        return self.reduction.planning.insertion.graph

    def state_dict(self) -> Dict[str, Any]:
        """The inner optimizer's, and under "cohort" what this rank keeps: residuals of compression, the loss scale, counts.
        Residuals are of this rank's gradients: each rank saves and loads its own."""
        assert self.inner is not None
        self.complete()
        own = {"residuals": self._residuals(), "scaler": self.scaler.state_dict(), "step_count": self.step_count,
               "turn": self.reduction.turn}
        return {**self.inner.state_dict(), STATE: own}

    def _residuals(self) -> Dict[str, torch.Tensor]:
        residuals = self.reduction.residuals
        return {} if residuals is None else residuals.state(self.reduction.memory)

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """One of state_dict(), or of the inner optimizer alone."""
        state = dict(state_dict)
        own = state.pop(STATE, None)
        assert self.inner is not None
        self.complete()
        self.inner.load_state_dict(state)
        self.param_groups, self.state = self.inner.param_groups, self.inner.state
        if own is None:
            return
        if self.reduction.residuals is not None:
            self.reduction.residuals.restore(own["residuals"], self.reduction.memory)
        else:
            self.reduction.way.restore(own["residuals"])  # refused, if there are any
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(own["scaler"])
        self.step_count, self.reduction.turn = own["step_count"], own["turn"]

    def close(self) -> None:
        """Forward and backward passes are the model's own again, and gradients lie in memory of their own. Layers that compute
        their activations again go on doing so."""
        if self._reduction is None or self.model is None:
            return
        self._reduction.close()
        self._handle.remove()
        if self._forward is None:
            self.model.__dict__.pop("forward", None)
        else:
            self.model.forward = self._forward  # type: ignore[method-assign]

    def __repr__(self) -> str:
        return f"GEDistributedOptimizer({self.options.allreduce_strategy}, {self.inner!r})"
