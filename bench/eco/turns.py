# SPDX-License-Identifier: Apache-2.0
"""Ways of doing the same take turns, so that what else goes on meets all of them; figures become rows of a table."""

import statistics


def median(values):
    return statistics.median(values)


def lowest_third(values):
    """The mean of that: what was disturbed least."""
    values = sorted(values)
    return statistics.mean(values[:max(1, len(values) // 3)])


FIGURES = {"median": median, "lowest-third": lowest_third}


class Turns:
    """So many rounds, and what becomes of the figures of all rounds."""

    def __init__(self, rounds, figure="median"):
        self.rounds, self._figure = rounds, FIGURES[figure]

    def points(self, ways):
        """`ways` are functions by name, each of which gives figures by the name of a point: the same with one figure each."""
        figures = {name: {} for name in ways}
        for number in range(self.rounds):
            for name in list(ways) if number % 2 == 0 else reversed(list(ways)):
                for point, value in ways[name]().items():
                    figures[name].setdefault(point, []).append(value)
        return {name: {point: self._figure(values) for point, values in points.items()} for name, points in figures.items()}

    def row(self, what, unit, ways):
        """One row, of functions that give one figure each: of what others take, and of cohort, in this order."""
        show(what, unit, {name: points[what] for name, points in
                          self.points({name: lambda way=way: {what: way()} for name, way in ways.items()}).items()})

    def rows(self, unit, ways):
        """A row for each point and each way but the last, which is cohort's, and the geometric mean of their ratios."""
        figures = self.points(ways)
        *others, cohort = figures
        for other in others:
            ratios = {}
            for group, point in sorted(figures[other], key=lambda key: key[0]):  # of a group in their order
                theirs, ours = (figures[name][group, point] for name in (other, cohort))
                ratios.setdefault(group, []).append(theirs / ours)
                show(f"{group}, {point}", unit, {other: theirs, cohort: ours})
            ratios["all of these"] = [ratio for values in ratios.values() for ratio in values]
            for group, values in ratios.items():
                print(f"| {group}: geometric mean | {other} | | {statistics.geometric_mean(values):.3g} |", flush=True)


def show(what, unit, figures):
    """`figures` are of what others take and of cohort, in this order."""
    (other, theirs), (_, ours) = figures.items()
    print(f"| {what} | {other} {theirs:.4g} {unit} | {ours:.4g} {unit} | {theirs / ours:.3g} |", flush=True)
