# SPDX-License-Identifier: Apache-2.0
"""What the selected algorithm takes beside the best one."""

import dataclasses
import statistics

from suite.cells import size_text, time_text

COLUMNS = ("transport", "operator", "ranks", "bytes", "selected", "selected_us", "best", "best_us", "ratio")
TOLERATED = 1.10
WANTED = 0.95
SELECTED = ""  # in place of an algorithm's name: whatever the library takes


@dataclasses.dataclass(frozen=True, order=True)
class Verdict:
    transport: str
    operator: str
    ranks: int
    bytes: int
    selected: str
    selected_us: float
    best: str
    best_us: float

    @property
    def cell(self):
        return self.transport, self.operator, self.ranks, self.bytes

    @property
    def ratio(self):
        return self.selected_us / self.best_us

    @property
    def is_good(self):
        return self.ratio <= TOLERATED


def verdict_of(cell, selected, rounds):
    """`rounds`: {algorithm: us of each round}, SELECTED among them. None if that has no figure.

    The selected algorithm ran twice in each round, once by its name: the best is never more than what the same
    algorithm took when it was asked for.
    """
    medians = {name: statistics.median(times) for name, times in rounds.items() if times}
    if SELECTED not in medians:
        return None
    selected_us = medians.pop(SELECTED)
    if selected in medians:  # two figures of one algorithm: the noise between them is nobody's choice
        selected_us = medians[selected] = min(selected_us, medians[selected])
    best = min(medians, key=medians.get, default=selected)
    return Verdict(*cell, selected, selected_us, best, medians.get(best, selected_us))


def rivals_of(verdict, rounds):
    """Those whose medians are more than tolerated below the selected one's."""
    medians = {name: statistics.median(times) for name, times in rounds.items() if times}
    return sorted(name for name, us in medians.items()
                  if name not in (SELECTED, verdict.selected) and us * TOLERATED < verdict.selected_us)


def row(verdict):
    return [verdict.transport, verdict.operator, verdict.ranks, verdict.bytes, verdict.selected,
            f"{verdict.selected_us:.3f}", verdict.best, f"{verdict.best_us:.3f}", f"{verdict.ratio:.3f}"]


def lines_of(verdicts):
    """The cells in which another algorithm is faster than tolerated, and the share of the others."""
    bad = sorted((v for v in verdicts if not v.is_good), key=lambda v: -v.ratio)
    for v in bad:
        size = "-" if v.operator == "barrier" else size_text(v.bytes)
        yield (f"{v.transport:<10} {v.operator:<14} {v.ranks:>3} ranks {size:>5}  {v.selected} {time_text(v.selected_us)} us, "
               f"{v.best} {time_text(v.best_us)} us: {v.ratio:.2f}")
    good = len(verdicts) - len(bad)
    if verdicts:
        yield (f"within {100 * TOLERATED - 100:.0f} % of the best in {good} of {len(verdicts)} cells "
               f"({100 * good / len(verdicts):.1f} %; wanted {100 * WANTED:.0f} %)")
