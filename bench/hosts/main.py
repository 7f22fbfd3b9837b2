# SPDX-License-Identifier: Apache-2.0
"""Measures collectives between hosts that it makes itself, of cohort and other libraries in turn."""

import argparse
import dataclasses
import pathlib
import secrets
import statistics
import sys
import tempfile

from hosts.choices import Choices
from hosts.choices import report as report_of_choices
from hosts.network import Hosts, can_make_hosts
from hosts.predictions import Predictions, report
from hosts.programs import PROGRAMS, Unusable
from selection.verdict import row
from suite.cells import OPERATORS, parse_size, size_text, time_text
from suite.options import ROOT, comma_list
from suite.process import Failed, Process

DESCRIPTION = """Makes hosts out of network namespaces at one switch (as root), and measures collectives between them: cohort, gloo
of PyTorch, Open MPI and MPICH in turn. Prints a table and leaves hosts.csv; bench/README.md describes it."""
DEFAULT_OPERATORS = ["all_reduce", "all_gather", "reduce_scatter", "broadcast"]
DEFAULT_SIZES = [8, 4 << 10, 64 << 10, 1 << 20, 16 << 20]
# Of what a link carries, TCP over Ethernet with frames of 1500 bytes leaves that share to the application.
PAYLOAD_SHARE = 1448 / 1538


@dataclasses.dataclass(frozen=True)
class Launch:
    hosts: int
    per_host: int
    rate: str
    operators: tuple
    sizes: tuple


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="./run bench hosts", description=DESCRIPTION)
    add = parser.add_argument
    add("--hosts", type=comma_list(int), default=[2, 4, 8], metavar="LIST")
    add("--per-host", type=comma_list(int), default=[1], metavar="LIST", help="ranks on each (default 1)")
    add("--rates", type=comma_list(str), default=["1gbit", "unlimited"], metavar="LIST", help="of a link, as tc takes it")
    add("--operators", type=comma_list(str, OPERATORS), default=DEFAULT_OPERATORS, metavar="LIST")
    add("--sizes", type=comma_list(parse_size), default=DEFAULT_SIZES, metavar="LIST")
    add("--programs", type=comma_list(str, PROGRAMS), default=list(PROGRAMS), metavar="LIST")
    add("--rounds", type=int, default=5)
    add("--budget-ms", type=int, default=200, help="time for one point")
    add("--timeout", type=float, default=60, help="seconds for one point")
    add("--predict", type=comma_list(str), default=[], metavar="LIST",
        help="of cohort alone: these algorithms, beside what `cohort sim` predicts")
    add("--choices", action="store_true", help="of cohort alone: every algorithm, beside what is selected")
    add("--cohort-args", default="", help="further options for 'cohort bench'")
    add("--out", type=pathlib.Path, default=ROOT / "build/bench", help="where hosts.csv goes")
    add("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", help="where the programs lie")
    add("--environments", type=pathlib.Path, default=ROOT / "build/bench/peers", help="where other libraries go")
    options = parser.parse_args(arguments)
    options.bin = options.bin.resolve()
    options.environments = options.environments.resolve()
    options.include = options.bin.parent / "include"
    return options


def choose_programs(options):
    chosen = []
    for name in options.programs:
        try:
            chosen.append(PROGRAMS[name](options))
        except Unusable as reason:
            print(f"bench hosts: goes on without {name}: {reason}", file=sys.stderr)
    return chosen


def parse_line(line):
    """(operator, bytes, median in us), or None."""
    fields = line.strip().split(",")
    if len(fields) < 7 or fields[2] not in OPERATORS or fields[5] == "-":
        return None
    return fields[2], int(fields[4]), float(fields[6])


def lines_of(program, hosts, launch, options):
    argv, environment = program.command(hosts, launch)
    with Process(argv, environment, options.timeout) as process:
        return list(process)


def run(program, hosts, launch, options):
    """What a program measured."""
    return [entry for line in lines_of(program, hosts, launch, options) if (entry := parse_line(line))]


def gigabytes_of(rate):
    """That a link carries a second for applications, or None where it is not limited."""
    return float(rate[:-4]) * PAYLOAD_SHARE / 8 if rate.endswith("gbit") else None


def limit_us(operator, size, hosts, per_host, rate):
    """The least time in which links of that rate can do it, or None."""
    if gigabytes_of(rate) is None:
        return None
    seconds_per_byte = 1e-9 / gigabytes_of(rate)
    share = {"all_reduce": 2 * (hosts - 1) / hosts, "all_gather": (hosts - 1) / hosts,
             "reduce_scatter": (hosts - 1) / hosts, "broadcast": 1}.get(operator)
    return None if share is None else size * share * seconds_per_byte * 1e6


def table(rows, launches, names):
    """Markdown: a line for each cell, medians of rounds; in parentheses how many times cohort's time the others take."""
    lines = [f"| hosts x ranks | link | operator | bytes | {' | '.join(names)} | share of the link's limit |",
             "| --- | --- | --- | --- |" + " --- |" * (len(names) + 1)]
    for launch in launches:
        for operator in launch.operators:
            for size in launch.sizes:
                times = {name: statistics.median(values) for name in names
                         if (values := rows.get((launch, name, operator, size)))}
                own = times.get("cohort")
                if not times:
                    continue
                cells = [("-" if name not in times else time_text(times[name]) + (
                    f" ({times[name] / own:.2f})" if own and name != "cohort" else "")) for name in names]
                limit = limit_us(operator, size, launch.hosts, launch.per_host, launch.rate)
                share = f"{limit / own:.2f}" if limit and own and size >= 1 << 20 else ""
                lines.append(f"| {launch.hosts} x {launch.per_host} | {launch.rate} | {operator} | {size_text(size)} | "
                             f"{' | '.join(cells)} | {share} |")
    return "\n".join(lines) + "\n"


def examine(options, launches):
    """Cohort alone: predictions, or choices."""
    cohort = PROGRAMS["cohort"](options)

    def lines(launch, form="--csv"):
        cohort.form = form
        with Hosts(launch.hosts, None if launch.rate == "unlimited" else launch.rate) as hosts:
            return lines_of(cohort, hosts, launch, options)

    if options.choices:
        choices = Choices(options, lines, parse_line)
        verdicts = []
        for one in (one for launch in launches for one in choices.of(launch)):
            print(*row(one), file=sys.stderr, flush=True)
            verdicts.append(one)
        print(report_of_choices(verdicts), end="")
        return 0
    predictions = Predictions(options, lambda launch: filter(None, map(parse_line, lines(launch))), gigabytes_of)
    print(report([one for launch in launches for one in predictions.of(launch)]), end="")
    return 0


def measure(options, programs, launches, file):
    rows = {}
    for turn in range(1, options.rounds + 1):
        for launch in launches:
            rate = None if launch.rate == "unlimited" else launch.rate
            with Hosts(launch.hosts, rate) as hosts:
                for program in programs:
                    try:
                        found = run(program, hosts, launch, options)
                    except Failed as reason:
                        print(f"bench hosts: {program.name}, {launch.hosts} hosts: {reason}", file=sys.stderr)
                        continue
                    for operator, size, median_us in found:
                        rows.setdefault((launch, program.name, operator, size), []).append(median_us)
                        print(turn, launch.hosts, launch.per_host, launch.rate, program.name, operator, size, median_us,
                              sep=",", file=file, flush=True)
    return rows


def main(arguments=None):
    options = parse(arguments)
    if not can_make_hosts():
        raise SystemExit("bench hosts: needs root and network namespaces (ip netns)")
    options.out.mkdir(parents=True, exist_ok=True)
    programs = [] if options.predict or options.choices else choose_programs(options)
    launches = [Launch(hosts, per_host, rate, (operator,), tuple(sorted(options.sizes))) for rate in options.rates
                for hosts in options.hosts for per_host in options.per_host for operator in options.operators]
    with tempfile.TemporaryDirectory(prefix="cohort-bench-") as scratch, \
            open(options.out / "hosts.csv", "w", encoding="utf-8") as file:
        options.secret = pathlib.Path(scratch, "secret")
        options.secret.touch(mode=0o600)
        options.secret.write_text(secrets.token_hex(32))
        if options.predict or options.choices:
            return examine(options, launches)
        print("round,hosts,per_host,rate,program,operator,bytes,median_us", file=file)
        rows = measure(options, programs, launches, file)
    print(table(rows, launches, [program.name for program in programs]), end="")
    return 0
