# SPDX-License-Identifier: Apache-2.0
"""The results as one HTML file that needs nothing else."""

import html
import time

from suite import bounds, charts, machine, overlap, table, targets
from suite.cells import KINDS, time_text

STYLE = """
body { font: 14px/1.45 sans-serif; color: #222; max-width: 1280px; margin: 1.5em auto; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.2em; margin-top: 2em; border-bottom: 1px solid #ccc; } h3 { font-size: 1em; }
table { border-collapse: collapse; } td, th { padding: 2px 10px 2px 0; text-align: left; vertical-align: top; }
td.number { text-align: right; } pre { overflow-x: auto; font-size: 11px; } svg { margin: 2px; }
.key { display: inline-block; margin-right: 1.2em; white-space: nowrap; }
.wide { overflow-x: auto; }
"""


def escape(value):
    return html.escape(str(value))


def rows_of(header, rows):
    """A table; numbers to the right."""
    yield "<div class='wide'><table><tr>" + "".join(f"<th>{escape(name)}</th>" for name in header) + "</tr>"
    for row in rows:
        fields = [f"<td class='number'>{value:.2f}</td>" if isinstance(value, float) else f"<td>{escape(value)}</td>"
                  for value in row]
        yield "<tr>" + "".join(fields) + "</tr>"
    yield "</table></div>"


def section(title, lines):
    lines = list(lines)
    if lines:
        yield f"<h2>{escape(title)}</h2>"
        yield from lines


def short_rows(verdicts, known):
    """What falls short of its target, by most first, with the place of what bounds it."""
    short = sorted((v for v in verdicts if v.is_short), key=lambda v: v.reached / v.wanted)
    for v in short:
        yield (str(v.cell), v.program, v.reached, v.wanted, f"{100 * (1 - v.reached / v.wanted):.0f} %", v.us,
               f"{v.rival} {time_text(v.rival_us)}", f"{bounds.explain(v, known) or 'not looked into'}")


def bounds_list(short, known):
    """Those that the rows name, under their numbers."""
    for place in sorted({int(row[-1]) for row in short if row[-1].isdigit()}):
        one = known[place - 1]
        yield f"<p>{place}: {escape(one.bound)}. Tried: {escape(one.tried)}.</p>"


def targets_section(results):
    wanted = targets.read()
    verdicts = targets.judge(results, wanted)
    known = bounds.read()
    short = list(short_rows(verdicts, known))
    yield f"<p>{len(verdicts) - len(short)} of {len(verdicts)} figures reach their target (bench/suite/targets.csv).</p>"
    if short:
        yield from rows_of(("cell", "cohort", "reached", "target", "short by", "us", "against, us", "bounded by"), short)
        yield from bounds_list(short, known)
    hidden = list(overlap.shortfalls(results, wanted))
    if hidden:
        yield from rows_of(("overlap", "reached", "target"), hidden)


def legend(results, transport):
    for name, colour, dash in charts.legend(results, transport):
        yield (f"<span class='key'><svg width='34' height='10' aria-hidden='true'><line x1='0' y1='5' x2='34' y2='5' "
               f"stroke='{colour}' stroke-width='2.5' stroke-dasharray='{dash}'/></svg>{escape(name)}</span>")


def pictures(results, options):
    for operator in options.operators:
        for transport in options.transports:
            yield f"<h3>{escape(operator)} over {escape(transport)}</h3><p>"
            yield from legend(results, transport)
            yield "</p><div class='wide'>"
            yield from charts.charts(results, transport, operator)
            yield "</div>"


def overlap_section(results):
    if not results.overlaps:
        return
    yield "<p>Two ranks. Part that is hidden, and microseconds of the all_reduce alone and of both at once; the better "
    yield "of each library's forms. "
    yield escape("; ".join(f"{who}: {what}" for who, what in overlap.COMPUTING.items())) + ".</p>"
    header, *rows = overlap.table(results)
    yield from rows_of(header, rows)
    forms = sorted({(one.program, one.form) for one in results.overlaps})
    yield from rows_of(("program", "form"), forms)


def missing_rows(results):
    """By program and reason, because one reason often holds for many cells."""
    cells = {}
    for (program, cell), reason in results.missing.items():
        cells.setdefault((program, reason), []).append(cell)
    for (program, reason), these in sorted(cells.items()):
        text = "; ".join(map(str, these[:6])) + (f"; and {len(these) - 6} more" if len(these) > 6 else "")
        yield program, reason, text
    for program, reason in sorted(results.overlap_missing.items()):
        yield program, reason, "overlap"


def limits_rows(results):
    for kind in KINDS:
        if not results.has_limits(kind):
            continue
        limits = results.limits(kind)
        fastest = max(limits.pull.values())
        yield (kind, limits.one_way, limits.switch, fastest / 1e3, max(limits.copy.values()) / 1e3,
               limits.stream / 1e3, limits.tcp_one_way, max(limits.tcp_stream.values()) / 1e3,
               max(limits.tcp_duplex.values()) / 1e3)


LIMIT_COLUMNS = ("placement", "line one way, us", "process switch, us", "take from another core, GB/s",
                 "copy own, GB/s", "beyond the cache, all cores, GB/s", "TCP one way, us", "TCP stream, GB/s",
                 "TCP duplex, GB/s")


def sections(results, options, elapsed_s):
    text = "\n".join(table.lines_of(results, options.transports))
    when = time.strftime("%Y-%m-%d %H:%M")
    yield f"<h1>cohort and other collective libraries</h1><p>{when}, {max(results.rounds, 1)} rounds, "
    yield f"{elapsed_s / 60:.1f} minutes. Times are medians over rounds of each round's median, in microseconds, of "
    yield "the slowest rank; inputs are rewritten before every operation. A ratio of best peer / cohort above 1: "
    yield "cohort is faster. limit / cohort is 1 where cohort is as fast as the machine itself.</p>"
    yield from section("This machine", rows_of(("", ""), machine.facts(options)))
    yield from section("What the machine does without any library", rows_of(LIMIT_COLUMNS, limits_rows(results)))
    yield from section("Ratios", charts.heat_maps(results))
    yield from section("Short of target", targets_section(results))
    yield from section("all_reduce behind computing of equal length", overlap_section(results))
    yield from section("Latency and bandwidth", pictures(results, options))
    yield from section("All figures", [f"<pre>{escape(text)}</pre>"])
    yield from section("Settings", rows_of(("program", "settings"), ((p.name, p.settings) for p in results.programs)))
    yield from section("Not measured", rows_of(("program", "why", "cells"), missing_rows(results)))


def page(results, options, elapsed_s):
    yield f"<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'><title>cohort bench</title>\n<style>{STYLE}</style>"
    yield "</head><body>"
    yield from sections(results, options, elapsed_s)
    yield "</body></html>\n"


def write(results, options, elapsed_s, path):
    path.write_text("\n".join(page(results, options, elapsed_s)), encoding="utf-8")
