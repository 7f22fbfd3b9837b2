# SPDX-License-Identifier: Apache-2.0
"""The results as text."""

from suite import overlap
from suite.cells import size_text, time_text


def mark(figure):
    return ("~" if figure.varies else "") + ("" if figure.is_of_kind else "*")


class Footnotes:
    def __init__(self):
        self._numbers = {}

    def number(self, reason):
        return self._numbers.setdefault(reason, len(self._numbers) + 1)

    def lines(self):
        return [f"[{number}] {reason}" for reason, number in self._numbers.items()]


def peer_text(results, program, cell, footnotes):
    figure = results.figure(program, cell)
    if figure:
        return time_text(figure.us) + mark(figure)
    reason = results.missing.get((program.name, cell), "not measured")
    return f"- [{footnotes.number(f'{program.name}: {reason}')}]"


def cohort_text(results, program, cell, footnotes):
    figure = results.figure(program, cell)
    if not figure:
        return peer_text(results, program, cell, footnotes)
    entry = results.entry(program, cell)
    faster = f"{entry.times_faster:.2f}" if entry.times_faster else "-"
    limit = f"{entry.of_limit:.2f}" if entry.of_limit else "-"
    return f"{time_text(figure.us) + mark(figure)} {faster:>6} {limit:>5}"


def table(results, transport, footnotes):
    """Rows of text."""
    peers, variants = results.columns(transport)
    yield ["collective", "ranks", "size", *(p.name for p in peers), "best peer", "limit", "placement",
           *(v.name for v in variants)]
    for cell in results.cells:
        if cell.transport != transport:
            continue
        best = results.best_peer(cell)
        limit = results.limit_us(cell)
        yield [cell.operator, str(cell.ranks), "" if cell.operator == "barrier" else size_text(cell.bytes),
               *(peer_text(results, p, cell, footnotes) for p in peers), best[1] if best else "-",
               time_text(limit) if limit else "-", results.kind(cell),
               *(cohort_text(results, v, cell, footnotes) for v in variants)]


def aligned(rows):
    rows = list(rows)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(text.ljust(w) if i == 0 else text.rjust(w) for i, (text, w) in
                        enumerate(zip(row, widths))).rstrip()


def lines_of(results, transports):
    footnotes = Footnotes()
    if results.overlaps:
        yield "\nall_reduce hidden behind computing of equal length, 2 ranks: part hidden (us alone -> us of both at once)"
        yield from aligned(overlap.table(results))
        yield from (f"{who}: {what}" for who, what in overlap.COMPUTING.items())
    for transport in transports:
        rows = list(table(results, transport, footnotes))
        if len(rows) == 1:
            continue
        yield f"\n{transport}: us, medians of {max(results.rounds, 1)} rounds; cohort: us, best peer / cohort, limit / cohort"
        yield from aligned(rows)
    yield ""
    yield "~ rounds differ by more than a factor of two; * measured in another placement of the cores than the others"
    yield from footnotes.lines()
