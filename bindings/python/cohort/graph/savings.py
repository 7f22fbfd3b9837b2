# SPDX-License-Identifier: Apache-2.0
"""What needs less memory for time: activations that are computed again, or lie in files."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from typing import Any, Callable, List, Optional, Tuple

import torch
from torch.utils.checkpoint import checkpoint

from .errors import DistGraphBuildError, MemoryOverflowError
from .options import MIB

# Smaller ones are not worth a file.
LEAST_OFFLOADED_BYTES = MIB // 4


def layers_of(model: torch.nn.Module) -> List[Tuple[str, torch.nn.Module]]:
    """The parts that follow each other in the model's outermost lists of modules."""
    found: List[Tuple[str, torch.nn.Module]] = []
    pending = [("", model)]
    while pending:
        name, module = pending.pop(0)
        if isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)):
            found += [(f"{name}.{key}".lstrip("."), child) for key, child in module.named_children()
                      if any(True for _ in child.parameters())]
        else:
            pending += [(f"{name}.{key}".lstrip("."), child) for key, child in module.named_children()]
    return found


def _recomputed(forward: Callable[..., Any]) -> Callable[..., Any]:
    def run(*arguments: Any, **keywords: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*arguments, **keywords)
        return checkpoint(forward, *arguments, use_reentrant=False, **keywords)

    return run


def checkpoint_layers(model: torch.nn.Module) -> None:
    """Activations inside of each layer are computed again in backward, instead of kept."""
    layers = layers_of(model)
    if not layers:
        raise DistGraphBuildError("memory_config.gradient_checkpointing", "the model has no list of layers",
                                  "put them into a ModuleList or Sequential, or use torch.utils.checkpoint in it")
    for _, layer in layers:
        layer.forward = _recomputed(layer.forward)  # type: ignore[method-assign]


@dataclasses.dataclass
class Offloaded:
    """What went to files, in all."""

    tensors: int = 0
    bytes: int = 0


class _File:
    """An activation that lies in a file without a name, as long as backward may want it: none is left where the process is killed.
    It stays mapped, and no descriptor is held."""

    def __init__(self, tensor: torch.Tensor, folder: Optional[str]) -> None:
        with tempfile.TemporaryFile(prefix="cohort-activation-", dir=folder) as file:
            try:  # or writing to it, which is memory, would be a SIGBUS
                os.posix_fallocate(file.fileno(), 0, max(1, tensor.numel() * tensor.element_size()))
            except OSError as failure:
                raise MemoryOverflowError("an activation", f"{tensor.numel() * tensor.element_size()} bytes do not fit into a file in "
                                          f"{folder or tempfile.gettempdir()}: {failure.strerror}",
                                          "give memory_config['offload_dir'] a folder with room, or offload nothing") from failure
            path = f"/proc/self/fd/{file.fileno()}"
            self._mapped = torch.from_file(path, shared=True, size=tensor.numel(), dtype=tensor.dtype).view(tensor.shape)
        self._mapped.copy_(tensor)

    def read(self) -> torch.Tensor:
        return self._mapped.clone()


def offload_activations(model: torch.nn.Module, folder: Optional[str]) -> Offloaded:
    """Activations of forward lie in files until backward reads them, but for small ones, parameters and buffers."""
    told = Offloaded()
    kept = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}

    def pack(tensor: torch.Tensor) -> Any:
        size = tensor.numel() * tensor.element_size()
        if size < LEAST_OFFLOADED_BYTES or tensor.untyped_storage().data_ptr() in kept or tensor.layout != torch.strided:
            return tensor
        told.tensors += 1
        told.bytes += size
        return _File(tensor.detach(), folder)

    def unpack(packed: Any) -> torch.Tensor:
        return packed.read() if isinstance(packed, _File) else packed

    forward = model.forward

    def run(*arguments: Any, **keywords: Any) -> Any:
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            return forward(*arguments, **keywords)

    model.forward = run  # type: ignore[method-assign]
    return told
