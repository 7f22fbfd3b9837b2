# SPDX-License-Identifier: Apache-2.0
"""What the library selects between hosts beside every algorithm that runs there, in turn."""

import collections
import json
import shlex
import subprocess
import sys

from hosts.predictions import topology, simulate
from selection import verdict
from selection.verdict import SELECTED
from suite.process import Failed

ALL = "all"
ANY_WAY_US = 10  # of the simulator, which is asked only what can run


class Choices:
    """`measure(launch, form)` gives the lines of cohort, with `options.cohort_args`, in the form that it is told."""

    def __init__(self, options, measure, parse_line):
        self.options, self.measure, self.parse_line = options, measure, parse_line
        self.wanted = options.cohort_args

    def candidates(self, launch, operator):
        """Algorithms that the simulator runs between such hosts."""
        return sorted(simulate(self.options.bin / "cohort", launch, operator, ALL, topology(launch, ANY_WAY_US, 1)))

    def selected(self, launch):
        """{bytes: algorithm}"""
        self.options.cohort_args = self.wanted
        rows = [json.loads(line) for line in self.measure(launch, "--json") if line.startswith("{")]
        return {row["size_bytes"]: row["algorithm"] for row in rows if "algorithm" in row}

    def times(self, launch, operator, names):
        """{bytes: {algorithm: us of each round}}"""
        found = collections.defaultdict(lambda: collections.defaultdict(list))
        for _ in range(self.options.rounds):
            for name in [SELECTED, *names]:
                self.options.cohort_args = self.wanted + (f" --algorithm {shlex.quote(name)}" if name else "")
                try:
                    lines = self.measure(launch, "--csv")
                except Failed as reason:
                    print(f"bench hosts: {operator} by {name or 'what is selected'}: {reason}", file=sys.stderr)
                    continue
                for entry in filter(None, map(self.parse_line, lines)):
                    found[entry[1]][name].append(entry[2])
        return found

    def of(self, launch):
        for operator in launch.operators:
            try:
                names, selected = self.candidates(launch, operator), self.selected(launch)
            except (Failed, subprocess.CalledProcessError) as reason:
                print(f"bench hosts: {operator}: {reason}", file=sys.stderr)
                continue
            way = f"{launch.hosts}x{launch.per_host},{launch.rate}"
            for size, rounds in self.times(launch, operator, names).items():
                cell = way, operator, launch.hosts * launch.per_host, size
                if (found := verdict.verdict_of(cell, selected.get(size, SELECTED), rounds)) is not None:
                    yield found


def report(verdicts):
    return "".join(line + "\n" for line in verdict.lines_of(verdicts))
