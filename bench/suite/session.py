# SPDX-License-Identifier: Apache-2.0
"""Runs all programs in rounds, A B C A B C, until the rounds or the time are over."""

import tempfile

from suite import model
from suite.cells import Cell, Missing, Row, parse_line
from suite.process import Failed, Process
from suite.programs import Launch, Unusable, command_line

LIMITS_TIMEOUT_S = 20
LIMITS_S = 6.0


def cells_of(launch):
    for operator in launch.operators:
        for size in (0,) if operator == "barrier" else launch.sizes:
            yield Cell(launch.program.transport, operator, launch.ranks, size)


def plan_cells(options):
    """Every line of the tables. A ping-pong has two ranks."""
    return [
        Cell(transport, operator, ranks, size)
        for transport in options.transports
        for operator in options.operators
        for ranks in options.ranks
        if operator != "send_recv" or ranks == 2
        for size in ((0,) if operator == "barrier" else options.sizes)
    ]


def plan_launches(options, programs):
    """In the order of a round: what is compared runs close together."""
    groups = [tuple(options.operators)] if options.joins_operators else [(o,) for o in options.operators]
    for operators in groups:
        for ranks in options.ranks:
            there = tuple(o for o in operators if o != "send_recv" or ranks == 2)
            for program in programs:
                if program.takes_many:
                    yield from [Launch(program, there, ranks, tuple(options.sizes))] if there else []
                else:
                    yield from (Launch(program, (o,), ranks, tuple(options.sizes)) for o in there)


class Clock:
    """How long launches take: as long as last time; the first time, by what others of their kind took."""

    def __init__(self):
        self._taken = {}
        self._guessed = self._measured = 1.0

    @staticmethod
    def _guess(launch):
        points = sum(1 for _ in cells_of(launch))
        return 0.4 + points * {1: 0.05, 2: 0.12}.get(launch.ranks, 0.06 * launch.ranks)

    def record(self, launch, taken_s):
        if launch not in self._taken:
            self._guessed += self._guess(launch)
            self._measured += taken_s
        self._taken[launch] = taken_s

    def expect(self, launch):
        return self._taken.get(launch, self._guess(launch) * self._measured / self._guessed)


class Session:
    def __init__(self, options, results, progress, overlap=None):
        self._options = options
        self._results = results
        self._progress = progress
        self._overlap = overlap  # a function that measures it, after the first round
        self._clock = Clock()
        self._launches = list(plan_launches(options, results.programs))

    def run(self):
        """Measures. Whatever ends it, results hold what there is."""
        with tempfile.TemporaryDirectory(prefix="cohort-bench-") as scratch:
            self._environment = {"TMPDIR": scratch}
            try:
                for turn in range(1, self._options.rounds + 1):
                    if not self._run_round(turn):
                        break
            finally:
                self._progress.clear()

    def _run_round(self, turn):
        """False when the time is over."""
        launches = [launch for launch in self._launches if turn == 1 or self._is_of_use(launch)]
        self._measure_limits(self._left_s(launches, turn))
        for index, launch in enumerate(launches):
            expected = self._clock.expect(launch)
            if self._progress.elapsed_s + expected > self._options.time_limit_s:
                self._note_unmeasured(launches[index:])
                return False
            self._progress.show(self._left_s(launches[index:], turn), f"round {turn}: {launch}")
            self._run_launch(launch, turn)
        if turn == 1 and self._overlap:
            self._overlap(self._results, self._progress)
        self._results.rounds = turn
        return True

    def _is_of_use(self, launch):
        """More rounds where there is something to compare with."""
        return any(self._results.has_cohort(operator) for operator in launch.operators)

    def _left_s(self, launches, turn):
        rest = sum(map(self._clock.expect, launches))
        whole = sum(map(self._clock.expect, filter(self._is_of_use, self._launches))) or rest
        rest += (self._options.rounds - turn) * whole
        return min(rest, self._options.time_limit_s - self._progress.elapsed_s)

    def _note_unmeasured(self, launches):
        for launch in launches:
            for cell in cells_of(launch):
                self._results.add_untried(Missing(launch.program.name, cell, "the time was over (--minutes)"))

    def _measure_limits(self, left_s):
        self._progress.show(left_s, "limits of this machine")
        entries = []
        try:
            argv = [str(self._options.bin / "limits"), str(2 * self._options.near_wait_ms)]
            with Process(argv, self._environment, LIMITS_TIMEOUT_S) as process:
                entries = [entry for line in process if (entry := model.parse_line(line))]
            self._results.add_limits(entries)
        except Failed as reason:
            self._progress.note(f"limits: {reason}: no lower bounds")

    def _run_launch(self, launch, turn):
        """One launch without the cells that have hung before."""
        name = launch.program.name
        hung = {cell for cell in cells_of(launch) if (name, cell) in self._results.hung}
        sizes = tuple(size for size in launch.sizes
                      if not any(cell.bytes == size and len(launch.operators) == 1 for cell in hung))
        operators = tuple(o for o in launch.operators
                          if len(launch.operators) == 1 or not any(cell.operator == o for cell in hung))
        if not sizes or not operators or (operators == ("barrier",) and hung):
            return
        reduced = Launch(launch.program, operators, launch.ranks, sizes)
        start = self._progress.elapsed_s
        left = {cell: None for cell in cells_of(reduced)}
        try:
            self._read_rows(reduced, turn, left)
        except (Unusable, Failed) as reason:
            self._note_failure(name, list(left), reason)
        else:
            for cell in left:
                self._results.add_missing(Missing(name, cell, "printed no row for this point"))
        self._clock.record(launch, self._progress.elapsed_s - start)

    def _read_rows(self, launch, turn, left):
        argv, environment = command_line(launch, self._options)
        with Process(argv, {**environment, **self._environment}, self._options.timeout) as process:
            for line in process:
                try:
                    found = parse_line(line, turn)
                except ValueError as error:
                    raise Failed(f"printed {error}") from None
                if not isinstance(found, (Row, Missing)) or found.program != launch.program.name:
                    continue
                left.pop(found.cell, None)
                if isinstance(found, Row):
                    self._results.add(found)
                else:
                    self._results.add_missing(found)

    def _note_failure(self, name, cells, reason):
        if isinstance(reason, Failed) and "no answer" in str(reason) and cells:
            self._results.hung.add((name, cells[0]))
        for cell in cells:
            self._results.add_missing(Missing(name, cell, str(reason)))
