# SPDX-License-Identifier: Apache-2.0
"""The command line."""

import argparse
import pathlib

from suite import machine
from suite.cells import OPERATORS, TRANSPORTS, parse_size
from suite.programs import PROGRAMS

ROOT = pathlib.Path(__file__).resolve().parents[2]
FULL_SIZES = [8, 1 << 10, 4 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20]
QUICK_SIZES = [8, 4 << 10, 1 << 20]
DESCRIPTION = """Measures cohort and other collective libraries in turn on this machine, and what the machine itself can do;
writes a table, CSV files and a report with pictures. bench/README.md describes the method."""


def comma_list(convert, allowed=None):
    def parse(text):
        try:
            values = [convert(part) for part in text.split(",") if part]
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        for value in values:
            if allowed and value not in allowed:
                raise argparse.ArgumentTypeError(f"'{value}' is none of {', '.join(map(str, allowed))}")
        return values

    return parse


def parser():
    result = argparse.ArgumentParser(prog="./run bench", description=DESCRIPTION)
    add = result.add_argument
    add("--quick", action="store_true", help="few sizes, rounds and iterations: under 3 minutes")
    add("--out", type=pathlib.Path, default=ROOT / "build/bench", help="where results go (default build/bench)")
    add("--operators", "--collectives", type=comma_list(str, OPERATORS), default=list(OPERATORS), metavar="LIST")
    add("--ranks", type=comma_list(int), default=[2, 4, 8], metavar="LIST")
    add("--transports", type=comma_list(str, TRANSPORTS), default=list(TRANSPORTS), metavar="LIST")
    add("--sizes", type=comma_list(parse_size), metavar="LIST", help="such as 8,4K,64M")
    add("--programs", "--peers", type=comma_list(str), metavar="LIST",
        help="cohort, openmpi, mpich, gloo, torch, oneccl, or one setting of one: openmpi/shm-ucx")
    add("--rounds", type=int, help="at most so many (default 5; --quick: 2)")
    add("--minutes", type=float, help="no longer than this (default 38; --quick: 2.7)")
    add("--budget-ms", type=int, help="time for one point (default 30; --quick: 12)")
    add("--near-wait-ms", type=int, default=60, help="how long a point may wait for near cores (default 60)")
    add("--start", choices=["line", "barrier"], default="line", help="how peers start an operation")
    add("--no-rewrite", action="store_true", help="inputs stay as they are between operations")
    add("--no-overlap", action="store_true", help="do not measure overlap with computing")
    add("--all-settings", action="store_true", help="also measure settings known to be unusable here")
    add("--timeout", type=float, metavar="S", help="for one point of one program (default 30; --quick: 15)")
    add("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", help="where the programs lie")
    add("--cohort", type=pathlib.Path, help="the cohort command (default: in --bin)")
    add("--cohort-args", default="", help="further options for 'cohort bench'")
    return result


def parse(arguments=None):
    command = parser()
    options = command.parse_args(arguments)
    quick = options.quick
    options.sizes = sorted(set(options.sizes or (QUICK_SIZES if quick else FULL_SIZES)))
    options.rounds = options.rounds if options.rounds is not None else (2 if quick else 5)
    options.time_limit_s = 60 * (options.minutes if options.minutes is not None else (2.7 if quick else 38))
    options.budget_ms = options.budget_ms or (12 if quick else 30)
    options.timeout = options.timeout or (15 if quick else 30)
    options.joins_operators = quick
    options.cohort = options.cohort or options.bin / "cohort"
    options.cores = machine.usable_cores()
    known = {p.peer for p in PROGRAMS} | {p.name for p in PROGRAMS}
    unknown = sorted(set(options.programs or []) - known)
    if unknown:
        command.error(f"--programs: no {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    if options.rounds < 1 or min(options.ranks, default=0) < 1 or options.time_limit_s <= 0:
        command.error("rounds, ranks and minutes are positive")
    return options


def choose_programs(options):
    def is_wanted(program):
        return not options.programs or program.peer in options.programs or program.name in options.programs

    return [program for program in PROGRAMS if is_wanted(program) and program.transport in options.transports]
