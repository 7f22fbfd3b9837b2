# SPDX-License-Identifier: Apache-2.0
"""Simulates algorithms on thousands of ranks, and writes which of them wins where."""

import argparse
import csv
import pathlib

from scale import table
from suite.cells import parse_size, size_text
from suite.comparing import lines_of, run_and_write
from suite.options import ROOT, comma_list
from suite.process import Failed
from suite.progress import Progress

ELEMENT_BYTES = 4
HAVE_BLOCKS = ("all_gather", "reduce_scatter")
OPERATORS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "barrier")
TOPOLOGIES = ROOT / "samples/topologies"
DESCRIPTION = """Simulates every algorithm of these operators with `cohort sim` and writes tables of which of them wins
where. bench/README.md describes it."""


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="./run bench scale", description=DESCRIPTION)
    add = parser.add_argument
    add("--out", type=pathlib.Path, default=ROOT / "build/bench", help="where results go (default build/bench)")
    add("--into", type=pathlib.Path, metavar="FILE", help="a text, such as docs/generated/scale.md, in which to replace the tables of the same command")
    add("--operators", type=comma_list(str, OPERATORS), default=list(OPERATORS), metavar="LIST")
    add("--topologies", type=comma_list(str), default=["cluster", "rdma", "unequal"], metavar="LIST",
        help="names of samples/topologies (default: cluster,rdma,unequal)")
    add("--ranks", type=comma_list(int), default=[4096], metavar="LIST", help="default: 4096")
    add("--sizes", type=comma_list(parse_size), default=[1 << 10, 1 << 20, 256 << 20], metavar="LIST",
        help="such as 1K,1M: of the vector, of all blocks (default: 1K,1M,256M)")
    add("--algorithms", type=comma_list(str), metavar="LIST", help="default: all that can be simulated")
    add("--most-messages", type=float, default=2e6, help="of one simulation; what takes more is left out (default 2e6)")
    add("--timeout", type=float, default=600, metavar="S", help="of one simulation, in seconds (default 600)")
    add("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", help="where the programs lie")
    return parser.parse_args(arguments)


def sizes_of(operator, ranks, sizes):
    """Those at which there is something to move: a barrier has none, and a block is at least an element."""
    if operator == "barrier":
        return [None]
    least = ELEMENT_BYTES * (ranks if operator in HAVE_BLOCKS else 1)
    return [size for size in sizes if size >= least]


class Simulations:
    def __init__(self, options, progress):
        self.predictions = []
        self.missing = []
        self._options = options
        self._progress = progress

    def run(self):
        options = self._options
        networks = [(topology, ranks) for topology in options.topologies for ranks in sorted(options.ranks)]
        runs = [(operator, *network, size) for operator in options.operators for network in networks
                for size in sizes_of(operator, network[1], options.sizes)]
        for index, run in enumerate(runs):
            left_s = self._progress.elapsed_s / max(index, 1) * (len(runs) - index)
            self._progress.show(left_s, f"{run[0]}, {run[2]} ranks, {run[1]}")
            for algorithm in options.algorithms or ["all"]:
                self._simulate(*run, algorithm)
        self._progress.clear()

    def _simulate(self, operator, topology, ranks, size, algorithm):
        argv = [self._options.bin / "cohort", "sim", operator, "--csv", "--ranks", ranks, "--topology",
                TOPOLOGIES / f"{topology}.json", "--algorithm", algorithm, "--most-messages",
                f"{self._options.most_messages:g}"]
        argv += ["--bytes", size] if size else []
        try:
            rows = (table.parse_row(line, topology) for line in lines_of(argv, self._options.timeout))
            self.predictions += [row for row in rows if row]
        except Failed as reason:
            text = size_text(size) if size else "-"
            self.missing.append(f"{operator} {algorithm}, {ranks} ranks, {topology}, {text}: {reason}")


def command_of(options):
    """What makes the same tables again."""
    lists = [("operators", options.operators), ("topologies", options.topologies), ("ranks", options.ranks),
             ("sizes", map(size_text, options.sizes)), ("algorithms", options.algorithms)]
    words = [f"--{name} {','.join(map(str, values))}" for name, values in lists if values]
    return " ".join(["./run bench scale", *words, f"--most-messages {options.most_messages:g}"])


def write(simulations, options):
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "scale.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table.COLUMNS)
        for one in simulations.predictions:
            cell = one.cell
            writer.writerow([cell.operator, cell.topology, cell.ranks, cell.bytes, one.algorithm, f"{one.us:.3f}",
                             one.messages])
    command = command_of(options)
    lines = list(table.lines_of(simulations.predictions, command))
    (options.out / "scale.md").write_text("\n".join(lines) + "\n")
    if options.into:
        options.into.write_text(table.put_between(options.into.read_text(), command, lines))
    print("\n".join([*lines, *(f"left out: {why}" for why in simulations.missing)]))
    print(options.out / "scale.csv")


def main():
    options = parse()
    simulations = Simulations(options, Progress())
    status = run_and_write("scale", simulations.run, lambda: write(simulations, options))
    return status if simulations.predictions else status or 1
