# SPDX-License-Identifier: Apache-2.0
"""`python3 bench/graph --help`, and `python3 bench/graph bars --help`; ./run bench graph builds everything first."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIMIT_S = 1800


def environment(build):
    """Ranks of one core each; what a launcher around this one has left is not theirs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COHORT_", "OMPI_", "PMI"))}
    return {**kept, "PYTHONPATH": f"{build / 'python'}:{ROOT / 'samples'}", "OMP_NUM_THREADS": "1", "COHORT_CACHE": "off"}


def run_ranks(arguments):
    """The rows that rank 0 wrote."""
    with tempfile.NamedTemporaryFile("r") as rows:
        runner = [str(arguments.build / "bin" / "cohort-run"), "-n", str(arguments.ranks), "--timeout", str(LIMIT_S), "--"]
        options = ["--rounds", str(arguments.rounds), "--steps", str(arguments.steps), "--dim", str(arguments.dim),
                   "--layers", str(arguments.layers), "--batch", str(arguments.batch)]
        subprocess.run([*runner, sys.executable, str(HERE / "ranks.py"), *options, rows.name], env=environment(arguments.build),
                       timeout=LIMIT_S + 60, check=True)
        return [json.loads(line) for line in rows]


def print_table(rows):
    print(f"{'program':<36}{'step (ms)':>11}{'of DDP, gloo':>14}{'communication':>15}{'exposed':>10}{'bound':>10}{'predicted':>11}")
    base = next(row["step_ms"] for row in rows if row["program"] == "DistributedDataParallel, gloo")
    for row in rows:
        cells = [f"{row[key]:.2f}" if row.get(key) is not None else "" for key in
                 ("communication_ms", "exposed_ms", "bound_ms", "predicted_ms")]
        print(f"{row['program']:<36}{row['step_ms']:>11.2f}{row['step_ms'] / base:>14.2f}{cells[0]:>15}{cells[1]:>10}{cells[2]:>10}"
              f"{cells[3]:>11}")


def main():
    if sys.argv[1:2] == ["bars"]:
        import bars

        return bars.main(sys.argv[2:])
    parser = argparse.ArgumentParser(description="steps of training a language model: DistributedDataParallel over gloo and over "
                                                 "cohort, and the strategies of cohort.graph, in rounds that alternate")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10, help="of a round, for each program")
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=4, help="windows of 64 bytes, on each rank")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--json", action="store_true", help="rows as JSON")
    arguments = parser.parse_args()
    rows = run_ranks(arguments)
    if arguments.json:
        print("\n".join(map(json.dumps, rows)))
    else:
        print_table(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
