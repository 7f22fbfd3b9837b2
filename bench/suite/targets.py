# SPDX-License-Identifier: Apache-2.0
"""How fast cohort has to be (targets.csv), and where it is not."""

import csv
import dataclasses
import fnmatch
import pathlib

from suite.cells import OPERATORS, Cell, parse_size

PATH = pathlib.Path(__file__).with_name("targets.csv")
OVERLAP = "overlap"  # not an operator: `times` is the part of an all_reduce that is hidden


@dataclasses.dataclass(frozen=True)
class Target:
    operators: tuple
    ranks: tuple
    program: str  # a variant of cohort
    least: int
    most: int
    times: float  # the best matching peer's time / cohort's
    against: tuple  # patterns of programs

    def applies(self, program, cell):
        return (program == self.program and cell.operator in self.operators and cell.ranks in self.ranks
                and self.least <= cell.bytes <= self.most)

    def is_rival(self, program):
        is_peer = not program.startswith("cohort/")
        return is_peer and any(fnmatch.fnmatchcase(program, pattern) for pattern in self.against)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A target held against what was measured."""

    cell: Cell
    program: str
    wanted: float
    reached: float
    rival: str
    us: float
    rival_us: float

    @property
    def is_short(self):
        return self.reached < self.wanted


def parse_sizes(text):
    """(least, most) of "all", "8", "256K-4M" or "0-64K"."""
    if text == "all":
        return 0, 1 << 62
    least, _, most = text.partition("-")
    return 0 if least == "0" else parse_size(least), parse_size(most or least)


def read(path=PATH):
    with path.open(newline="") as stream:
        return [
            Target(tuple(OPERATORS) if row["operators"] == "all" else tuple(row["operators"].split()),
                   tuple(map(int, row["ranks"].split())), row["cohort"], *parse_sizes(row["sizes"]),
                   float(row["times"]), tuple(row["against"].split()))
            for row in csv.DictReader(stream)
        ]


def best_rival(results, target, cell):
    """(us, name), over all transports, or None."""
    measured = []
    for program in results.programs:
        if target.is_rival(program.name):
            figure = results.figure(program, dataclasses.replace(cell, transport=program.transport))
            measured += [(figure.us, program.name)] if figure else []
    return min(measured, default=None)


def judge(results, targets):
    """Every target that can be held against a figure; of several against the same rivals, the highest."""
    verdicts = {}
    for cell in results.cells:
        for program in results.columns(cell.transport)[1]:
            figure = results.figure(program, cell)
            for target in targets if figure else ():
                if not target.applies(program.name, cell):
                    continue
                rival = best_rival(results, target, cell)
                key = (cell, program.name, target.against)
                if rival and (key not in verdicts or verdicts[key].wanted < target.times):
                    verdicts[key] = Verdict(cell, program.name, target.times, rival[0] / figure.us, rival[1],
                                            figure.us, rival[0])
    return list(verdicts.values())
