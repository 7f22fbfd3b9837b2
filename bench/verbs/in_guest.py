# SPDX-License-Identifier: Apache-2.0
"""Runs in the guest: in_guest.py PROGRAMS-FOLDER ROUNDS [ONLY]. Prints a line for each figure: figure;ROUND;NAME;PROGRAM;VALUE, and
`missing: WHAT: WHY`. All programs run one after the other in every round."""

import os
import pathlib
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from verbs import figures  # noqa: E402

DEVICE = "rxe0"
GID_INDEX = "1"
LIMIT_S = 120
# perftest looks without pause, so an engine that is compared by latency does, too.
AWAKE = {"COHORT_SPIN_US": "1000000"}
UCX_TRANSPORTS = ("rc_verbs,ud_verbs,self", "rc_verbs,tcp,self", "ud_verbs,self")


class Failed(Exception):
    """A program gives no figure; the text says why."""


def run(*argv, **environment):
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False,
                              env={**os.environ, **environment})
    except subprocess.TimeoutExpired:
        raise Failed(f"not done after {LIMIT_S} s") from None
    except OSError as error:
        raise Failed(str(error)) from None
    if done.returncode != 0:
        said = (done.stderr + done.stdout).strip().splitlines() or ["nothing"]
        raise Failed(f"status {done.returncode}: {said[0]}")
    return done.stdout


def perftest(program, bytes_, iterations, *options):
    argv = [program, "-d", DEVICE, "-x", GID_INDEX, "-F", "-s", str(bytes_), "-n", str(iterations), *options]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            time.sleep(1)  # nothing tells when it listens
            return run(*argv, "127.0.0.1")
        finally:
            server.kill()


class Programs:
    def __init__(self, folder):
        self._folder = pathlib.Path(folder)
        self._transports = list(UCX_TRANSPORTS)

    def link(self, step, bytes_, counter, in_flight=1, **environment):
        return self._link_bench(f"verbs_link/step:{step}/bytes:{bytes_}/lanes:1/in_flight:{in_flight}/", counter, **environment)

    def stream(self, bytes_, counter):
        return self._link_bench(f"verbs_stream/bytes:{bytes_}/", counter)

    def _link_bench(self, name, counter, **environment):
        text = run(str(self._folder / "link_bench"), f"--benchmark_filter={name}",
                   "--benchmark_min_time=0.5", "--benchmark_format=csv", **environment)
        value = figures.counter_of_link_bench(text, counter)
        if not value:
            raise Failed("no figure")
        return float(value)

    def cohort(self, bytes_):
        text = run(str(self._folder / "cohort"), "bench", "all_reduce", "--ranks", "2", "--transport", "verbs", "--sizes",
                   str(bytes_), "--budget-ms", "500", "--no-pin", "--csv", **AWAKE)
        return figures.median_of_rows(text, bytes_)

    def openmpi(self, bytes_):
        """By the first of UCX's transports that runs."""
        while self._transports:
            try:
                text = run("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ucx",
                           "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any", "-n", "2",
                           str(self._folder / "peer_openmpi"), "--transport", "rdma", "--collectives", "all_reduce",
                           "--sizes", str(bytes_), "--budget-ms", "500", UCX_TLS=self._transports[0])
                return figures.median_of_rows(text, bytes_)
            except Failed as why:
                print(f"missing: openmpi over UCX_TLS={self._transports.pop(0)}: {why}", flush=True)
        raise Failed("Open MPI does not run over UCX on this device")

    def bandwidth(self, bytes_, in_flight, pairs=1):
        """In MiB/s, of a link whose connection has so many queue pairs."""
        rate = self.link(3, bytes_, "GB/s", in_flight=in_flight, COHORT_IB_QPS_PER_CONNECTION=str(pairs))
        return rate * 1e9 / figures.MEBI

    def measurements_of_pairs(self):
        for stream, bytes_, in_flight in figures.PAIRS_STREAMS:
            for pairs in figures.SEVERAL_PAIRS:
                name = figures.name_of_pairs(stream, pairs)
                yield name, "1 pair", lambda b=bytes_, n=in_flight: self.bandwidth(b, n)
                yield name, f"{pairs} pairs", lambda b=bytes_, n=in_flight, p=pairs: self.bandwidth(b, n, p)

    def measurements(self):
        """(figure, program, how to measure it)"""
        # The stream alone, and a link on an engine that does not sleep, each beside a run of its own.
        own = (("stream", self.stream), ("link", lambda *of: self.link(4, *of, **AWAKE)))
        for program, measure in own:
            name = f"latency of a {program}, 8 B"
            yield name, "ib_write_lat", lambda: figures.latency_of_perftest(perftest("ib_write_lat", 8, 1000), 8)
            yield name, program, lambda m=measure: m(8, "median_us") / 2
            yield (f"{name}, the fastest tenth", "ib_write_lat",
                   lambda: figures.fastest_tenth_of_perftest(perftest("ib_write_lat", 8, 1000, "-H")))
            yield f"{name}, the fastest tenth", program, lambda m=measure: m(8, "p10_us") / 2
        # As many messages in flight as perftest has, 128 or what its -t says, but of 1 MiB 16, beside 50.
        for name, bytes_, in_flight, iterations, *depth in (
                ("64 KiB", 64 << 10, 128, 500), ("64 KiB, one in flight", 64 << 10, 1, 500, "-t", "1"),
                ("1 MiB", 1 << 20, 16, 50)):
            yield (f"bandwidth, {name}", " ".join(("ib_write_bw", *depth)),
                   lambda b=bytes_, n=iterations, d=depth: figures.bandwidth_of_perftest(perftest("ib_write_bw", b, n, *d), b))
            yield (f"bandwidth, {name}", "link",
                   lambda b=bytes_, n=in_flight: self.bandwidth(b, n))
        yield from self.measurements_of_pairs()
        for name, bytes_ in (("8 B", 8), ("1 MiB", 1 << 20)):
            yield f"all_reduce, {name}", "openmpi", lambda b=bytes_: self.openmpi(b)
            yield f"all_reduce, {name}", "cohort", lambda b=bytes_: self.cohort(b)


def main():
    programs = Programs(sys.argv[1])
    only = sys.argv[3] if len(sys.argv) > 3 else ""
    for turn in range(int(sys.argv[2])):
        for figure, program, measure in programs.measurements():
            if only not in figure:
                continue
            try:
                value = measure()
                print(f"figure;{turn};{figure};{program};{value}" if value else f"missing: {program}: no figure", flush=True)
            except Failed as why:
                print(f"missing: {figure} of {program}: {why}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
