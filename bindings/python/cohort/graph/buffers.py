# SPDX-License-Identifier: Apache-2.0
"""A model's buffers, as the running means of BatchNorm: one rank's are sent to all."""

from __future__ import annotations

import math
from typing import Any, List, Optional

import torch
import torch.distributed as dist


class Buffers:
    """Sends all of them in one broadcast, whatever their types. Threads: that of the training."""

    def __init__(self, model: torch.nn.Module, group: Any) -> None:
        self.model, self.group = model, group
        self._tensors: List[torch.Tensor] = []  # those that are under way
        self._packed: Optional[torch.Tensor] = None
        self._work: Any = None
        self._is_source = False

    def start(self, source: int = 0) -> None:
        """Those of this rank of the group, as they are now. A collective; finish() ends it."""
        # Asked for each time, since modules may put others in their places. The widest first, so that each lies aligned.
        tensors = [one for one in self.model.buffers() if one.numel() > 0]
        self._tensors = sorted(tensors, key=lambda one: -one.element_size())
        if not self._tensors:
            return
        self._is_source = dist.get_rank(self.group) == source
        if self._is_source:
            self._packed = torch.cat([one.detach().reshape(-1).view(torch.uint8) for one in self._tensors])
        else:
            self._packed = torch.empty(sum(one.numel() * one.element_size() for one in self._tensors), dtype=torch.uint8)
        self._work = dist.broadcast(self._packed, dist.get_global_rank(self.group, source), group=self.group, async_op=True)

    def finish(self) -> None:
        """They are there. What autograd has saved of them stays good for a pass that is still to come."""
        work, packed, self._work, self._packed = self._work, self._packed, None, None
        if work is None or packed is None:
            return
        work.wait()
        if self._is_source:
            return
        begin = 0
        with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(tuple(self._tensors)):
            for one in self._tensors:
                end = begin + one.element_size() * math.prod(one.shape)
                one.copy_(packed[begin:end].view(one.dtype).view(one.shape))
                begin = end
