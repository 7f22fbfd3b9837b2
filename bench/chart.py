# SPDX-License-Identifier: Apache-2.0
"""Draws the chart of the README: python3 bench/chart.py FILE OUT.svg

FILE is cells.csv of the suite (`./run bench`), or a page of docs/measured/ with the same figures as a table. Python's
standard library only.
"""

import csv
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from suite.svg import Axis, Series, line_chart, text

COLLECTIVE = "all_reduce"
WIDTH, HEIGHT, LEGEND = 560, 320, 150
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
# (as a page calls it, as the suite does: variant of cohort, ranks), colour, dash
LINES = (
    (("2, private", ("cohort/shm", 2)), "#1f6fb4", ""),
    (("2, shared", ("cohort/shm-shared", 2)), "#1f6fb4", "5 3"),
    (("8, private", ("cohort/shm", 8)), "#c0392b", ""),
    (("8, shared", ("cohort/shm-shared", 8)), "#c0392b", "5 3"),
    (("4, TCP loopback", ("cohort/tcp", 4)), "#2e8b57", ""),
)


def bytes_of(words):
    number, unit = words.split()
    return int(number) * UNITS[unit]


def size_text(size):
    unit = max((unit for unit in UNITS if size >= UNITS[unit]), key=UNITS.get)
    return f"{size // UNITS[unit]} {unit}"


def from_page(lines):
    """{name: [(bytes, how many times longer the best peer takes)]} of the table of times with ratios in parentheses."""
    found, sizes = {}, []
    for line in lines:
        name, *cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if name == "ranks, buffers":
            sizes = [bytes_of(cell) for cell in cells]
        elif len(cells) == len(sizes) > 0 and "(" in cells[0]:
            ratios = [float(re.search(r"\(([\d.]+)\)", cell)[1]) for cell in cells]
            found[name] = list(zip(sizes, ratios))
    return found


def from_suite(lines):
    """The same of cells.csv, by (variant, ranks)."""
    found = {}
    for row in csv.DictReader(lines):
        if row["collective"] == COLLECTIVE and row["best/cohort"]:
            key = row["cohort"], int(row["ranks"])
            found.setdefault(key, []).append((int(row["bytes"]), float(row["best/cohort"])))
    return {key: sorted(points) for key, points in found.items()}


def chart(figures):
    all_series = [Series(page, colour, tuple(figures.get(page) or figures.get(suite, ())), dash)
                  for (page, suite), colour, dash in LINES]
    sizes = sorted({size for series in all_series for size, _ in series.points})
    ticks = [(size, size_text(size)) for size in sizes]
    x_axis = Axis("bytes on each rank", tuple(ticks))
    y_axis = Axis("times", ((1, "1"), (2, "2"), (4, "4"), (8, "8")))
    title = f"{COLLECTIVE}: how many times longer the best other library takes"
    picture = line_chart(title, x_axis, y_axis, all_series,
                         lambda name, size, ratio: f"{name}, {size_text(size)}: {ratio:g}", WIDTH, HEIGHT)
    whole = WIDTH + LEGEND
    picture = picture.replace(f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"',
                              f'viewBox="0 0 {whole} {HEIGHT}" width="{whole}"')
    picture = picture.replace("</title>", f'</title><rect width="{whole}" height="{HEIGHT}" fill="white"/>', 1)
    legend = [text(WIDTH + 34, 40, "ranks, buffers", "start", 'font-weight="bold"')]
    for number, series in enumerate(all_series):
        y = 60 + 20 * number
        legend.append(f'<line x1="{WIDTH}" y1="{y - 4}" x2="{WIDTH + 28}" y2="{y - 4}" stroke="{series.colour}" '
                      f'stroke-width="2" stroke-dasharray="{series.dash}"/>')
        legend.append(text(WIDTH + 34, y, series.name, "start"))
    return picture.replace("</svg>", "".join(legend) + "</svg>\n")


def main():
    source, out = map(pathlib.Path, sys.argv[1:])
    lines = source.read_text(encoding="utf-8").splitlines()
    out.write_text(chart(from_suite(lines) if source.suffix == ".csv" else from_page(lines)), encoding="utf-8")


if __name__ == "__main__":
    main()
