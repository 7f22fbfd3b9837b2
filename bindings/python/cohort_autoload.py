# SPDX-License-Identifier: Apache-2.0
"""What torch calls at the end of `import torch`, where the package is installed with that entry point (torch.backends).

Nothing happens unless COHORT_TORCH asks for it, so that a program need not be changed to use the backend "cohort":

    COHORT_TORCH=default   process groups that name no backend have "cohort" for tensors in CPU memory
    COHORT_TORCH=gloo      those that name gloo, too; torch.distributed.get_backend() says gloo of these, which programs
                           branch on, and get_backend_config() what they have
"""

import os
from typing import Any


def _create(*arguments: Any) -> Any:
    """The backend itself is loaded with the first group."""
    import cohort.torch

    return cohort.torch._create(*arguments)


def _register(c10d: Any) -> None:
    if "cohort" not in c10d.Backend.backend_list:
        c10d.Backend.register_backend("cohort", _create, extended_api=True, devices=["cpu"])


def _translate(c10d: Any, name: Any, wanted: str) -> Any:
    """The name of a group's backend, as it is to be."""
    text = str(name)
    if wanted == "gloo":
        text = ",".join(part[:-4] + "cohort" if part.rpartition(":")[2] == "gloo" else part for part in text.split(","))
    return name if text == str(name) else c10d.Backend(text)


def _take_over(wanted: str) -> None:
    from torch.distributed import distributed_c10d as c10d

    if wanted not in ("default", "gloo"):
        raise ValueError("give default or gloo")
    if c10d.Backend.default_device_backend_map["cpu"] == "cohort":
        return  # it was called before: by torch, and by a program that does not know that
    _register(c10d)
    c10d.Backend.default_device_backend_map["cpu"] = "cohort"
    make = c10d._new_process_group_helper

    def make_group(group_size: int, group_rank: int, ranks: Any, backend: Any, *more: Any, **options: Any) -> Any:
        import torch

        is_default = backend == c10d.Backend.UNDEFINED and torch._C._get_accelerator().type == "cpu"
        name = c10d.Backend("cohort") if is_default else _translate(c10d, backend, wanted)
        group, store = make(group_size, group_rank, ranks, name, *more, **options)
        # Torch leaves out the default where devices have backends of their own and one of them is not its own.
        if ":" in str(name) and "nccl" not in str(name) and isinstance(group, c10d.ProcessGroup):
            kinds = c10d.ProcessGroup.BackendType
            group._set_default_backend(kinds.CUSTOM if "cohort" in str(name) else kinds.GLOO)
        if not is_default and str(name) != str(backend) and isinstance(group, c10d.ProcessGroup):
            c10d._world.pg_map[group] = (c10d.Backend(str(backend)), c10d._world.pg_map[group][1])
        return group, store

    c10d._new_process_group_helper = make_group


def autoload() -> None:
    """Never fails: torch could not be imported then."""
    wanted = os.environ.get("COHORT_TORCH", "")
    if not wanted:
        return
    try:
        _take_over(wanted)
    except Exception as error:
        import warnings

        warnings.warn(f"COHORT_TORCH={wanted} has no effect: {error}", stacklevel=2)
