# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a gradient graph: the code that graph engines report, the node, the cause, and what to do."""

from __future__ import annotations

from typing import Dict, Type

from ..errors import CohortError

__all__ = [
    "GE_ALLREDUCE_INSERT_FAILED", "GE_DIST_GRAPH_BUILD_ERROR", "GE_MEMORY_OVERFLOW", "AllReduceInsertError",
    "DistGraphBuildError", "GraphError", "MemoryOverflowError",
]


class GraphError(CohortError):
    """code: such as "GE_DIST_GRAPH_BUILD_ERROR". node: the node, tensor, parameter or option at fault; empty where it is no
    single one. cause and advice: what is wrong, and what to do next."""

    code = ""

    def __init__(self, node: str, cause: str, advice: str) -> None:
        text = f"{node}: {cause}; {advice}" if node else f"{cause}; {advice}"
        super().__init__(text, kind=self.code)
        self.node = node
        self.cause = cause
        self.advice = advice


class DistGraphBuildError(GraphError, ValueError):
    """A graph, or what is asked of it, makes no sense."""

    code = "GE_DIST_GRAPH_BUILD_ERROR"


class AllReduceInsertError(GraphError):
    """A gradient cannot be found, or not be reduced where it stands."""

    code = "GE_ALLREDUCE_INSERT_FAILED"


class MemoryOverflowError(GraphError, MemoryError):
    """More memory is needed than there is, or may be used."""

    code = "GE_MEMORY_OVERFLOW"


# By the names of their codes, for `except`.
GE_DIST_GRAPH_BUILD_ERROR = DistGraphBuildError
GE_ALLREDUCE_INSERT_FAILED = AllReduceInsertError
GE_MEMORY_OVERFLOW = MemoryOverflowError

_BY_CODE: Dict[str, Type[GraphError]] = {
    kind.code: kind for kind in (DistGraphBuildError, AllReduceInsertError, MemoryOverflowError)
}


def error_of(code: str, node: str, cause: str, advice: str) -> GraphError:
    """The exception of one of the native module's errors."""
    return _BY_CODE[code](node, cause, advice)
