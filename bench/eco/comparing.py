# SPDX-License-Identifier: Apache-2.0
"""Programs of others over cohort and over what they take otherwise, in turn: rows of a table."""

import argparse
import os
import pathlib
import signal
import statistics
import sys

from jax_programs import bench_jax
from mpi_programs import bench_mpi
from turns import FIGURES, Turns

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "eco"))

BYTES = (8, 4096, 1 << 20)
RANKS = (2, 3, 4)
STEPS = 120
PROGRAMS = ("accelerate_loop.py", "fabric_loop.py", "ignite_engine.py", "deepspeed_zero.py 1", "deepspeed_zero.py 3")


def run(ranks, program, *arguments, **variables):
    from support import run_ranks

    results = run_ranks(ranks, program, *arguments, **variables)
    for rank, (status, output) in enumerate(results):
        if status not in (0, -signal.SIGABRT):  # by which gloo sometimes ends with the interpreter
            sys.exit(f"bench eco: rank {rank} of {program} ended with {status}:\n{output}")
    return results[0][1]


def bench_lightgbm(turns, _):
    def seconds(how, ranks):
        output = run(ranks, "lightgbm_data_parallel.py", how, ROUNDS="60", ROWS="20000")
        return float(output.split("seconds ")[1].split()[0])

    for ranks in RANKS:
        ways = {how: lambda how=how: seconds(how, ranks) for how in ("sockets", "cohort")}
        turns.row(f"LightGBM, 60 trees, {ranks} ranks", "s", ways)


def bench_programs(turns, _):
    def ms_of_a_step(program, wanted):
        name, *arguments = program.split()
        output = run(2, name, *arguments, STEPS=str(STEPS), COHORT_TORCH=wanted)
        times = [float(line.split(" at ")[1]) for line in output.splitlines() if line.startswith("loss ")]
        gaps = [after - before for before, after in zip(times, times[1:])]
        return statistics.median(gaps) * 1e3

    for program in PROGRAMS:
        ways = {name: lambda wanted=wanted: ms_of_a_step(program, wanted) for name, wanted in (("gloo", ""), ("cohort", "gloo"))}
        turns.row(f"{program.replace('.py', '')}, a step of 2 ranks", "ms", ways)


def bench_ray(turns, _):
    from support import in_cluster

    with in_cluster(worker_process_setup_hook="cohort.ray.register"):
        import ray

        from ray_worker import Worker

        for ranks in (2, 4):
            actors = [Worker.remote() for _ in range(ranks)]
            for backend in ("GLOO", "COHORT"):
                ray.get([actor.join.remote(ranks, rank, backend) for rank, actor in enumerate(actors)])

            def us(backend, size):
                return max(ray.get([actor.all_reduce_us.remote(backend, size) for actor in actors]))

            for size in BYTES:
                ways = {backend: lambda backend=backend: us(backend, size) for backend in ("GLOO", "COHORT")}
                turns.row(f"ray.util.collective.allreduce, {size} bytes, {ranks} actors", "us", ways)
            for actor in actors:
                ray.kill(actor)


PARTS = {"ray": bench_ray, "lightgbm": bench_lightgbm, "programs": bench_programs, "mpi": bench_mpi, "jax": bench_jax}


def main():
    parser = argparse.ArgumentParser(prog="./run bench eco", description=__doc__)
    parser.add_argument("only", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all of them by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--figure", choices=FIGURES, default="median", help="of the rounds: on a busy machine lowest-third says more")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--mpi-python", type=pathlib.Path, default=ROOT / "build" / "mpi" / "bin" / "python",
                        help="an interpreter with mpi4py and jax")
    parser.add_argument("--environments", type=pathlib.Path, default=ROOT / "build" / "bench" / "peers",
                        help="where MPICH and Open MPI of PyPI go")
    given = parser.parse_args()
    unknown = set(given.only) - set(PARTS)
    if unknown or given.rounds < 1:
        parser.error(f"no such part: {', '.join(sorted(unknown))}" if unknown else "--rounds: at least 1")
    os.environ["COHORT_TEST_BUILD"] = str(given.build)
    print(f"load {os.getloadavg()[0]:.1f} in the beginning, {os.cpu_count()} processors, {given.rounds} rounds, "
          f"{given.figure}\n")
    print("| what | over its own | over cohort | times as fast |\n| --- | --- | --- | --- |", flush=True)
    for name in given.only or PARTS:
        PARTS[name](Turns(given.rounds, given.figure), given)
    print(f"\nload {os.getloadavg()[0]:.1f} in the end")
