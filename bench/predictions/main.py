# SPDX-License-Identifier: Apache-2.0
"""Calibrates, predicts, measures, compares."""

import argparse
import csv
import json
import pathlib
import tempfile

from predictions import calibration, comparison
from predictions.comparison import Case, Pair
from suite import machine, model
from suite.cells import TRANSPORTS, Missing, parse_line, parse_size
from suite.comparing import lines_of, run_and_write
from suite.options import ROOT, comma_list
from suite.process import Failed
from suite.progress import Progress

SIMULATED = ("barrier", "broadcast", "all_reduce", "all_gather", "reduce_scatter", "reduce", "gather", "scatter",
             "all_to_all", "scan", "exclusive_scan")
DESCRIPTION = """Holds what `cohort sim` predicts against what `cohort bench` measures on this machine, for every
operator and algorithm; prints a table with the errors and writes it as CSV. bench/README.md describes the method."""


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="./run predict", description=DESCRIPTION)
    add = parser.add_argument
    add("--out", type=pathlib.Path, default=ROOT / "build/bench", help="where results go (default build/bench)")
    add("--operators", type=comma_list(str, SIMULATED), default=list(SIMULATED), metavar="LIST")
    add("--ranks", type=comma_list(int), default=[2, 4, 8], metavar="LIST")
    add("--transports", type=comma_list(str, TRANSPORTS), default=list(TRANSPORTS), metavar="LIST")
    add("--sizes", type=comma_list(parse_size), default=[8, 4 << 10, 64 << 10, 1 << 20], metavar="LIST")
    add("--budget-ms", type=int, default=30, help="time for one point (default 30)")
    add("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", help="where the programs lie")
    return parser.parse_args(arguments)


class Comparison:
    def __init__(self, options, progress):
        self.options = options
        self.pairs = []
        self.missing = {}  # why -> how many cases
        self._cohort = options.bin / "cohort"
        self._progress = progress
        self._machine = None
        self._exchanges = {}  # transport -> {bytes: us}

    def run(self):
        self._calibrate()
        launches = [(transport, operator, algorithm, ranks)
                    for transport in self.options.transports
                    for operator, algorithm in self._algorithms(transport) if operator in self.options.operators
                    for ranks in self.options.ranks]
        for index, launch in enumerate(launches):
            self._progress.show(2 * (len(launches) - index), "{} {} {}, {} ranks".format(*launch))
            try:
                self._compare(*launch)
            except Failed as reason:
                self._note(f"{launch[1]} {launch[2]}, {launch[3]} ranks, {launch[0]}: {reason}")
        self._progress.clear()

    def _note(self, why):
        self.missing[why] = self.missing.get(why, 0) + 1

    def _calibrate(self):
        self._progress.show(30, "calibrating")
        entries = [entry for line in lines_of([self.options.bin / "limits", "0"]) if (entry := model.parse_line(line))]
        kinds = [entry[3] for entry in entries]
        figures = model.choose(entries, max(set(kinds), key=kinds.count))
        self._machine = calibration.machine_of(figures, machine.usable_cores(), machine.core_cache_bytes(),
                                               machine.largest_cache_bytes())
        sizes = sorted({calibration.SMALLEST, *self.options.sizes})
        for transport in self.options.transports:
            self._exchanges[transport] = self._measure(transport, calibration.OPERATOR, calibration.ALGORITHM,
                                                       calibration.RANKS, sizes)

    def _algorithms(self, transport):
        """(operator, algorithm) pairs that run over the transport and are simulated."""
        for line in lines_of([self._cohort, "explain", "all", "--ranks", 2, "--transport", transport, "--sizes", 8,
                              "--json"]):
            explained = json.loads(line)
            for candidate in explained.get("candidates", ()):
                if candidate["is_possible"]:
                    yield explained["collective"], candidate["algorithm"]

    def _measure(self, transport, operator, algorithm, ranks, sizes):
        """{bytes: us} of `cohort bench`; what gave no figure is noted."""
        argv = [self._cohort, "bench", operator, "--algorithm", algorithm, "--ranks", ranks, "--transport", transport,
                "--csv", "--sizes", ",".join(map(str, sizes)), "--budget-ms", self.options.budget_ms, "--near-wait", 0]
        figures = {}
        for line in lines_of(argv + (["--shared"] if transport == "shm" else [])):
            found = parse_line(line)
            if isinstance(found, Missing):
                self._note(f"{operator} {algorithm} is not measured: {found.reason}")
            elif found:
                figures[found.cell.bytes] = found.median_us
        return figures

    def _predict(self, case):
        """Us of `cohort sim`, or None."""
        topology = calibration.topology(case.transport, case.ranks, case.bytes, self._exchanges[case.transport],
                                        self._machine)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(topology, file)
            file.flush()
            lines = lines_of([self._cohort, "sim", case.operator, "--algorithm", case.algorithm, "--ranks", case.ranks,
                              "--bytes", max(case.bytes, calibration.SMALLEST), "--topology", file.name, "--shared",
                              "--csv"])
        found = [parsed for line in lines if (parsed := comparison.parse_sim(line))]
        return found[0][1] if found else None

    def _compare(self, transport, operator, algorithm, ranks):
        measured = self._measure(transport, operator, algorithm, ranks, self.options.sizes)
        for size, measured_us in measured.items():
            case = Case(transport, operator, algorithm, ranks, size)
            predicted_us = self._predict(case)
            if predicted_us is None:
                self._note(f"{operator} {algorithm} is not simulated")
                continue
            calibrates = ((operator, algorithm, ranks) ==
                          (calibration.OPERATOR, calibration.ALGORITHM, calibration.RANKS))
            self.pairs.append(Pair(case, predicted_us, measured_us, calibrates))


def write(compared, cores, out):
    out.mkdir(parents=True, exist_ok=True)
    with (out / "predictions.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(comparison.COLUMNS)
        writer.writerows(comparison.row(pair, cores) for pair in sorted(compared.pairs, key=lambda pair: pair.case))
    text = "\n".join([*comparison.table(compared.pairs, cores), "", *comparison.summary(compared.pairs, cores),
                      *(f"left out: {why}" for why in compared.missing)]) + "\n"
    (out / "predictions.txt").write_text(text)
    print(text)
    print(out / "predictions.csv")


def main():
    options = parse()
    compared = Comparison(options, Progress())
    cores = machine.usable_cores()
    status = run_and_write("predict", compared.run, lambda: write(compared, cores, options.out))
    return status if compared.pairs else status or 1
