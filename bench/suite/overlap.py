# SPDX-License-Identifier: Apache-2.0
"""How much of an all_reduce is hidden behind computing of the same length: each alone and both at once, in turn."""

import csv
import dataclasses

from suite.cells import size_text, time_text
from suite.process import Failed, Process
from suite.programs import Launch, Unusable, command_line
from suite.targets import OVERLAP

RANKS = 2
COMPUTING = {
    "device": "a device computes, all cores are free",
    "one": "rank 0 computes on its core",
    "all": "every rank computes on its core",
}
WITHOUT = ("torch", "oneccl")
QUICK_SIZES = (1 << 20, 16 << 20)
FULL_SIZES = (*QUICK_SIZES, 64 << 20)
COLUMNS = ("peer", "transport", "form", "computing", "ranks", "bytes", "comm_us", "compute_us", "both_us")


@dataclasses.dataclass(frozen=True)
class Overlap:
    program: str
    form: str
    computing: str
    ranks: int
    bytes: int
    comm_us: float
    compute_us: float
    both_us: float

    @property
    def hidden(self):
        """0: both take as long as one after the other; 1: as long as the longer one."""
        shorter = min(self.comm_us, self.compute_us)
        return max(0.0, min(1.0, (self.comm_us + self.compute_us - self.both_us) / shorter))


def parse_line(line):
    """None for another line."""
    fields = line.strip().split(",")
    if len(fields) != 10 or fields[0] != OVERLAP or fields[4] not in COMPUTING:
        return None
    times = [float(field) for field in fields[7:]]
    if min(times) <= 0:
        return None
    return Overlap(f"{fields[1]}/{fields[2]}", fields[3], fields[4], int(fields[5]), int(fields[6]), *times)


def is_wanted(options):
    return not options.no_overlap and RANKS in options.ranks and "all_reduce" in options.operators


def has_form(program):
    """A non-blocking one, or a thread that waits."""
    return program.peer not in WITHOUT and program.name != "gloo/tcp-busy"


def measure(options, results, progress):
    sizes = QUICK_SIZES if options.quick else FULL_SIZES
    for computing in COMPUTING:
        for program in filter(has_form, results.programs):
            if progress.elapsed_s > options.time_limit_s:
                return
            progress.show(options.time_limit_s - progress.elapsed_s, f"overlap: {program.name}, {computing}")
            try:
                argv, environment = command_line(Launch(program, ("all_reduce",), RANKS, sizes), options)
                with Process([*argv, "--overlap", computing], environment, options.timeout) as process:
                    results.overlaps += filter(None, map(parse_line, process))
            except (Unusable, Failed) as reason:
                results.overlap_missing[program.name] = str(reason)


def best_forms(overlaps):
    """{(computing, bytes, program): Overlap}: of several forms the one that hides most."""
    best = {}
    for overlap in overlaps:
        key = (overlap.computing, overlap.bytes, overlap.program)
        if key not in best or best[key].hidden < overlap.hidden:
            best[key] = overlap
    return best


def table(results):
    """Rows of text: who computes, size, and of every program what is hidden and how long both take."""
    best = best_forms(results.overlaps)
    programs = [p.name for p in results.programs if any(p.name == key[2] for key in best)]
    yield ["computing", "size", *programs]
    for computing in COMPUTING:
        for size in sorted({key[1] for key in best if key[0] == computing}):
            row = [best.get((computing, size, program)) for program in programs]
            yield [computing, size_text(size), *(cell_text(one) for one in row)]


def cell_text(one):
    return f"{100 * one.hidden:.0f} % ({time_text(one.comm_us)} -> {time_text(one.both_us)})" if one else "-"


def shortfalls(results, targets):
    """(text, reached, wanted) where cohort hides too little although cores are free."""
    best = best_forms(results.overlaps)
    for target in targets:
        if target.operators != (OVERLAP,):
            continue
        for (computing, size, program), one in best.items():
            is_judged = computing == "device" and program.startswith("cohort/")
            if is_judged and target.least <= size <= target.most and one.hidden < target.times:
                yield f"overlap of all_reduce {size_text(size)}, {program}", one.hidden, target.times


def write(results, path):
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([*COLUMNS, "hidden"])
        for one in results.overlaps:
            writer.writerow([*one.program.split("/"), one.form, one.computing, one.ranks, one.bytes,
                             f"{one.comm_us:.3f}", f"{one.compute_us:.3f}", f"{one.both_us:.3f}", f"{one.hidden:.3f}"])
