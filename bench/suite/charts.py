# SPDX-License-Identifier: Apache-2.0
"""Which pictures the report has, and what is in them."""

from suite.cells import Cell, size_text, time_text
from suite.svg import Axis, Series, heat_map, line_chart

COLOURS = {"openmpi": "#1f77b4", "mpich": "#ff7f0e", "gloo": "#2ca02c", "torch": "#d62728", "oneccl": "#8c564b",
           "cohort": "#6a3d9a"}
DASHES = ("", "6 3", "2 2", "8 3 2 3")
LIMIT = ("#888", "4 4")

# What hardware moves against what the operation moves: makes rates comparable with a link's (nccl-tests,
# doc/PERFORMANCE.md). A ping-pong moves its bytes twice.
BUS_FACTORS = {
    "broadcast": lambda p: 1,
    "reduce": lambda p: 1,
    "all_reduce": lambda p: 2 * (p - 1) / p,
    "all_gather": lambda p: (p - 1) / p,
    "reduce_scatter": lambda p: (p - 1) / p,
    "all_to_all": lambda p: (p - 1) / p,
    "send_recv": lambda p: 2,
    "gather": lambda p: (p - 1) / p,
    "scatter": lambda p: (p - 1) / p,
    "all_gather_v": lambda p: (p - 1) / p,
    "reduce_scatter_v": lambda p: (p - 1) / p,
    "gather_v": lambda p: (p - 1) / p,
    "scatter_v": lambda p: (p - 1) / p,
    "all_to_all_vc": lambda p: (p - 1) / p,
    "scan": lambda p: 1,
    "exclusive_scan": lambda p: 1,
}


def bus_gb_per_s(cell, us):
    return cell.bytes * BUS_FACTORS[cell.operator](cell.ranks) / us / 1e3


def style_of(programs, program):
    """Colour by library, dash by setting; cohort is thicker."""
    settings = [p for p in programs if p.peer == program.peer]
    return (COLOURS.get(program.peer, "#000"), DASHES[settings.index(program) % len(DASHES)],
            2.5 if program.is_cohort else 1.5)


def series_of(results, transport, cells, x_of, y_of):
    """One of each program, and the limit."""
    programs = [p for p in results.programs if p.transport == transport]
    for program in programs:
        figures = [(cell, results.figure(program, cell)) for cell in cells]
        colour, dash, width = style_of(programs, program)
        yield Series(program.name, colour, tuple((x_of(c), y_of(c, f.us)) for c, f in figures if f), dash, width)
    limits = [(cell, results.limit_us(cell)) for cell in cells]
    yield Series("limit", LIMIT[0], tuple((x_of(c), y_of(c, us)) for c, us in limits if us), LIMIT[1])


def legend(results, transport):
    """(name, colour, dash) of what is in the charts of a transport."""
    programs = [p for p in results.programs if p.transport == transport]
    shown = [p for p in programs if any(results.rows(p, cell) for cell in results.cells)]
    return [(p.name, *style_of(programs, p)[:2]) for p in shown] + [("limit", *LIMIT)]


def size_charts(results, transport, operator, ranks):
    """Latency and bus bandwidth over size."""
    cells = [c for c in results.cells if (c.transport, c.operator, c.ranks) == (transport, operator, ranks)]
    sizes = Axis("bytes", tuple((c.bytes, size_text(c.bytes)) for c in cells))
    where = f"{operator}, {ranks} ranks, {transport}"

    def latency(name, size, us):
        return f"{name}: {size_text(size)} in {time_text(us)} us"

    def rate(name, size, gb_per_s):
        return f"{name}: {size_text(size)} at {gb_per_s:.3g} GB/s"

    yield line_chart(f"{where}: latency", sizes, Axis("us"),
                     series_of(results, transport, cells, lambda c: c.bytes, lambda _, us: us), latency)
    yield line_chart(f"{where}: bus bandwidth", sizes, Axis("GB/s"),
                     series_of(results, transport, cells, lambda c: c.bytes, bus_gb_per_s), rate)


def barrier_chart(results, transport):
    """Latency over the number of ranks."""
    cells = [c for c in results.cells if (c.transport, c.operator) == (transport, "barrier")]
    ranks = Axis("ranks", tuple((c.ranks, str(c.ranks)) for c in cells))
    return line_chart(f"barrier, {transport}: latency", ranks, Axis("us"),
                      series_of(results, transport, cells, lambda c: c.ranks, lambda _, us: us),
                      lambda name, p, us: f"{name}: {p} ranks in {time_text(us)} us")


def charts(results, transport, operator):
    if operator == "barrier":
        return [barrier_chart(results, transport)]
    ranks = sorted({c.ranks for c in results.cells if (c.transport, c.operator) == (transport, operator)})
    return [chart for count in ranks for chart in size_charts(results, transport, operator, count)]


def hint_of(entry):
    if not entry.us:
        return f"{entry.cell}: {entry.program} was not measured"
    peer = f"{entry.best_peer} {time_text(entry.best_us)} us" if entry.best_us else "no peer"
    limit = f", limit {time_text(entry.limit_us)} us" if entry.limit_us else ""
    return f"{entry.cell}: {entry.program} {time_text(entry.us)} us, {peer}{limit} ({entry.kind})"


def heat_of(results, program, what, ratio_of):
    """Operators and ranks downwards, sizes to the right. None if nothing was measured."""
    cells = [cell for cell in results.cells if cell.transport == program.transport]
    sizes = sorted({cell.bytes for cell in cells if cell.operator != "barrier"})
    rows = []
    for operator, ranks in dict.fromkeys((cell.operator, cell.ranks) for cell in cells):
        entries = [results.entry(program, Cell(program.transport, operator, ranks, size))
                   for size in ([0] if operator == "barrier" else sizes)]
        if any(entry.us for entry in entries):
            rows.append((f"{operator}, {ranks}", list(map(ratio_of, entries)), list(map(hint_of, entries))))
    columns = [size_text(size) for size in sizes] or [""]
    return heat_map(f"{what} / {program.name}", columns, rows) if rows else None


def heat_maps(results):
    """Of each variant of cohort: against the best peer, and against the limit."""
    for program in results.programs:
        if program.is_cohort:
            for what, ratio_of in (("best peer", lambda e: e.times_faster), ("limit", lambda e: e.of_limit)):
                picture = heat_of(results, program, what, ratio_of)
                if picture:
                    yield picture
