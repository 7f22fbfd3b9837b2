# SPDX-License-Identifier: Apache-2.0
"""What is measured in the guest, and how figures of several rounds become a table."""

import dataclasses
import re
import statistics

MEBI = 1 << 20


@dataclasses.dataclass(frozen=True)
class Figure:
    """One figure of cohort's and the one that it is held against; `bound`: of their ratio, if one is asked for."""

    name: str
    unit: str
    own: str
    peer: str
    bound: float | None
    is_rate: bool = False  # more is better


# Beside one queue pair: name, bytes and messages in flight of what is measured with each of these numbers of pairs.
SEVERAL_PAIRS = (2, 4)
PAIRS_STREAMS = (("64 KiB", 64 << 10, 128), ("64 KiB, one in flight", 64 << 10, 1),
                 ("1 MiB", 1 << 20, 16), ("1 MiB, one in flight", 1 << 20, 1))


def name_of_pairs(stream, pairs):
    return f"bandwidth, {stream}, {pairs} queue pairs"


FIGURES = (
    Figure("latency of a stream, 8 B", "us", "stream", "ib_write_lat", 1.3),
    Figure("latency of a stream, 8 B, the fastest tenth", "us", "stream", "ib_write_lat", 1.3),
    Figure("latency of a link, 8 B", "us", "link", "ib_write_lat", 1.3),
    Figure("latency of a link, 8 B, the fastest tenth", "us", "link", "ib_write_lat", 1.3),
    Figure("bandwidth, 64 KiB", "MiB/s", "link", "ib_write_bw", 0.9, is_rate=True),
    Figure("bandwidth, 64 KiB, one in flight", "MiB/s", "link", "ib_write_bw -t 1", 0.9, is_rate=True),
    Figure("bandwidth, 1 MiB", "MiB/s", "link", "ib_write_bw", 0.9, is_rate=True),
    Figure("all_reduce, 8 B", "us", "cohort", "openmpi", 1.0),
    Figure("all_reduce, 1 MiB", "us", "cohort", "openmpi", 1.0),
    *(Figure(name_of_pairs(stream, pairs), "MiB/s", f"{pairs} pairs", "1 pair", None, is_rate=True)
      for stream, _, _ in PAIRS_STREAMS for pairs in SEVERAL_PAIRS),
)


def perftest_columns(text, bytes_):
    """The numbers of the line for that size of perftest's table; None: there is none."""
    for line in text.splitlines():
        words = line.split()
        if len(words) > 3 and words[0] == str(bytes_):
            return [float(word) for word in words]
    return None


def latency_of_perftest(text, bytes_):
    """Half of there and back, typical, in microseconds."""
    columns = perftest_columns(text, bytes_)
    return columns[4] if columns else None


def fastest_tenth_of_perftest(text):
    """Half of there and back, that a tenth of all took at most, of what its -H lists: "NUMBER, TIME" in each line."""
    times = sorted(float(time) for time in re.findall(r"^\d+, (\S+)$", text, re.MULTILINE))
    return times[len(times) // 10] if times else None


def bandwidth_of_perftest(text, bytes_):
    """The average, in MiB/s."""
    columns = perftest_columns(text, bytes_)
    return columns[3] if columns and columns[3] > 0 else None


def counter_of_link_bench(text, name):
    """Of its only benchmark, from its CSV."""
    lines = [line for line in text.splitlines() if line.startswith(("name,", '"verbs_'))]
    if len(lines) != 2:
        return None
    titles, values = (line.split(",") for line in lines)
    return dict(zip((title.strip('"') for title in titles), values)).get(name)


def median_of_rows(text, bytes_):
    """Of `cohort bench --csv` and the peers' programs: peer,transport,collective,ranks,bytes,min_us,median_us,..."""
    for line in text.splitlines():
        words = line.split(",")
        if len(words) > 6 and words[4] == str(bytes_):
            return float(words[6])
    return None


def medians(rows):
    """{(figure, program): median over rounds} of (round, figure, program, value)."""
    values = {}
    for _, figure, program, value in rows:
        values.setdefault((figure, program), []).append(value)
    return {key: statistics.median(of) for key, of in values.items()}


def table(rows, only=""):
    """Markdown: a line for each figure whose name has that in it, with the median and the extremes of each round's ratio."""
    middle = medians(rows)
    by_round = {(turn, figure, program): value for turn, figure, program, value in rows}
    lines = ["| | cohort | beside | | ratio (of single rounds) | asked for |", "| --- | --- | --- | --- | --- | --- |"]
    for figure in (one for one in FIGURES if only in one.name):
        own, peer = middle.get((figure.name, figure.own)), middle.get((figure.name, figure.peer))
        ratios = sorted(by_round[turn, figure.name, figure.own] / by_round[turn, figure.name, figure.peer]
                        for turn in sorted({row[0] for row in rows})
                        if {(turn, figure.name, figure.own), (turn, figure.name, figure.peer)} <= by_round.keys())
        asked = "-" if figure.bound is None else f"at {'least' if figure.is_rate else 'most'} {figure.bound:g}"
        spread = f" ({ratios[0]:.2f} to {ratios[-1]:.2f})" if len(ratios) > 1 else ""
        shown = f"{statistics.median(ratios):.2f}{spread}" if ratios else "-"
        lines.append(f"| {figure.name} | {number(own)} {figure.unit} | {figure.peer} | {number(peer)} {figure.unit} | {shown} | {asked} |")
    return "\n".join(lines) + "\n"


def number(value):
    return "-" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"
