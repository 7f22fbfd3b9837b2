# SPDX-License-Identifier: Apache-2.0
"""Measures links and collectives over RDMA beside perftest and Open MPI, in the guest of tests/verbs/vm."""

import argparse
import pathlib
import subprocess
import sys

from suite.options import ROOT
from verbs import figures

DESCRIPTION = """Boots the guest with a software RDMA device that tests use, and measures there what a link and an all_reduce of cohort
take beside perftest's ib_write_lat and ib_write_bw and Open MPI over UCX. The guest is emulated: only ratios mean something.
bench/README.md describes it."""
BEGIN, END = "<!-- ./run bench verbs -->\n", "<!-- end -->\n"


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="./run bench verbs", description=DESCRIPTION)
    add = parser.add_argument
    add("--rounds", type=int, default=5, help="each runs all programs one after the other (default 5)")
    add("--only", default="", metavar="TEXT", help="only figures whose name has that in it, such as latency")
    add("--into", type=pathlib.Path, metavar="FILE", help="a text, such as docs/measured/rdma-guest.md, in which to replace the table")
    add("--out", type=pathlib.Path, default=ROOT / "build/bench", help="where verbs.csv goes (default build/bench)")
    add("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", help="where the programs lie")
    add("--kernel", nargs=2, metavar=("FOLDER", "VERSION"), required=True, help="of `tests/verbs/vm fetch`")
    add("--timeout", type=float, default=3000, help="seconds (3000)")
    return parser.parse_args(arguments)


def measure(options):
    """(round, figure, program, value) as they come; what is missing is shown."""
    folder = pathlib.Path(__file__).parent
    argv = [sys.executable, str(ROOT / "tests/verbs/vm"), "run", *options.kernel, "--timeout", str(options.timeout), "--",
            "/usr/bin/python3", str(folder / "in_guest.py"), str(options.bin.resolve()), str(options.rounds), options.only]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as guest:
        for line in guest.stdout:
            kind, *words = line.rstrip("\n").split(";")
            if kind == "figure":
                yield int(words[0]), words[1], words[2], float(words[3])
            else:
                print(line, end="", file=sys.stderr)
    if guest.returncode != 0:
        raise SystemExit(f"bench verbs: the guest ended with status {guest.returncode}")


def replace_table(text, table):
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return text[:begin] + table + text[end:]


def main(arguments=None):
    options = parse(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    with open(options.out / "verbs.csv", "w", encoding="utf-8") as file:
        print("round;figure;program;value", file=file)
        try:
            for row in measure(options):
                rows.append(row)
                print(*row, sep=";", file=file, flush=True)
                print(*row, flush=True)
        finally:
            table = figures.table(rows, options.only)
            print(table, end="")
    if options.into:
        options.into.write_text(replace_table(options.into.read_text(encoding="utf-8"), table), encoding="utf-8")
    return 0
