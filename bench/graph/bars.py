# SPDX-License-Identifier: Apache-2.0
"""Measures what gradient graphs are held to, bar by bar: `./run bench graph bars --help`."""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import planner

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))
from hosts.network import Hosts, can_make_hosts  # noqa: E402

LIMIT_S = 1500
# Part, and the links that it is measured on; None: ranks of one host.
PARTS = [("overlap", "1gbit"), ("overlap", "unlimited"), ("overlap", None), ("sizes", "1gbit"), ("sizes", None), ("link", "1gbit"),
         ("compression", "1gbit"), ("lazy", "1gbit"), ("lazy", None), ("accuracy", None), ("join", None), ("robust", None)]
# DistributedDataParallel over gloo may take so many times the planned step, at least.
LEAST_OF_GLOO = {"1gbit": 1.0, "unlimited": 1.2, None: 1.2}


def environment(build):
    """Ranks of one core each; what a launcher around this one has left is not theirs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COHORT_", "OMPI_", "PMI"))}
    paths = (build / "python", ROOT / "samples", HERE)
    return {**kept, "PYTHONPATH": ":".join(map(str, paths)), "OMP_NUM_THREADS": "1", "COHORT_CACHE": "off"}


def on_one_host(part, arguments, rows):
    runner = [str(arguments.build / "bin" / "cohort-run"), "-n", str(arguments.ranks), "--timeout", str(LIMIT_S), "--"]
    subprocess.run([*runner, sys.executable, str(HERE / "bar_ranks.py"), part, rows], env=environment(arguments.build),
                   timeout=LIMIT_S + 60, check=True)


def on_hosts(part, rate, arguments, rows):
    """A rank on each; links change their rate where rank 0 asks for it."""
    shared = {"WORLD_SIZE": str(arguments.ranks), "MASTER_PORT": "29431", "GLOO_SOCKET_IFNAME": "eth0"}
    with Hosts(arguments.ranks, None if rate == "unlimited" else rate) as hosts, contextlib.ExitStack() as started:
        ranks = []
        for rank in range(arguments.ranks):
            own = {**environment(arguments.build), **shared, "MASTER_ADDR": hosts.address(0), "RANK": str(rank),
                   "COHORT_HOST_ID": f"host{rank}"}
            argv = hosts.inside(rank, [sys.executable, str(HERE / "bar_ranks.py"), part, rows])
            pipe = subprocess.PIPE if rank == 0 else None
            ranks.append(subprocess.Popen(argv, env=own, stdin=pipe, stdout=pipe, text=True))
            started.callback(ranks[-1].wait)
            started.callback(ranks[-1].kill)
        for line in ranks[0].stdout:
            if line.startswith("RATE "):
                hosts.set_rate(line.split()[1])
                ranks[0].stdin.write("set\n")
                ranks[0].stdin.flush()
        statuses = [rank.wait(LIMIT_S) for rank in ranks]
        if any(statuses):
            raise SystemExit(f"bench graph: {part} on links of {rate}: ranks ended with {statuses}")


def measure(part, rate, arguments):
    """The rows of rank 0, each with where it was measured."""
    where = f"{arguments.ranks} ranks of one host" if rate is None else f"{arguments.ranks} hosts, {rate}"
    with tempfile.TemporaryDirectory(prefix="cohort-bench-") as folder:
        path = os.path.join(folder, "rows")
        if rate is None:
            on_one_host(part, arguments, path)
        else:
            on_hosts(part, rate, arguments, path)
        rows = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    for row in rows:
        if row[0] == "DistributedDataParallel over gloo":
            row[1] = f"at least {LEAST_OF_GLOO[rate]:g} times"
            row[3] = float(row[2].split()[0]) >= LEAST_OF_GLOO[rate]
    return [[where, *row] for row in rows]


def line_of(row):
    where, bar, asked, figure, is_held = row
    return f"| {bar} | {where} | {asked} | {figure} | {'' if is_held is None else 'yes' if is_held else 'no'} |"


def main(given):
    parser = argparse.ArgumentParser(prog="./run bench graph bars", description="measures what gradient graphs are held to, and prints "
                                     "each bar with its figure; links between hosts need root")
    names = ["plan", *dict.fromkeys(part for part, _ in PARTS)]
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(names)}; all unless given")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    arguments = parser.parse_args(given)
    unknown = set(arguments.parts) - set(names)
    if unknown:
        parser.error(f"no part is called {', '.join(sorted(unknown))}")
    wanted = arguments.parts or names
    print("| bar | measured with | asked | figure | held |\n| --- | --- | --- | --- | --- |", flush=True)
    if "plan" in wanted:
        for row in planner.rows(arguments.build):
            print(line_of(row), flush=True)
    for part, rate in PARTS:
        if part not in wanted:
            continue
        if rate is not None and not can_make_hosts():
            print(line_of(["hosts", part, "", "needs root and network namespaces (ip netns)", None]), flush=True)
            continue
        for row in measure(part, rate, arguments):
            print(line_of(row), flush=True)
    return 0
