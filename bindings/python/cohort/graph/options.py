# SPDX-License-Identifier: Apache-2.0
"""What an optimizer can be told, by keywords or by a YAML file, and how it is checked."""

from __future__ import annotations

import dataclasses
import difflib
import pathlib
import re
from typing import Any, Dict, Iterable, Mapping, Optional, Union

from .errors import DistGraphBuildError

STRATEGIES = ("synchronous", "compute_communication_overlap", "hierarchical", "smart_overlap")
COMPRESSIONS = ("fp16", "bf16", "int8", "top_k", "power_sgd")
MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Compression:
    """How buckets travel. They are compressed only where that is predicted to pay, unless `always`."""

    kind: str = "int8"
    error_feedback: bool = True
    top_ratio: float = 0.01
    momentum: float = 0.0
    rank: int = 2
    always: bool = False


@dataclasses.dataclass(frozen=True)
class MemoryOptions:
    gradient_checkpointing: bool = False
    activation_offloading: bool = False
    buffer_size: Union[None, str, int] = None  # "dynamic", or bytes of a bucket
    limit: int = 0  # bytes of parameters, gradients and their buckets; 0: none
    offload_dir: Optional[str] = None  # for files of activations; None: the system's folder for temporary files


@dataclasses.dataclass(frozen=True)
class Replanning:
    """When a plan is made anew; as cohort::graph::ReplanRule. `compares_with_synchronous`: whether smart_overlap goes back to
    reducing after backward where that is measured to be over sooner."""

    skipped_steps: int = 1
    profile_steps: int = 10
    tolerance: float = 0.1
    patience: int = 20
    most_rounds: int = 3
    compares_with_synchronous: bool = True


@dataclasses.dataclass(frozen=True)
class Options:
    allreduce_strategy: str = "smart_overlap"
    bucket_bytes: int = 0  # 0: no limit
    min_tensor_size: int = 0
    max_group_size: int = 0
    split_size: int = 0  # gradients of more bytes are cut; 0: none
    form: str = "shares"  # of the strategy hierarchical
    enable_pipeline: bool = True
    lazy_step: bool = False
    enable_compression: Optional[Compression] = None
    gradient_sync_method: str = "full_sync"
    sync_frequency: int = 1
    gradient_clipping: Optional[float] = None
    gradient_accumulation_steps: int = 1
    broadcast_buffers: bool = True
    enable_memory_reuse: bool = True
    kernel_fusion: bool = False
    precision_mode: str = "fp32"
    memory: MemoryOptions = MemoryOptions()
    replanning: Replanning = Replanning()


# The keys of the file, section by section, and the keywords that they are.
FILE_KEYS: Dict[str, Any] = {
    "distributed": {
        "allreduce_insertion": {
            "strategy": "allreduce_strategy", "min_tensor_size": "min_tensor_size", "max_group_size": "max_group_size",
            "enable_pipeline": "enable_pipeline", "lazy_step": "lazy_step", "bucket_size": "bucket_size", "split_size": "split_size", "form": "form",
            "compression": "enable_compression",
        },
        "gradient_sync": {
            "method": "gradient_sync_method", "frequency": "sync_frequency", "clipping": "gradient_clipping",
            "broadcast_buffers": "broadcast_buffers",
        },
    },
    "performance": {
        "memory_optimization": {
            "enable_memory_reuse": "enable_memory_reuse", "gradient_accumulation_steps": "gradient_accumulation_steps",
            "gradient_checkpointing": "memory_config.gradient_checkpointing",
            "activation_offloading": "memory_config.activation_offloading", "buffer_size": "memory_config.buffer_size",
            "limit": "memory_config.limit", "offload_dir": "memory_config.offload_dir",
        },
        "computation_optimization": {"kernel_fusion": "kernel_fusion", "precision_mode": "precision_mode"},
    },
}


def _refuse(where: str, cause: str, advice: str) -> DistGraphBuildError:
    return DistGraphBuildError(where, cause, advice)


def refuse_unknown(given: Iterable[str], known: Iterable[str], where: str) -> None:
    """Raises for the first key that is none, with the nearest known one."""
    names = sorted(known)
    for key in given:
        if key in names:
            continue
        near = difflib.get_close_matches(str(key), names, n=1, cutoff=0.4)
        advice = f"did you mean {near[0]!r}?" if near else f"give one of {', '.join(names)}"
        raise _refuse(f"{where}{key}", "there is no such option", advice)


def size_of(value: Union[int, str], where: str) -> int:
    """Bytes: a number of them, or such as "1MB" or "512 KiB", which count in powers of 1024."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]?)(?:i?B)?\s*", value, re.IGNORECASE) if isinstance(value, str) else None
    if found is None:
        raise _refuse(where, f"{value!r} is no size", "give bytes, or such as 1MB")
    return int(float(found[1]) * (1 << (10 * "KMG".index(found[2].upper()) + 10 if found[2] else 0)))


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise _refuse(where, f"{value!r} is neither true nor false", "give one of these")
    return value


def _count(value: Any, where: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise _refuse(where, f"{value!r} is no whole number of {least} or more", "give one")
    return value


def _one_of(value: Any, where: str, names: Iterable[str]) -> str:
    names = list(names)
    if value not in names:
        near = difflib.get_close_matches(str(value), names, n=1)
        raise _refuse(where, f"{value!r} is none of {', '.join(names)}", f"did you mean {near[0]!r}?" if near else "give one of them")
    return str(value)


def _positive(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise _refuse(where, f"{value!r} is not above zero", "give such a number, or leave it out")
    return float(value)


def _compression(value: Any) -> Optional[Compression]:
    where = "enable_compression"
    if value is None or value is False or isinstance(value, Compression):
        return value or None
    given = {} if value is True else {"kind": value} if isinstance(value, str) else value
    if not isinstance(given, Mapping):
        raise _refuse(where, f"{value!r} is no compression", f"give True, one of {', '.join(COMPRESSIONS)}, or a mapping")
    refuse_unknown(given, (field.name for field in dataclasses.fields(Compression)), f"{where}.")
    made = Compression(**given)
    _one_of(made.kind, f"{where}.kind", COMPRESSIONS)
    return made


def memory_options(value: Optional[Mapping[str, Any]]) -> MemoryOptions:
    """Of a memory_config."""
    if value is None or isinstance(value, MemoryOptions):
        return value or MemoryOptions()
    where = "memory_config."
    refuse_unknown(value, (field.name for field in dataclasses.fields(MemoryOptions)), where)
    given = dict(value)
    for key in ("gradient_checkpointing", "activation_offloading"):
        if key in given:
            given[key] = _flag(given[key], where + key)
    if given.get("buffer_size") not in (None, "dynamic"):
        given["buffer_size"] = size_of(given["buffer_size"], where + "buffer_size")
    if given.get("limit"):
        given["limit"] = size_of(given["limit"], where + "limit")
    return MemoryOptions(**given)


def _bucket_bytes(given: Dict[str, Any]) -> int:
    """Of bucket_size and bucket_cap_mb, which are one thing."""
    sizes = {key: given.pop(key) for key in ("bucket_size", "bucket_cap_mb") if given.get(key) is not None}
    given.pop("bucket_size", None)
    given.pop("bucket_cap_mb", None)
    if len(set(sizes.values())) > 1:
        raise _refuse("bucket_cap_mb", f"bucket_size is {sizes['bucket_size']!r} and bucket_cap_mb {sizes['bucket_cap_mb']!r}",
                      "give one of them: both are the most MiB of a bucket")
    for key, value in sizes.items():
        return size_of(value, key) if isinstance(value, str) else int(_positive(value, key) * MIB)
    return 0


def _check_lazy(options: Options) -> None:
    """What an update of single parameters cannot do."""
    for key, is_wrong, cause in (
            ("allreduce_strategy", options.allreduce_strategy != "smart_overlap", "only smart_overlap sends what forward uses first"),
            ("gradient_clipping", options.gradient_clipping is not None, "the norm of all gradients is known when all are averaged"),
            ("precision_mode", options.precision_mode == "fp16", "whether a step is left out is known when all are averaged"),
            ("sync_frequency", options.sync_frequency > 1, "partial_sync updates what it has not averaged in this step"),
            ("split_size", options.split_size > 0, "an update is of a whole parameter"),
            ("enable_pipeline", not options.enable_pipeline, "nothing is sent before backward ends"),
            ("enable_memory_reuse", not options.enable_memory_reuse, "gradients are read where they are averaged")):
        if is_wrong:
            raise _refuse("lazy_step", f"with {key}={getattr(options, key)!r}, and {cause}", f"leave out lazy_step, or {key}")


def make_options(given: Mapping[str, Any]) -> Options:
    """Of keywords, checked. `bucket_size` and `bucket_cap_mb` are MiB; sizes are bytes, or texts such as "1MB"."""
    values = dict(given)
    sizes = ("bucket_size", "bucket_cap_mb", "memory_config")
    fields = {field.name for field in dataclasses.fields(Options)} - {"bucket_bytes", "memory"}
    refuse_unknown(values, (*fields, *sizes), "")
    made: Dict[str, Any] = {"bucket_bytes": _bucket_bytes(values), "memory": memory_options(values.pop("memory_config", None))}
    made.update({key: value for key, value in values.items() if value is not None})
    checks: Dict[str, Any] = {
        "allreduce_strategy": lambda v, at: _one_of(v, at, STRATEGIES),
        "min_tensor_size": size_of, "split_size": size_of, "max_group_size": lambda v, at: _count(v, at, 0),
        "form": lambda v, at: _one_of(v, at, ("shares", "leader")), "enable_pipeline": _flag,
        "enable_compression": lambda v, at: _compression(v),
        "gradient_sync_method": lambda v, at: _one_of(v, at, ("full_sync", "partial_sync")),
        "sync_frequency": lambda v, at: _count(v, at, 1), "gradient_clipping": _positive,
        "gradient_accumulation_steps": lambda v, at: _count(v, at, 1), "enable_memory_reuse": _flag, "kernel_fusion": _flag,
        "broadcast_buffers": _flag, "lazy_step": _flag,
        "precision_mode": lambda v, at: _one_of(v, at, ("fp32", "bf16", "fp16")),
    }
    for key, check in checks.items():
        if key in made:
            made[key] = check(made[key], key)
    options = Options(**made)
    if options.sync_frequency > 1 and options.gradient_sync_method == "full_sync":
        raise _refuse("sync_frequency", "full_sync reduces every gradient in every step",
                      "give gradient_sync_method='partial_sync', or gradient_accumulation_steps")
    if options.split_size and options.gradient_sync_method == "partial_sync":
        raise _refuse("split_size", "partial_sync averages a gradient as a whole", "give one of them")
    if options.precision_mode == "fp16" and options.sync_frequency > 1:
        raise _refuse("precision_mode", "fp16, and partial_sync keeps gradients over steps whose losses have other scales",
                      "take bf16, or full_sync")
    if options.lazy_step:
        _check_lazy(options)
    if isinstance(options.memory.buffer_size, int):
        options = dataclasses.replace(options, bucket_bytes=options.memory.buffer_size)
    return options


def _flatten(given: Any, known: Dict[str, Any], where: str, into: Dict[str, Any]) -> None:
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise _refuse(where or "the file", f"it is {given!r}", f"give a mapping with {', '.join(known)}")
    refuse_unknown(given, known, f"{where}.".lstrip("."))
    for key, value in given.items():
        keyword = known[key]
        if isinstance(keyword, dict):
            _flatten(value, keyword, f"{where}.{key}".lstrip("."), into)
        elif keyword.startswith("memory_config."):
            into.setdefault("memory_config", {})[keyword.partition(".")[2]] = value
        else:
            into[keyword] = value


def keywords_of_file(config: Union[str, pathlib.Path, Mapping[str, Any]]) -> Dict[str, Any]:
    """The keywords that a YAML file, or what was read from one, asks for."""
    if isinstance(config, Mapping):
        read: Any = config
    else:
        try:
            import yaml
        except ImportError:
            raise _refuse(f"config {config}", "there is no PyYAML to read it", "pip install PyYAML, or give a mapping") from None
        try:
            read = yaml.safe_load(pathlib.Path(config).read_text(encoding="utf-8"))
        except OSError as failure:
            raise _refuse(f"config {config}", f"it cannot be read: {failure.strerror}", "give the path of a YAML file") from None
        except yaml.YAMLError as failure:
            raise _refuse(f"config {config}", f"it is no YAML: {failure}", "mend it there") from None
    keywords: Dict[str, Any] = {}
    _flatten(read, FILE_KEYS, "", keywords)
    return keywords
