# SPDX-License-Identifier: Apache-2.0
"""LightGBM's distributed trainings over cohort instead of its own sockets:

    import cohort.lightgbm
    comm = cohort.lightgbm.init()                    # in the thread that trains, before the first Dataset
    lightgbm.train({"tree_learner": "data", "num_machines": comm.size, "pre_partition": True, ...}, ...)

See docs/use/programs.md.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Optional

try:
    from lightgbm import basic as _basic
except ImportError as error:
    raise ImportError(f"cohort.lightgbm needs LightGBM, 4 or later: pip install lightgbm ({error})") from error

from . import join
from ._cohort import Communicator, lightgbm_functions

_thread = threading.local()  # .comm: of trainings of this thread, as LightGBM's network is a thread's


def init(comm: Optional[Communicator] = None, **options: Any) -> Communicator:
    """Has trainings of this thread communicate over `comm`, or a communicator that it joins by the launcher that started the
    job, with options as of cohort.join(). Returns it.

    LightGBM takes that for the network where "num_machines" is comm.size and no "machines" are given. What fails there is
    LightGBMError with cohort's text, and comm.failure. Raises what joining raises."""
    if comm is None:
        comm = join(**{"name": "lightgbm", **options})
    elif options:
        raise TypeError(f"init: {', '.join(options)} of a communicator that is there already; give one or the other")
    functions = lightgbm_functions(comm)
    _basic._safe_call(_basic._LIB.LGBM_NetworkInitWithFunctions(
        ctypes.c_int(comm.size), ctypes.c_int(comm.rank), *map(ctypes.c_void_p, functions)))
    _thread.comm = comm
    return comm


def finalize() -> None:
    """Ends that: trainings of this thread are on their own again. Closes a communicator that is not closed yet."""
    _basic._safe_call(_basic._LIB.LGBM_NetworkFree())
    comm = _thread.__dict__.pop("comm", None)
    if comm is not None and not comm.is_closed:
        comm.close()
