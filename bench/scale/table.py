# SPDX-License-Identifier: Apache-2.0
"""Tables in Markdown of what `cohort sim` predicts."""

import collections
import dataclasses

from suite.cells import size_text, time_text

COLUMNS = ("operator", "topology", "ranks", "bytes", "algorithm", "us", "messages")
END = "<!-- end -->"


def begin(command):
    """The line above the tables of a command in a text; END stands below them."""
    return f"<!-- {command} -->"


@dataclasses.dataclass(frozen=True, order=True)
class Cell:
    """One operator on one network. A barrier has 0 bytes."""

    operator: str
    topology: str
    ranks: int
    bytes: int


@dataclasses.dataclass(frozen=True)
class Prediction:
    cell: Cell
    algorithm: str
    us: float
    messages: int


def parse_row(line, topology):
    """A Prediction of a row of `cohort sim --csv`; None for any other line, and for a run that never ends."""
    fields = line.strip().split(",")
    if len(fields) != 6 or not fields[2].isdigit() or fields[4] == "-":
        return None
    operator, algorithm, ranks, size, us, messages = fields
    cell = Cell(operator, topology, int(ranks), 0 if operator == "barrier" else int(size))
    return Prediction(cell, algorithm, float(us), int(messages))


def by_cell(predictions):
    """{cell: {algorithm: us}}"""
    cells = collections.defaultdict(dict)
    for one in predictions:
        cells[one.cell][one.algorithm] = one.us
    return cells


def ranking(times):
    """Algorithms, the fastest first."""
    return sorted(times, key=times.get)


def winner_text(times):
    """Who wins, in how long, and how much longer the next one takes."""
    if not times:
        return ""
    first, *others = ranking(times)
    text = f"`{first}` {time_text(times[first])}"
    return text + (f" ({times[others[0]] / times[first]:.2f} `{others[0]}`)" if others else "")


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def columns_of(cells, operator):
    """What one operator was asked for: (topology, ranks), and sizes."""
    of_operator = [cell for cell in cells if cell.operator == operator]
    networks = sorted({(cell.topology, cell.ranks) for cell in of_operator})
    return networks, sorted({cell.bytes for cell in of_operator})


def size_head(size):
    return size_text(size) if size else "time"


def winners(cells, operator):
    networks, sizes = columns_of(cells, operator)
    rows = [[topology, str(ranks), *(winner_text(cells.get(Cell(operator, topology, ranks, size), {})) for size in sizes)]
            for topology, ranks in networks]
    return table([operator, "ranks", *map(size_head, sizes)], rows)


def times(cells, operator):
    """All figures of one operator: a row an algorithm, the least of each column in bold."""
    networks, sizes = columns_of(cells, operator)
    columns = [Cell(operator, topology, ranks, size) for topology, ranks in networks for size in sizes]
    names = sorted({name for column in columns for name in cells.get(column, {})})

    def text(column, name):
        found = cells.get(column, {})
        if name not in found:
            return ""
        return f"**{time_text(found[name])}**" if name == ranking(found)[0] else time_text(found[name])

    head = [f"{c.topology} {c.ranks}" + (f", {size_text(c.bytes)}" if c.bytes else "") for c in columns]
    return table([operator, *head], [[f"`{name}`", *(text(column, name) for column in columns)] for name in names])


def lines_of(predictions, command):
    """`command`: what made them."""
    cells = by_cell(predictions)
    operators = list(dict.fromkeys(one.cell.operator for one in predictions))
    yield f"Made by `{command}`."
    for kind, what in ((winners, "The fastest, in microseconds, and in brackets how many times as long the next one takes:"),
                       (times, "All of them, in microseconds; the least of each column in bold; empty where it was not simulated:")):
        yield from ("", what)
        for operator in operators:
            yield ""
            yield from kind(cells, operator)


def put_between(text, command, lines):
    """`text` with `lines` in place of the tables of that command. Throws ValueError where its marks are missing."""
    before, mark, rest = text.partition(begin(command) + "\n")
    _, end, after = rest.partition(END + "\n")
    if not mark or not end:
        raise ValueError(f"there is no line '{begin(command)}' with one '{END}' below it")
    return before + mark + "".join(line + "\n" for line in lines) + end + after
