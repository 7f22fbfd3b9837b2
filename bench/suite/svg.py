# SPDX-License-Identifier: Apache-2.0
"""Pictures as SVG text: log-log lines, and a table of colours."""

import dataclasses
import html
import math

INK = "#333"
GRID = "#e4e4e4"
FONT = 'font-family="sans-serif" font-size="11"'


@dataclasses.dataclass(frozen=True)
class Series:
    name: str
    colour: str
    points: tuple  # (x, y), ascending; all positive
    dash: str = ""
    width: float = 1.5


@dataclasses.dataclass(frozen=True)
class Axis:
    label: str
    ticks: tuple = ()  # (value, text); empty: powers of ten


class LogScale:
    """Values to pixels."""

    def __init__(self, low, high, first, last):
        if high <= low:
            low, high = low / 2, high * 2
        self._low, self._high = math.log(low), math.log(high)
        self._first, self._last = first, last

    def __call__(self, value):
        part = (math.log(value) - self._low) / (self._high - self._low)
        return self._first + part * (self._last - self._first)


def powers_of_ten(low, high):
    """(value, text) from one at or below `low` to one at or above `high`."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [(10.0 ** e, f"{10 ** e:g}" if e >= 0 else f"{10.0 ** e:.{-e}f}") for e in exponents]


def text(x, y, content, anchor="middle", more=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{INK}" {FONT} {more}>'
            f"{html.escape(content)}</text>")


def line(x1, y1, x2, y2, colour=GRID):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def wrap(width, height, title, body):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img"><title>{html.escape(title)}</title>' + "".join(body) + "</svg>")


def curve(series, x, y, describe):
    shape = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in series.points)
    dash = f' stroke-dasharray="{series.dash}"' if series.dash else ""
    yield (f'<polyline points="{shape}" fill="none" stroke="{series.colour}" stroke-width="{series.width}"{dash} '
           'stroke-linejoin="round"/>')
    for a, b in series.points:
        yield (f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="{series.width + 1:.1f}" fill="{series.colour}">'
               f"<title>{html.escape(describe(series.name, a, b))}</title></circle>")


def line_chart(title, x_axis, y_axis, all_series, describe, width=400, height=280):
    """Log-log. `describe(name, x, y)` is what a point says under the pointer. Series without points are left out."""
    left, right, top, bottom = 58, 12, 26, 40
    shown = [series for series in all_series if series.points]
    values = [point for series in shown for point in series.points]
    if not values:
        return wrap(width, height, title, [text(width / 2, height / 2, f"{title}: nothing was measured")])
    y_ticks = y_axis.ticks or powers_of_ten(min(b for _, b in values), max(b for _, b in values))
    x_ticks = x_axis.ticks or powers_of_ten(min(a for a, _ in values), max(a for a, _ in values))
    x_values = [a for a, _ in values] + [value for value, _ in x_ticks]
    y_values = [b for _, b in values] + [value for value, _ in y_ticks]
    x = LogScale(min(x_values), max(x_values), left + 8, width - right - 8)
    y = LogScale(min(y_values), max(y_values), height - bottom, top)
    body = [text(width / 2, 15, title, more='font-weight="bold"')]
    for value, label in y_ticks:
        body += [line(left, y(value), width - right, y(value)), text(left - 5, y(value) + 4, label, "end")]
    for value, label in x_ticks:
        body += [line(x(value), top, x(value), height - bottom), text(x(value), height - bottom + 14, label)]
    body.append(text(width / 2, height - 8, x_axis.label))
    middle = (top + height - bottom) / 2
    body.append(text(12, middle, y_axis.label, more=f'transform="rotate(-90 12 {middle:.1f})"'))
    for series in shown:
        body += curve(series, x, y, describe)
    return wrap(width, height, title, body)


def shade(ratio):
    """Green above 1, red below, white at 1; full at 4 and 1/4."""
    part = max(-1.0, min(1.0, math.log(ratio, 4)))
    weak = round(255 - 150 * abs(part))
    return f"rgb({weak},{round(255 - 45 * part)},{weak})" if part >= 0 else f"rgb(255,{weak},{weak})"


def heat_map(title, columns, rows, cell_width=58, cell_height=20, label_width=150):
    """`rows`: (label, ratios, hints); a ratio of None is an empty field."""
    width, height = label_width + cell_width * len(columns) + 8, 44 + cell_height * len(rows) + 4
    body = [text(width / 2, 15, title, more='font-weight="bold"')]
    for index, column in enumerate(columns):
        body.append(text(label_width + cell_width * (index + 0.5), 36, column))
    for number, (label, ratios, hints) in enumerate(rows):
        y = 44 + cell_height * number
        body.append(text(label_width - 6, y + 14, label, "end"))
        for index, (ratio, hint) in enumerate(zip(ratios, hints)):
            x = label_width + cell_width * index
            fill = "#f6f6f6" if ratio is None else shade(ratio)
            body.append(f'<g><title>{html.escape(hint)}</title><rect x="{x}" y="{y}" width="{cell_width - 1}" '
                        f'height="{cell_height - 1}" fill="{fill}"/>')
            body.append(text(x + cell_width / 2, y + 14, "" if ratio is None else f"{ratio:.2f}") + "</g>")
    return wrap(width, height, title, body)
