# SPDX-License-Identifier: Apache-2.0
"""What was measured, and what it says: figures, best peers, limits."""

import collections
import csv
import dataclasses

from suite import model
from suite.cells import COLUMNS, Cell, choose_kind, figure_of


@dataclasses.dataclass(frozen=True)
class Entry:
    """One variant of cohort in one cell, held against the best peer and the limit. None: not measured."""

    cell: Cell
    program: str
    kind: str
    us: float | None
    best_peer: str | None
    best_us: float | None
    limit_us: float | None

    @property
    def times_faster(self):
        return self.best_us / self.us if self.us and self.best_us else None

    @property
    def of_limit(self):
        """1: as fast as the machine; 0.5: takes twice as long."""
        return self.limit_us / self.us if self.us and self.limit_us else None


class Results:
    def __init__(self, programs, cells, cores, cache_bytes):
        self.programs = programs
        self.cells = cells
        self.rounds = 0  # that are complete
        self.missing = {}  # (program, cell) -> why
        self.hung = set()  # (program, cell): once is enough
        self.overlaps = []
        self.overlap_missing = {}  # program -> why
        self._rows = collections.defaultdict(list)
        self._limit_entries = []
        self._limits = {}
        self._machine = (cores, cache_bytes)

    def add(self, row):
        self._rows[row.program, row.cell].append(row)
        self.missing.pop((row.program, row.cell), None)
        self._limits.clear()

    def add_missing(self, missing):
        if not self._rows.get((missing.program, missing.cell)):
            self.missing[missing.program, missing.cell] = missing.reason

    def add_untried(self, missing):
        """The same, where an earlier reason says more."""
        if (missing.program, missing.cell) not in self.missing:
            self.add_missing(missing)

    def add_limits(self, entries):
        self._limit_entries += entries
        self._limits.clear()

    def rows(self, program, cell):
        return self._rows.get((program.name, cell), [])

    def has_cohort(self, operator):
        """Whether any variant of cohort has a figure for the operator."""
        return any(rows and cell.operator == operator and program.startswith("cohort/")
                   for (program, cell), rows in self._rows.items())

    def columns(self, transport):
        """(peers, variants of cohort) of a transport."""
        there = [program for program in self.programs if program.transport == transport]
        return [p for p in there if not p.is_cohort], [p for p in there if p.is_cohort]

    def kind(self, cell):
        there = [self.rows(program, cell) for program in self.programs if program.transport == cell.transport]
        return choose_kind([rows for rows in there if rows])

    def figure(self, program, cell):
        if program.transport != cell.transport:
            return None
        return figure_of(self.rows(program, cell), self.kind(cell))

    def best_peer(self, cell, among=None):
        """(us, name) of the fastest peer, or None."""
        measured = []
        for program in self.columns(cell.transport)[0]:
            figure = self.figure(program, cell)
            if figure and (among is None or among(program.name)):
                measured.append((figure.us, program.name))
        return min(measured, default=None)

    def has_limits(self, kind):
        return any(entry[3] == kind for entry in self._limit_entries)

    def limits(self, kind):
        """None if they were not measured."""
        if not self._limit_entries:
            return None
        if kind not in self._limits:
            self._limits[kind] = model.Limits(self._limit_entries, kind, *self._machine)
        return self._limits[kind]

    def limit_us(self, cell, program=None):
        """For processes, or for the program if its ranks are threads."""
        limits = self.limits(self.kind(cell))
        in_process = program is not None and program.label.endswith("-threads")
        return model.limit_us(limits, cell, in_process) if limits else None

    def entry(self, program, cell):
        figure = self.figure(program, cell)
        best = self.best_peer(cell) or (None, None)
        return Entry(cell, program.name, self.kind(cell), figure.us if figure else None, best[1], best[0],
                     self.limit_us(cell, program))

    def entries(self):
        for cell in self.cells:
            for program in self.columns(cell.transport)[1]:
                yield self.entry(program, cell)

    def all_rows(self):
        for rows in self._rows.values():
            yield from rows


def write_rows(results, path):
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([*COLUMNS, "round"])
        writer.writerows(row.fields() for row in results.all_rows())


def write_cells(results, path):
    def text(value):
        return "" if value is None else f"{value:.3f}"

    with path.open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["transport", "collective", "ranks", "bytes", "placement", "cohort", "cohort_us", "best_peer",
                         "best_us", "best/cohort", "limit_us", "limit/cohort"])
        for entry in results.entries():
            cell = entry.cell
            writer.writerow([cell.transport, cell.operator, cell.ranks, cell.bytes, entry.kind, entry.program,
                             text(entry.us), entry.best_peer or "", text(entry.best_us), text(entry.times_faster),
                             text(entry.limit_us), text(entry.of_limit)])
