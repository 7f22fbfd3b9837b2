# SPDX-License-Identifier: Apache-2.0
"""What is measured: cells, and rows, which are one program's figure for a cell in one round."""

import dataclasses
import math
import statistics

TRANSPORTS = ("shm", "tcp")
OPERATORS = ("all_reduce", "barrier", "broadcast", "all_gather", "reduce_scatter", "reduce", "all_to_all", "send_recv",
             "gather", "scatter", "all_gather_v", "reduce_scatter_v", "gather_v", "scatter_v", "all_to_all_vc", "scan",
             "exclusive_scan")
COLUMNS = ("peer", "transport", "collective", "ranks", "bytes", "min_us", "median_us", "p99_us", "iters",
           "rtt_before_ns", "rtt_after_ns")

# Where the hypervisor had two virtual processors while a row was measured, by the round trip of a cache line between
# them (as in peers/board.h): near ones share a cache, siblings a core. Figures of different kinds do not compare.
KINDS = ("near", "siblings", "far", "moved", "unknown")
SIBLINGS_NS = 100
NEAR_NS = 250


def kind_of(round_trip_ns):
    if round_trip_ns <= 0:
        return "unknown"
    return "siblings" if round_trip_ns < SIBLINGS_NS else "near" if round_trip_ns < NEAR_NS else "far"


def kind_between(before_ns, after_ns):
    before, after = kind_of(before_ns), kind_of(after_ns)
    return before if before == after else "moved"


@dataclasses.dataclass(frozen=True, order=True)
class Cell:
    """One line of a table. `bytes` as bench/README.md defines them; a barrier has 0."""

    transport: str
    operator: str
    ranks: int
    bytes: int

    def __str__(self):
        size = "" if self.operator == "barrier" else f" {size_text(self.bytes)}"
        return f"{self.operator}{size}, {self.ranks} ranks, {self.transport}"


@dataclasses.dataclass(frozen=True)
class Row:
    """What a program printed for a cell in one round."""

    program: str  # peer/label
    cell: Cell
    min_us: float
    median_us: float
    p99_us: float
    iterations: int
    before_ns: float
    after_ns: float
    round: int = 1

    @property
    def kind(self):
        return kind_between(self.before_ns, self.after_ns)

    def fields(self):
        """In the order of COLUMNS, and the round."""
        peer, label = self.program.split("/")
        return [peer, label, self.cell.operator, self.cell.ranks, self.cell.bytes, f"{self.min_us:.3f}",
                f"{self.median_us:.3f}", f"{self.p99_us:.3f}", self.iterations, f"{self.before_ns:.0f}",
                f"{self.after_ns:.0f}", self.round]


@dataclasses.dataclass(frozen=True)
class Missing:
    """Why a program has no figure for a cell."""

    program: str
    cell: Cell
    reason: str


def parse_line(line, turn=1):
    """A Row, a Missing, or None for a line that is neither. Throws ValueError for a row that cannot be read."""
    fields = line.strip().split(",", len(COLUMNS) - 1)
    if len(fields) < 7 or fields[2] not in OPERATORS:
        return None
    peer, label, operator, ranks, size = fields[:5]
    cell = Cell(label.split("-")[0], operator, int(ranks), 0 if operator == "barrier" else int(size))
    program = f"{peer}/{label}"
    if fields[5] == "-":
        return Missing(program, cell, ",".join(fields[6:]))
    if len(fields) < len(COLUMNS):
        raise ValueError(f"a row of {len(fields)} fields: {line.strip()}")
    figures = [float(field) for field in fields[5:8]]
    trips = [float(field) for field in fields[9:11]]
    if not all(map(math.isfinite, figures + trips)) or figures[1] <= 0:
        raise ValueError(f"a row without a time: {line.strip()}")
    return Row(program, cell, *figures, int(fields[8]), *trips, turn)


def size_text(size):
    for shift, suffix in ((30, "G"), (20, "M"), (10, "K")):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift}{suffix}"
    return str(size)


def parse_size(text):
    """Bytes of 8, 4K or 64M. Throws ValueError."""
    shift = {"K": 10, "M": 20, "G": 30}.get(text[-1:].upper(), 0)
    size = int(text[:-1] if shift else text) << shift
    if size < 4:
        raise ValueError(f"{text}: at least 4 bytes, one float32")
    return size


def time_text(us):
    return f"{us:.2f}" if us < 100 else f"{us:.1f}" if us < 1000 else f"{us:.0f}"


@dataclasses.dataclass(frozen=True)
class Figure:
    """One program's figure for a cell: the median of its rounds' medians, of one kind where there are such rows."""

    us: float
    is_of_kind: bool
    varies: bool  # by more than a factor of two between rounds
    rounds: int


def choose_kind(rows_of_programs):
    """The kind in which most programs can be compared: one that all have, near first."""
    have = {kind: sum(any(row.kind == kind for row in rows) for rows in rows_of_programs) for kind in KINDS}
    return max(KINDS, key=lambda kind: (have[kind], -KINDS.index(kind)))


def figure_of(rows, kind):
    """None without rows."""
    if not rows:
        return None
    chosen = [row.median_us for row in rows if row.kind == kind]
    medians = chosen or [row.median_us for row in rows]
    return Figure(statistics.median(medians), bool(chosen), max(medians) > 2 * min(medians), len(medians))
