# SPDX-License-Identifier: Apache-2.0
"""What the tools beside the suite share: lines of a program, and a comparison that is written however it ends."""

import os
import signal
import sys

from suite.process import Failed, Process

TIMEOUT_S = 60
LOADED = 0.5


def lines_of(argv, timeout_s=TIMEOUT_S):
    with Process([str(word) for word in argv], {}, timeout_s) as process:
        return list(process)


def run_and_write(name, run, write):
    """Calls run(), and then write() with what there is. The status: 0, 1 if run() Failed, or 130 after Ctrl-C."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception, so that what runs is ended too
    if (load := os.getloadavg()[0]) > LOADED:
        print(f"note: load average {load:.2f} at the start: other programs disturb the figures", file=sys.stderr)
    status = 0
    try:
        run()
    except KeyboardInterrupt:
        status = 130
    except Failed as reason:
        print(f"{name}: {reason}", file=sys.stderr)
        status = 1
    write()
    return status
