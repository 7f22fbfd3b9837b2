# SPDX-License-Identifier: Apache-2.0
"""What bounds figures that fall short of their target, and what was tried: known from profiles (bounds.csv)."""

import csv
import dataclasses
import fnmatch
import pathlib

from suite import targets
from suite.cells import OPERATORS

PATH = pathlib.Path(__file__).with_name("bounds.csv")


@dataclasses.dataclass(frozen=True)
class Bound:
    operators: tuple
    ranks: tuple
    program: str  # a pattern
    least: int
    most: int
    bound: str
    tried: str

    def explains(self, verdict):
        cell = verdict.cell
        return (fnmatch.fnmatchcase(verdict.program, self.program) and cell.operator in self.operators
                and cell.ranks in self.ranks and self.least <= cell.bytes <= self.most)


def read(path=PATH):
    with path.open(newline="") as stream:
        return [
            Bound(tuple(OPERATORS) if row["operators"] == "all" else tuple(row["operators"].split()),
                  tuple(map(int, row["ranks"].split())), row["cohort"], *targets.parse_sizes(row["sizes"]),
                  row["bound"], row["tried"]) for row in csv.DictReader(stream)
        ]


def explain(verdict, bounds):
    """The place of the first bound that explains it, from 1; None where nobody has looked yet."""
    return next((place for place, bound in enumerate(bounds, 1) if bound.explains(verdict)), None)
