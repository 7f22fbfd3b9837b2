# SPDX-License-Identifier: Apache-2.0
"""Measures, and writes what came out, also when interrupted."""

import functools
import os
import signal
import sys

from suite import machine, overlap, report, table
from suite.options import choose_programs, parse
from suite.progress import Progress
from suite.results import Results, write_cells, write_rows
from suite.session import Session, plan_cells

LOADED = 0.5


def write(results, options, elapsed_s):
    """Everything into the folder, the table to standard output."""
    options.out.mkdir(parents=True, exist_ok=True)
    text = "\n".join(table.lines_of(results, options.transports)) + "\n"
    (options.out / "table.txt").write_text(text)
    write_rows(results, options.out / "rows.csv")
    write_cells(results, options.out / "cells.csv")
    overlap.write(results, options.out / "overlap.csv")
    report.write(results, options, elapsed_s, options.out / "report.html")
    print(text)
    for name in ("report.html", "table.txt", "cells.csv", "rows.csv", "overlap.csv"):
        print(options.out / name)


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception, so that what runs is ended too
    if (load := os.getloadavg()[0]) > LOADED:
        print(f"note: load average {load:.2f} at the start: other programs disturb the figures", file=sys.stderr)
    results = Results(choose_programs(options), plan_cells(options), options.cores, machine.largest_cache_bytes())
    progress = Progress()
    beside = functools.partial(overlap.measure, options) if overlap.is_wanted(options) else None
    status = 0
    try:
        Session(options, results, progress, beside).run()
    except KeyboardInterrupt:
        status = 130
    except SystemExit as end:
        status = end.code
    write(results, options, progress.elapsed_s)
    return status if any(results.all_rows()) else status or 1
