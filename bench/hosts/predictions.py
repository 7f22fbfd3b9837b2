# SPDX-License-Identifier: Apache-2.0
"""What `cohort sim` predicts between hosts beside what cohort takes there.

One figure is fitted, the way from one host to another: what two hosts take to exchange eight bytes. Rates are those of
the links; other operators, algorithms, sizes and numbers of hosts are left to the simulator.
"""

import csv
import dataclasses
import io
import json
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

from suite.cells import size_text, time_text
from suite.process import Failed

PROBE_OPERATOR, PROBE_ALGORITHM, PROBE_BYTES = "all_gather", "ring", 8
NS_PER_US = 1e3
UNLIMITED_GB_PER_S = 1e3


@dataclasses.dataclass(frozen=True)
class Prediction:
    launch: object
    operator: str
    algorithm: str
    size: int
    measured_us: float
    predicted_us: float

    @property
    def error(self):
        return abs(self.predicted_us / self.measured_us - 1)


def topology(launch, one_way_us, gigabytes_per_second):
    return {"ranks_per_host": launch.per_host,
            "network": {"latency_ns": one_way_us * NS_PER_US, "message_ns": 0, "gigabytes_per_second": gigabytes_per_second}}


def simulate(command, launch, operator, algorithm, machine):
    """{bytes: us}, of `all` {algorithm: us} of the last size; what does not run there is left out."""
    with tempfile.TemporaryDirectory(prefix="cohort-bench-") as folder:
        file = pathlib.Path(folder, "topology.json")
        file.write_text(json.dumps(machine), encoding="utf-8")
        argv = [command, "sim", operator, "--ranks", str(launch.hosts * launch.per_host), "--topology", file, "--sizes",
                ",".join(map(str, launch.sizes)), "--algorithm", algorithm, "--csv"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=True)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    return {row["algorithm"] if algorithm == "all" else int(row["bytes"]): float(row["us"]) for row in rows}


class Predictions:
    """`measure(launch)` gives {(operator, bytes): us} of cohort, with `options.cohort_args`."""

    def __init__(self, options, measure, gigabytes_of):
        self.options, self.measure, self.gigabytes_of = options, measure, gigabytes_of
        self.wanted = options.cohort_args

    def measured(self, launch, algorithm):
        """Medians of rounds."""
        self.options.cohort_args = f"{self.wanted} --algorithm {shlex.quote(algorithm)}"
        found = {}
        for _ in range(self.options.rounds):
            for operator, size, median_us in self.measure(launch):
                found.setdefault((operator, size), []).append(median_us)
        return {key: statistics.median(values) for key, values in found.items()}

    def one_way_us(self, launch):
        probe = dataclasses.replace(launch, hosts=2, per_host=1, operators=(PROBE_OPERATOR,), sizes=(PROBE_BYTES,))
        return self.measured(probe, PROBE_ALGORITHM)[PROBE_OPERATOR, PROBE_BYTES]

    def of(self, launch):
        one_way_us = self.one_way_us(launch)
        machine = topology(launch, one_way_us, self.gigabytes_of(launch.rate) or UNLIMITED_GB_PER_S)
        for operator in launch.operators:
            for algorithm in self.options.predict:
                try:
                    measured = self.measured(dataclasses.replace(launch, operators=(operator,)), algorithm)
                    predicted = simulate(self.options.bin / "cohort", launch, operator, algorithm, machine)
                except (Failed, subprocess.CalledProcessError) as reason:  # not of this operator
                    print(f"bench hosts: {operator} by {algorithm}: {reason}", file=sys.stderr)
                    continue
                for size in launch.sizes:
                    if (operator, size) in measured and size in predicted:
                        yield Prediction(launch, operator, algorithm, size, measured[operator, size], predicted[size])


def report(predictions):
    """Markdown: a line for each, then medians."""
    lines = ["| hosts x ranks | link | operator | algorithm | bytes | measured | predicted | error |",
             "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    lines += [f"| {one.launch.hosts} x {one.launch.per_host} | {one.launch.rate} | {one.operator} | {one.algorithm} | {size_text(one.size)} | "
              f"{time_text(one.measured_us)} | {time_text(one.predicted_us)} | {one.error:.0%} |" for one in predictions]
    if predictions:
        lines.append(f"\nmedian error of {len(predictions)} predictions: {statistics.median(one.error for one in predictions):.0%}")
    return "\n".join(lines) + "\n"
