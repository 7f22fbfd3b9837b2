# SPDX-License-Identifier: Apache-2.0
"""What programs here have to do with their tests: they tell their losses, and one of their ranks is killed."""

import os
import signal
import time

STEPS = int(os.environ.get("STEPS", 6))


def tell(step, loss):
    """As rank 0 sees it."""
    if os.environ.get("RANK", "0") == "0":
        print(f"loss {step} {float(loss)!r} at {time.perf_counter()}", flush=True)


def may_die(step, rank=None):
    """Kills rank 1 at the step that KILL_AT says."""
    rank = os.environ.get("RANK") if rank is None else str(rank)
    if rank == "1" and str(step) == os.environ.get("KILL_AT"):
        os.kill(os.getpid(), signal.SIGKILL)
