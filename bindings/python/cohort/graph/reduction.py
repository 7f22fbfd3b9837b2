# SPDX-License-Identifier: Apache-2.0
"""Averages gradients while backward runs: bucket by bucket in the order of the plan, on every rank alike."""

from __future__ import annotations

import collections
import dataclasses
import statistics
import sys
import time
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch.autograd import Variable

from .._cohort import DynamicBucketScheduler
from .buffers import Buffers
from .errors import AllReduceInsertError
from .memory import Bucket, GradientMemory, Slot
from .options import MIB, Options
from .planning import Planning
from .residuals import Residuals
from .ways import AnyWay, Started, most_of_all

# What ranks tell each other with the last bucket, before which parameters were used: averages over the ranks.
PRESENT, IRREGULAR, WANTS_PROFILE, THROUGHPUT, SCALED = range(5)
FLAGS = 5
KEPT_STEPS = 1000


class Sent(NamedTuple):
    """A bucket of a step; the number behind the last one is that of the flags, where they travel apart."""

    bucket: int
    started_us: float  # when it was given to the link
    begin_us: float  # when the one before it was over
    end_us: float


@dataclasses.dataclass
class Step:
    """One step of this rank, in microseconds from its beginning: when forward began, or else the first gradient was there."""

    began: float  # moment of time.perf_counter()
    first_ready_us: float = 0.0
    backward_end_us: float = 0.0
    end_us: float = 0.0  # when the last bucket was averaged
    update_us: float = 0.0
    waited_us: Optional[float] = None  # with lazy_step: for buckets, wherever that was
    buckets: List[Sent] = dataclasses.field(default_factory=list)
    is_irregular: bool = False  # on some rank: parameters without a gradient, or a rank without a batch

    @property
    def communication_us(self) -> float:
        return sum(sent.end_us - sent.begin_us for sent in self.buckets)

    @property
    def exposed_us(self) -> float:
        """Of communication, after the end of backward; with lazy_step what somebody waited for."""
        if self.waited_us is not None:
            return self.waited_us
        return sum(max(0.0, sent.end_us - max(sent.begin_us, self.backward_end_us)) for sent in self.buckets)

    @property
    def computation_us(self) -> float:
        return self.backward_end_us + self.update_us


class Reduction:
    """Of the gradients of a model. Each pass that is reduced makes the same collectives on all ranks, whatever parameters it
    used: buckets in the order of the plan, the last with the flags of the step, and then buffers, where there are any to send.

    Threads: that of the training; hooks run in it."""

    def __init__(self, slots: Sequence[Slot], group: Any, way: AnyWay, options: Options, tell: Callable[[str], None],
                 buffers: Optional[Buffers] = None) -> None:
        self.slots, self.group, self.way, self.options, self.tell = list(slots), group, way, options, tell
        self.planning = Planning(slots, way, options)
        self.memory = GradientMemory(slots, FLAGS + len(self.slots), group, options.enable_memory_reuse)
        self.residuals = Residuals(slots, way) if options.enable_compression is not None else None
        self.buffers = buffers
        self.lazy: Any = None  # a LazyStep, which waits for what is sent
        self._unplanned: Optional[Tuple[Step, List[float]]] = None  # with lazy_step: what the next pass begins with
        self.steps: Deque[Step] = collections.deque(maxlen=KEPT_STEPS)
        self.syncs = True  # gradients of the next pass are averaged
        self.is_synchronized = False  # those that there are have been
        self.is_present = True  # this rank has a batch: join()
        self.is_joining = False  # other ranks may have none
        self.present = 1.0  # ranks that had one in the last pass, of all
        self.is_scaled = False  # the loss of the pass that is made, on this rank
        self.is_scaled_anywhere = False  # that of the last pass, on some rank
        self.counts: Dict[str, int] = collections.Counter()
        self.step: Optional[Step] = None  # that is under way
        self.turn = 0  # of partial_sync
        self._is_open = False  # a backward pass is under way
        self._next = 0  # place of the bucket that is started next in their order
        self._last_place = -1  # in the plan, of a gradient that came
        self._started: List[Started] = []
        self._scheduler: Optional[DynamicBucketScheduler] = None
        self.unused: List[Slot] = []  # in the last pass, by no rank
        self.not_due: List[Slot] = []  # of partial_sync, in the last pass
        self._due: List[Slot] = list(slots)
        self._lay_out()
        self._handles = [slot.parameter.register_post_accumulate_grad_hook(self._hook_of(slot)) for slot in self.slots]
        self._nodes = self._scale_what_comes() if options.gradient_accumulation_steps > 1 else []

    def close(self) -> None:
        if self.lazy is not None:
            self.lazy.close()
        for handle in self._handles:
            handle.remove()
        self._nodes = []
        for slot in self.slots:
            if slot.parameter.grad is not None:
                slot.parameter.grad = slot.parameter.grad.clone()

    def _scale_what_comes(self) -> List[Any]:
        """Each gradient is divided before it is added, so that their sum is the mean, however many passes are averaged. In the
        node that accumulates it: what torch.autograd.grad() gives stays as it is. The nodes, which live as long as they are held."""
        def divided(gradients: Tuple[Optional[torch.Tensor], ...]) -> Tuple[Optional[torch.Tensor], ...]:
            return tuple(None if one is None else one / self.options.gradient_accumulation_steps for one in gradients)

        nodes = [torch.autograd.graph.get_gradient_edge(slot.parameter).node for slot in self.slots]
        self._handles += [node.register_prehook(divided) for node in nodes]
        return nodes

    def _hook_of(self, slot: Slot) -> Callable[[torch.Tensor], None]:
        return lambda _: self._on_gradient(slot)

    # The plan.

    def _lay_out(self) -> None:
        if self.residuals is not None:
            self.residuals.take(self.memory)
        self.memory.lay_out(self.planning.items, self.planning.cuts)
        self._places = {item[0]: place for place, item in enumerate(self.planning.items)}
        for bucket in self.memory.buckets:
            elements = sum(part.numel() for part in bucket.ranges)
            is_float32 = all(part.dtype == torch.float32 for part in bucket.ranges)
            if self.planning.stage != "profiling" and is_float32 and self.options.enable_compression is not None:
                bucket.compresses, text = self.way.decide(self.planning.cost, elements)
                self.planning.decisions.append(f"bucket {bucket.index}: {text}")
        if self.memory.buckets[-1].compresses and self.memory.are_flags_in_last:
            self._flags_apart()
        if self.options.lazy_step and self.memory.are_flags_in_last:
            self._flags_apart()  # they are the first that is waited for
        self._order = self.planning.order
        if self.residuals is not None:
            self.residuals.give(self.memory)
        self._flag_copy = torch.zeros(FLAGS + len(self.slots), dtype=torch.float32)
        for slot in self.unused:
            slot.parameter.grad = None
        while self.planning.decisions:
            self.tell(self.planning.decisions.pop(0))

    def _flags_apart(self) -> None:
        """They are not to be rounded."""
        last = self.memory.buckets[-1]
        last.ranges[-1] = last.ranges[-1][:-self.memory.flag_count]
        self.memory.are_flags_in_last = False

    @staticmethod
    def clock() -> float:
        return time.perf_counter()

    def clear(self) -> None:
        """Gradients are zero, but for those that partial_sync has not averaged yet."""
        if self.lazy is not None and self.lazy.clear():
            self.is_synchronized = False
            return
        self.memory.clear(self._due if self._is_partial else None)
        for slot in self._due if self._is_partial else self.slots:
            slot.is_used = False
        self.unused = []
        self.is_synchronized = False

    # A pass.

    def begin_forward(self) -> None:
        if not torch.is_grad_enabled():
            return
        self.settle()
        if self.step is None:
            self.step = Step(time.perf_counter())

    def _begin_pass(self) -> None:
        if self.lazy is not None:
            self.lazy.finish()
            self._plan_late()
        if self.step is None:
            self.step = Step(time.perf_counter())
        self.step.first_ready_us = self._now_us()
        self._is_open, self.is_synchronized = True, False
        self._next, self._last_place, self._started = 0, -1, []
        for bucket in self.memory.buckets:
            bucket.pending, bucket.is_sent = len(bucket.slots), False
        for slot in self.slots:
            slot.is_ready = False

    def _now_us(self) -> float:
        assert self.step is not None
        return (time.perf_counter() - self.step.began) * 1e6

    def _on_gradient(self, slot: Slot) -> None:
        if slot.parameter.grad is not None and slot.parameter.grad.is_sparse:
            raise AllReduceInsertError(f"parameter {slot.name}", "its gradient is sparse", "make its embedding with sparse=False")
        if not self.syncs:
            self._note(slot)
            return
        if not self._is_open:
            self._begin_pass()
            Variable._execution_engine.queue_callback(self._end_pass)
        if slot.is_ready:
            return self._note_again(slot)
        slot.ready_us = self._now_us()
        slot.is_ready = True
        self._note(slot)
        self.counts["reordered"] += self._places[slot.name] < self._last_place
        self._last_place = max(self._last_place, self._places[slot.name])
        for index in slot.buckets:
            self.memory.buckets[index].pending -= 1
        if self.planning.is_pipelined:
            while self._can_start_next():
                self._start_next()

    def _can_start_next(self) -> bool:
        """With lazy_step the last bucket goes once backward is over, since the flags go before it."""
        if self._next >= len(self._order):
            return False
        bucket = self.memory.buckets[self._order[self._next]]
        return bucket.pending == 0 and not (self.lazy is not None and bucket is self.memory.buckets[-1])

    def _note(self, slot: Slot) -> None:
        self.memory.take(slot)
        slot.is_used = True
        slot.passes += 1

    def _note_again(self, slot: Slot) -> None:
        """A second gradient in one pass, which a bucket that is under way no longer takes."""
        if any(self.memory.buckets[index].is_sent for index in slot.buckets):
            raise AllReduceInsertError(
                f"parameter {slot.name}", "it got a second gradient in one backward pass, after the first was sent",
                "take checkpoint(..., use_reentrant=False), or run all passes but the last in no_sync()")
        self.memory.take(slot)

    def _is_due(self, bucket: Bucket) -> bool:
        frequency = self.options.sync_frequency
        return bucket.index % frequency == self.turn % frequency

    @property
    def _is_partial(self) -> bool:
        return self.options.gradient_sync_method == "partial_sync" and self.options.sync_frequency > 1

    def _start_next(self) -> None:
        bucket = self.memory.buckets[self._order[self._next]]
        self._next += 1
        if not self._is_due(bucket):
            return
        bucket.is_sent = True
        self._scale(bucket)
        is_last = bucket is self.memory.buckets[-1]
        if is_last and self.lazy is not None:
            self._start_flags()
        if is_last and self.memory.are_flags_in_last:
            self._write_flags()
        for number, part in enumerate(bucket.ranges):
            name = bucket.name if number == 0 else f"{bucket.name}/{number}"
            self._started.append(self.way.start(part, name, bucket.compresses, bucket.index))

    def _scale(self, bucket: Bucket) -> None:
        """Gradients of partial_sync are of several passes, and averaged over these, too."""
        if self._is_partial:
            for slot in bucket.slots:
                if slot.buckets[0] == bucket.index and slot.passes > 1:
                    slot.view.div_(slot.passes)

    def _start_flags(self) -> None:
        """By themselves."""
        self._write_flags()
        self._started.append(self.way.start(self.memory.flags, "flags", bucket=len(self.memory.buckets)))

    def _write_flags(self) -> None:
        flags = self._flag_copy
        flags[PRESENT] = self.is_present
        flags[IRREGULAR] = not self.is_present or any(not slot.is_ready for slot in self.slots)
        flags[WANTS_PROFILE] = self.planning.wants_profile
        flags[THROUGHPUT] = self._throughput()
        flags[SCALED] = self.is_scaled
        flags[FLAGS:] = torch.tensor([slot.is_used for slot in self.slots], dtype=torch.float32)
        self.memory.flags.copy_(flags)

    def _throughput(self) -> float:
        """Of the last step: bytes a microsecond."""
        last = self.steps[-1] if self.steps else None
        return self.memory.bytes / last.communication_us if last and last.communication_us > 0 else 0.0

    def settle(self) -> None:
        """Ends a pass that backward left by an exception, so that the other ranks can go on."""
        if self._is_open:
            self.counts["broken"] += 1
            self._end_pass()

    def synchronize(self) -> None:
        """Averages what there is, if no pass has done that: a collective then."""
        self.settle()
        if self.lazy is not None:
            self.lazy.finish()
        if not self.is_synchronized:
            self._begin_pass()
            self._end_pass()

    def _end_pass(self) -> None:
        """After backward, in its thread: what is left is sent, all is waited for, and the flags are read."""
        assert self.step is not None
        self._is_open = False
        step = self.step
        step.backward_end_us = self._now_us()
        for slot in self.slots:
            if not slot.is_ready:
                self._take_unused(slot)
        while self._next < len(self._order):
            self._start_next()
        is_apart = not self.memory.are_flags_in_last or not self._is_due(self.memory.buckets[-1])
        if is_apart and self.lazy is None:
            self._start_flags()
        self._start_buffers()
        self.step = None
        if self.lazy is not None and self.lazy.begin(step, self._started):
            self._started = []
            self._finish_buffers()
            self.is_synchronized = True
            return
        for started in self._started:
            self.wait_for(started, step)
        self._started = []
        flags = self.take_flags(step)
        self._finish_buffers()
        self.is_synchronized = True
        self.end_step(step, flags)

    def _start_buffers(self) -> None:
        """Beside the last buckets: backward, which may compute parts of forward again, changes none any more."""
        if self.buffers is not None and not self.is_joining:
            self.buffers.start()

    def _finish_buffers(self) -> None:
        """In join() they are those of the last rank that had a batch, as with DistributedDataParallel."""
        if self.buffers is None:
            return
        if self.is_joining and self.present > 0:
            mine = float(dist.get_rank(self.group)) if self.is_present else -1.0
            self.buffers.start(int(most_of_all([mine], self.group)[0]))
        self.buffers.finish()

    def _take_unused(self, slot: Slot) -> None:
        """It counts as zero, unless passes before had gradients for it, and as ready where backward ends."""
        assert self.step is not None
        slot.ready_us = self.step.backward_end_us
        if slot.parameter.grad is None:
            slot.view.zero_()
            slot.is_used = False
        else:
            self.memory.take(slot)

    @staticmethod
    def wait_for(started: Started, step: Step) -> None:
        started.wait()
        launched, end = ((moment - step.began) * 1e6 for moment in (started.launched, started.over))
        begin = max(launched, step.buckets[-1].end_us if step.buckets else 0.0)
        step.buckets.append(Sent(started.bucket, launched, begin, max(begin, end)))

    def take_flags(self, step: Step) -> List[float]:
        """What ranks have told each other in this step. Gradients, as far as they are averaged, are the parameters' then."""
        flags = self.memory.flags.tolist()
        self.present, self.is_scaled_anywhere = flags[PRESENT], flags[SCALED] > 0
        step.is_irregular = flags[IRREGULAR] > 0
        self.counts["steps"] += 1
        self.counts["fallback"] += step.is_irregular
        due = self._due = [slot for slot in self.slots if self._is_due(self.memory.buckets[slot.buckets[-1]])]
        if 0 < self.present < 1 - 1e-6:  # averages are over those that had a batch
            for slot in due:
                slot.view.div_(self.present)
        self.memory.give_back(due)
        self.unused = [slot for slot in due if flags[FLAGS + slot.index] == 0]
        for slot in self.unused:
            slot.parameter.grad = None
        self.not_due = [slot for slot in self.slots if slot not in due] if self._is_partial else []
        for slot in due:
            slot.passes = 0
        self.turn += 1
        return flags

    def end_step(self, step: Step, flags: List[float]) -> None:
        """All of it is averaged. Plans are made now, or where the next pass begins: with lazy_step ranks come here at any time."""
        step.end_us = max(step.buckets[-1].end_us, step.backward_end_us)
        self.steps.append(step)
        if self.lazy is None:
            self._plan(step, flags)
        else:
            self._unplanned = (step, flags)

    def _plan_late(self) -> None:
        """Gradients of the pass that begins lie where programs have them: another layout takes them along."""
        if self._unplanned is None:
            return
        (step, flags), self._unplanned = self._unplanned, None
        without = [slot for slot in self.slots if slot.parameter.grad is None]
        for slot in without:
            slot.view.zero_()
        for slot in self.slots:
            self.memory.take(slot)
        self._plan(step, flags)
        for slot in without:
            slot.parameter.grad = None

    # What all ranks do at the same time.

    def _plan(self, step: Step, flags: List[float]) -> None:
        if flags[WANTS_PROFILE] > 0:
            self.planning.profile_again()
            self._lay_out()
        elif self.present > 1 - 1e-6 and not self._is_partial:  # all had a batch
            ready = {slot.name: slot.ready_us for slot in self.slots}
            ends = self._ends_us(step)
            if self.planning.add(ready, step.first_ready_us, step.end_us, ends) == "plan" and self.planning.plan_anew():
                self._lay_out()
        elif self._is_partial and self.planning.stage == "profiling":
            self._plan_partly(step)
        if self.options.memory.buffer_size == "dynamic" and self.planning.stage == "settled":
            self._adjust(flags[THROUGHPUT])

    def _ends_us(self, step: Step) -> Dict[int, float]:
        """When buckets were averaged, where the works know that, and as long as all cost what their bytes do."""
        if not self.way.is_timed or any(bucket.compresses for bucket in self.memory.buckets):
            return {}
        return {sent.bucket: sent.end_us for sent in step.buckets if sent.bucket < len(self.memory.buckets)}

    def _plan_partly(self, step: Step) -> None:
        """One plan, from the ready times alone: what is sent differs from step to step, so that ends say nothing."""
        ready = {slot.name: slot.ready_us for slot in self.slots}
        if self.present > 1 - 1e-6 and self.planning.add(ready, step.first_ready_us, step.end_us, {}) == "plan":
            self.planning.plan_anew()
            self.planning.begin("settled")
            self._lay_out()

    def _adjust(self, throughput: float) -> None:
        """Of the mean throughput, which all ranks know."""
        if self._scheduler is None:
            target = 1.0 / max(self.planning.cost.byte_us, 1e-9)
            self._scheduler = DynamicBucketScheduler(target)
            self._scheduler.follow(self.planning.plan)
        before = self._scheduler.bucket_size
        after = self._scheduler.adjust_bucket_size(throughput) if throughput > 0 else before
        if after != before:
            self.planning.take_bucket_bytes(after * MIB)
            self.tell(f"buffer_size: buckets of {after} MiB, for {before}, at {throughput:.1f} bytes/us")
            self._lay_out()

    def explain(self) -> str:
        last = list(self.steps)[-10:]
        measured = [statistics.median(figures) for figures in zip(*((step.end_us, step.exposed_us) for step in last))]
        text = self.planning.explain((measured[0], measured[1]) if measured else None)
        text += (f"stage {self.planning.stage}, plan {self.planning.plans} of this run; {self.counts['steps']} steps, "
                 f"{self.counts['fallback']} with parameters unused somewhere, {self.counts['reordered']} gradients out of order, "
                 f"{self.memory.copied_bytes} bytes of gradients copied\n")
        return text


def stderr_teller(group: Any) -> Callable[[str], None]:
    """Prints decisions where torch.distributed's debug level is DETAIL."""
    rank = dist.get_rank(group)

    def tell(text: str) -> None:
        if dist.get_debug_level() == dist.DebugLevel.DETAIL:
            print(f"cohort.graph: rank {rank}: {text}", file=sys.stderr, flush=True)

    return tell
