# SPDX-License-Identifier: Apache-2.0
"""What was predicted beside what was measured: errors, and what they mean for choosing an algorithm."""

import collections
import dataclasses
import statistics

from suite.cells import size_text, time_text

COLUMNS = ("transport", "operator", "algorithm", "ranks", "bytes", "predicted_us", "measured_us", "error_percent",
           "calibrates", "shares_cores")


@dataclasses.dataclass(frozen=True, order=True)
class Case:
    transport: str
    operator: str
    algorithm: str
    ranks: int
    bytes: int


@dataclasses.dataclass(frozen=True)
class Pair:
    """`calibrates`: the prediction was made of this very figure, so that its error says nothing."""

    case: Case
    predicted_us: float
    measured_us: float
    calibrates: bool = False

    @property
    def error(self):
        """0.1: predicted a tenth more than measured."""
        return self.predicted_us / self.measured_us - 1


def parse_sim(line):
    """(algorithm, us) of a row of `cohort sim --csv`; None for another line, or for a run that never ends."""
    fields = line.strip().split(",")
    if len(fields) != 6 or not fields[2].isdigit() or fields[4] == "-":
        return None
    return fields[1], float(fields[4])


def median_error(pairs):
    """The median of absolute errors of what was really predicted; None of nothing."""
    errors = [abs(pair.error) for pair in pairs if not pair.calibrates]
    return statistics.median(errors) if errors else None


def choices(pairs):
    """(right, asked, losses): how often the algorithm predicted to be the fastest is; how much longer it takes, 0.1
    for a tenth, wherever there are two or more to choose from."""
    groups = collections.defaultdict(list)
    for pair in pairs:
        case = pair.case
        groups[case.transport, case.operator, case.ranks, case.bytes].append(pair)
    losses = []
    for group in groups.values():
        if len(group) > 1:
            chosen = min(group, key=lambda pair: pair.predicted_us)
            best_us = min(pair.measured_us for pair in group)
            losses.append(chosen.measured_us / best_us - 1)
    return sum(loss == 0 for loss in losses), len(losses), losses


def row(pair, cores):
    case = pair.case
    return [case.transport, case.operator, case.algorithm, case.ranks, case.bytes, f"{pair.predicted_us:.3f}",
            f"{pair.measured_us:.3f}", f"{100 * pair.error:.1f}", int(pair.calibrates), int(case.ranks > cores)]


def table(pairs, cores):
    """The lines of the table, in the order of cases."""
    yield (f"{'':<4} {'operator':<14} {'algorithm':<18} {'ranks':>5} {'bytes':>6} {'predicted':>10} {'measured':>10}"
           f" {'error':>7}")
    for pair in sorted(pairs, key=lambda pair: pair.case):
        case = pair.case
        size = "-" if case.operator == "barrier" else size_text(case.bytes)
        mark = "  calibrates" if pair.calibrates else "  shares cores" if case.ranks > cores else ""
        yield (f"{case.transport:<4} {case.operator:<14} {case.algorithm:<18} {case.ranks:>5} {size:>6} "
               f"{time_text(pair.predicted_us):>10} {time_text(pair.measured_us):>10} {100 * pair.error:>+6.0f}%{mark}")


def summary(pairs, cores):
    """Lines: median errors of all and of parts, and what choosing by prediction would cost."""
    parts = [("all", lambda case: True)]
    for transport in sorted({pair.case.transport for pair in pairs}):
        parts += [
            (f"{transport}, a core for each rank", lambda c, t=transport: c.transport == t and c.ranks <= cores),
            (f"{transport}, ranks share cores", lambda c, t=transport: c.transport == t and c.ranks > cores),
        ]
    for name, holds in parts:
        of_part = [pair for pair in pairs if holds(pair.case)]
        error = median_error(of_part)
        if error is None:
            continue
        right, asked, losses = choices(of_part)
        text = f"{name}: median error {100 * error:.0f}% of {sum(not p.calibrates for p in of_part)} predictions"
        if asked:
            text += (f"; names the fastest algorithm in {right} of {asked} cases, and takes"
                     f" {100 * statistics.median(losses):.0f}% longer in the median,"
                     f" {100 * max(losses):.0f}% at worst")
        yield text
