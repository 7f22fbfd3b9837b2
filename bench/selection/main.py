# SPDX-License-Identifier: Apache-2.0
"""Measures what is selected and every candidate, in turn."""

import argparse
import collections
import csv
import json
import pathlib

from selection import verdict
from selection.verdict import SELECTED
from suite.cells import Missing, parse_line, parse_size
from suite.comparing import lines_of, run_and_write
from suite.options import ROOT, comma_list
from suite.process import Failed
from suite.progress import Progress

# A way to reach peers, and what asks for it.
WAYS = {"shm": ["--transport", "shm"], "shm-shared": ["--transport", "shm", "--shared"], "tcp": ["--transport", "tcp"]}
DESCRIPTION = """Measures every algorithm that can run a call, and what the library selects, in turn; prints the cells in which
the selection is more than a tenth slower than the best. bench/README.md describes the method."""


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="./run bench selection", description=DESCRIPTION)
    add = parser.add_argument
    add("--out", type=pathlib.Path, default=ROOT / "build/bench", help="where results go (default build/bench)")
    add("--operators", type=comma_list(str), metavar="LIST", help="default: all")
    add("--ranks", type=comma_list(int), default=[2, 4, 8], metavar="LIST")
    add("--ways", type=comma_list(str, WAYS), default=list(WAYS), metavar="LIST", help=", ".join(WAYS))
    add("--sizes", type=comma_list(parse_size), metavar="LIST",
        default=[8, 1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20, 32 << 20])
    add("--rounds", type=int, default=3)
    add("--confirm", type=int, default=7, metavar="ROUNDS", help="of the cells that are not, selected and best alone (default 7)")
    add("--budget-ms", type=int, default=20, help="time for one point (default 20)")
    add("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", help="where the programs lie")
    return parser.parse_args(arguments)


class Comparison:
    def __init__(self, options, progress):
        self.options = options
        self.verdicts = []
        self.missing = collections.Counter()
        self._cohort = options.bin / "cohort"
        self._progress = progress

    def run(self):
        settings = [(way, ranks) for way in self.options.ways for ranks in self.options.ranks]
        for index, (way, ranks) in enumerate(settings):
            for operator, explained in self._explain(way, ranks).items():
                self._progress.show(60 * (len(settings) - index), f"{operator}, {ranks} ranks, {way}")
                self._compare(way, ranks, operator, explained)
        self._progress.clear()

    def _explain(self, way, ranks):
        """{operator: {bytes: (selected, candidates)}}"""
        explained = collections.defaultdict(dict)
        sizes = ",".join(map(str, self.options.sizes))
        for line in lines_of([self._cohort, "explain", "all", "--ranks", ranks, *WAYS[way][:2], "--sizes", sizes,
                                "--json"]):
            one = json.loads(line)
            operator = one.get("collective")
            if operator and (not self.options.operators or operator in self.options.operators):
                names = [c["algorithm"] for c in one["candidates"] if c["is_possible"]]
                explained[operator][one["bytes"]] = one["algorithm"], names
        return explained

    def _compare(self, way, ranks, operator, explained):
        times = collections.defaultdict(lambda: collections.defaultdict(list))  # bytes -> algorithm -> us
        names = sorted({name for _, candidates in explained.values() for name in candidates})
        for _ in range(self.options.rounds):
            for name in [SELECTED, *names]:
                sizes = [size for size, (_, candidates) in explained.items() if name in [SELECTED, *candidates]]
                for size, us in self._measure(way, ranks, operator, name, sizes).items():
                    times[size][name].append(us)
        for size, (selected, _) in explained.items():
            found = verdict.verdict_of((way, operator, ranks, size), selected, times[size])
            if found and not found.is_good and self.options.confirm:
                found = self._confirm(found, verdict.rivals_of(found, times[size]))
            if found:
                self.verdicts.append(found)

    def _confirm(self, found, rivals):
        """Of many candidates one was lucky: those that seem faster by more than a tenth have to be so again."""
        times = collections.defaultdict(list)
        for _ in range(self.options.confirm):
            for name in [SELECTED, *rivals]:
                figures = self._measure(found.transport, found.ranks, found.operator, name, [found.bytes])
                times[name] += figures.values()
        is_whole = all(len(times[name]) == self.options.confirm for name in [SELECTED, *rivals])
        return verdict.verdict_of(found.cell, found.selected, times) if is_whole else found

    def _measure(self, way, ranks, operator, algorithm, sizes):
        """{bytes: us}; what gave no figure is noted."""
        argv = [self._cohort, "bench", operator, "--ranks", ranks, *WAYS[way], "--csv", "--no-check",
                "--budget-ms", self.options.budget_ms, "--near-wait", 0]
        if any(sizes):  # a barrier has none
            argv += ["--sizes", ",".join(map(str, sizes))]
        figures = {}
        try:
            for line in lines_of(argv + (["--algorithm", algorithm] if algorithm else [])):
                found = parse_line(line)
                if isinstance(found, Missing):
                    self.missing[f"{operator} {algorithm}: {found.reason}"] += 1
                elif found:
                    figures[found.cell.bytes] = found.median_us
        except Failed as reason:
            self.missing[f"{operator} {algorithm}, {ranks} ranks, {way}: {reason}"] += 1
        return figures


def write(compared, out):
    out.mkdir(parents=True, exist_ok=True)
    with (out / "selection.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(verdict.COLUMNS)
        writer.writerows(verdict.row(one) for one in sorted(compared.verdicts))
    text = "\n".join([*verdict.lines_of(compared.verdicts), *(f"left out: {why}" for why in compared.missing)]) + "\n"
    (out / "selection.txt").write_text(text)
    print(text)
    print(out / "selection.csv")


def main():
    options = parse()
    compared = Comparison(options, Progress())
    status = run_and_write("selection", compared.run, lambda: write(compared, options.out))
    return status if compared.verdicts else status or 1
