# SPDX-License-Identifier: Apache-2.0
"""Starts ranks.py and prints what it measured."""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIMIT_S = 900


def command_for(ranks, build):
    """By mpirun where it is, since mpi4py can be measured only there; else by cohort run."""
    mpirun = shutil.which("mpirun.openmpi")
    if mpirun:
        return [mpirun, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", str(ranks)]
    return [str(build / "bin" / "cohort-run"), "-n", str(ranks), "--timeout", str(LIMIT_S), "--"]


def environment(build):
    """Ranks of one core each; what a launcher around this one has left is not theirs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COHORT_", "OMPI_", "PMI"))}
    return {**kept, "PYTHONPATH": str(build / "python"), "OMP_NUM_THREADS": "1", "COHORT_CACHE": "off",
            "OMPI_MCA_plm_rsh_agent": "sh"}


def run_ranks(ranks, build, arguments):
    """The rows that rank 0 wrote."""
    with tempfile.NamedTemporaryFile("r") as rows:
        options = ["--quick"] if arguments.quick else []
        command = [*command_for(ranks, build), sys.executable, str(HERE / "ranks.py"), *options, rows.name]
        subprocess.run([*command, *arguments.only], env=environment(build), timeout=LIMIT_S, check=True)
        return [json.loads(line) for line in rows]


def duration(us):
    return f"{us:.1f} us" if us < 1000 else f"{us / 1e3:.2f} ms" if us < 1e6 else f"{us / 1e6:.2f} s"


def print_table(rows):
    width = max(len(row["what"]) for row in rows)
    for row in rows:
        figures = row["us"]
        cells = [f"{name} {duration(us):>10}" for name, us in figures.items()]
        other = min((us for name, us in figures.items() if name in ("gloo", "mpi4py")), default=None)
        if other is not None and "cohort" in figures:
            cells.append(f"{other / figures['cohort']:6.2f} times as fast")
        if "mapped" in figures:
            views = figures["gloo views"]
            cells.append(f"with views both: {views / figures['cohort views']:6.2f}, in memory that peers map "
                         f"{views / figures['mapped']:6.2f}")
        if "alone" in figures:
            cells.append(f"of gloo's time communication is {1 - figures['hushed'] / figures['gloo']:.0%}, "
                         f"all that training alone does not take {1 - figures['alone'] / figures['gloo']:.0%}")
        print(f"{row['ranks']} ranks  {row['what']:{width}}  " + "   ".join(cells), flush=True)


def main():
    parser = argparse.ArgumentParser(description="measures torch.distributed over cohort and gloo in turn, and the Python "
                                                 "package beside mpi4py; medians, on the slowest rank")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds")
    parser.add_argument("--ranks", type=lambda text: [int(part) for part in text.split(",")], default=[2, 4])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "bench" / "torch.json")
    parser.add_argument("only", nargs="*", help="parts: collectives, lists, floor, training, python; all without")
    arguments = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    rows = []
    for ranks in arguments.ranks:
        found = run_ranks(ranks, arguments.build, arguments)
        print_table(found)
        rows += found
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(f"load {os.getloadavg()[0]:.1f}; all figures: {arguments.out}")
    return 0
