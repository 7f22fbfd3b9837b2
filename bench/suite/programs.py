# SPDX-License-Identifier: Apache-2.0
"""The programs that are compared: each library with each of its best settings, and cohort in its variants.

bench/README.md says why these settings. `label` is what a program prints as its transport; the part before '-' is the
transport of the cell.
"""

import dataclasses
import os
import pathlib
import shlex

FOLDER = pathlib.Path(__file__).resolve().parents[1]
TORCH_PYTHON = FOLDER.parent / "build/torch/bin/python"  # as `./run torch` makes it
SPINS = "spins without yielding: milliseconds per operation where ranks outnumber cores (--all-settings measures it)"


class Unusable(Exception):
    """A program gives no figure; the text says why, for a footnote."""


@dataclasses.dataclass(frozen=True)
class Program:
    peer: str
    label: str
    command: object  # (ranks, cores) -> argv up to the program's own options, extra environment
    settings: str  # for the report
    refuses: object = lambda ranks, cores: None  # why it need not be tried, or None
    takes_many: bool = True  # operators in one launch

    @property
    def name(self):
        return f"{self.peer}/{self.label}"

    @property
    def transport(self):
        return self.label.split("-")[0]

    @property
    def is_cohort(self):
        return self.peer == "cohort"


@dataclasses.dataclass(frozen=True)
class Launch:
    """One start of a program: all sizes of some operators."""

    program: Program
    operators: tuple
    ranks: int
    sizes: tuple

    def __str__(self):
        what = self.operators[0] if len(self.operators) == 1 else f"{len(self.operators)} operators"
        return f"{self.program.name} {what}, {self.ranks} ranks"


def openmpi(mca, environment=None, yields=None):
    def command(ranks, cores):
        argv = ["mpirun.openmpi"] + (["--allow-run-as-root"] if os.geteuid() == 0 else [])
        fits = ranks <= cores
        argv += ["--bind-to", "core"] if fits else ["--oversubscribe", "--bind-to", "none"]
        gives_way = not fits if yields is None else yields
        argv += shlex.split(mca) + ["--mca", "mpi_yield_when_idle", str(int(gives_way))]
        return argv + ["-n", str(ranks), "peer_openmpi"], environment or {}

    return command


def mpich(environment=None):
    def command(ranks, cores):
        binding = ["-bind-to", "core"] if ranks <= cores else []
        return ["mpiexec.mpich", *binding, "-n", str(ranks), "peer_mpich"], environment or {}

    return command


def own_ranks(binary, environment=None):
    """A program that starts its ranks itself."""
    return lambda ranks, _cores: ([*shlex.split(binary), "--ranks", str(ranks)], environment or {})


def cohort(options):
    return lambda ranks, _cores: (["cohort", "bench", "--ranks", str(ranks), *shlex.split(options)], {})


def only_with_cores(ranks, cores):
    return SPINS if ranks > cores else None


def same_without_cores(ranks, cores):
    return "openmpi/tcp yields too where ranks outnumber cores" if ranks > cores else None


VADER = "--mca pml ob1 --mca btl vader,self"
UCX = "--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any"
TCP = "--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo"
MPICH_TCP = {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}
TORCH = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
ONECCL = {"CCL_ATL_TRANSPORT": "ofi", "CCL_WORKER_OFFLOAD": "0", "CCL_YIELD": "pause", "CCL_LOG_LEVEL": "error"}
ONECCL_SHM = {**ONECCL, "CCL_ATL_SHM": "1"}
ONECCL_TCP = {**ONECCL, "CCL_ATL_SHM": "0", "FI_PROVIDER": "tcp"}


def text_of(environment, more=""):
    return " ".join([*(f"{name}={value}" for name, value in environment.items()), more]).strip()


PROGRAMS = (
    Program("openmpi", "shm", openmpi(VADER), VADER),
    Program("openmpi", "shm-ucx", openmpi(UCX, {"UCX_TLS": "sm,self"}), "UCX_TLS=sm,self " + UCX),
    Program("mpich", "shm", mpich(), "-bind-to core", only_with_cores),
    Program("oneccl", "shm", own_ranks("peer_oneccl", ONECCL_SHM), text_of(ONECCL_SHM), only_with_cores),
    Program("cohort", "shm", cohort("--transport shm"), "private buffers", takes_many=False),
    Program("cohort", "shm-shared", cohort("--transport shm --shared"), "buffers of comm.allocate()",
            takes_many=False),
    Program("cohort", "shm-threads", cohort("--transport shm --threads"), "ranks are threads of one process",
            takes_many=False),
    Program("openmpi", "tcp", openmpi(TCP), TCP),
    Program("openmpi", "tcp-yield", openmpi(TCP, yields=True), TCP + " --mca mpi_yield_when_idle 1",
            same_without_cores),
    Program("mpich", "tcp", mpich(MPICH_TCP), text_of(MPICH_TCP), only_with_cores),
    Program("oneccl", "tcp", own_ranks("peer_oneccl", ONECCL_TCP), text_of(ONECCL_TCP), only_with_cores),
    Program("gloo", "tcp", own_ranks("peer_gloo"), "asynchronous API, full mesh over lo"),
    Program("gloo", "tcp-busy", own_ranks("peer_gloo"), "older classes, setSync(true, true)", only_with_cores),
    Program("torch", "tcp", own_ranks("peer_torch", TORCH), text_of(TORCH, "backend gloo, one thread")),
    Program("cohort", "tcp", cohort("--transport tcp"), "private buffers", takes_many=False),
)


def binary_of(program):
    return "cohort" if program.is_cohort else f"peer_{program.peer}"


def check(program, folder):
    """Throws Unusable if the program is not there."""
    binary = binary_of(program)
    if program.peer == "torch":
        if not TORCH_PYTHON.exists() or not (folder / "libpeer_method.so").exists():
            raise Unusable("needs build/torch, which ./run torch makes, and libpeer_method.so of the build")
    elif not (folder / binary).exists():
        raise Unusable(f"{binary} is not built: is the library installed?")


def command_line(launch, options):
    """What to start, and with which environment. Throws Unusable."""
    program = launch.program
    reason = program.refuses(launch.ranks, options.cores)
    if reason and not options.all_settings:
        raise Unusable(reason)
    check(program, options.bin)
    argv, environment = program.command(launch.ranks, options.cores)
    sizes = ",".join(map(str, launch.sizes))
    if program.is_cohort:
        argv[2:2] = launch.operators
        argv += ["--csv", "--sizes", sizes, "--budget-ms", str(options.budget_ms), "--near-wait",
                 str(options.near_wait_ms), *(["--no-rewrite"] if options.no_rewrite else [])]
        argv += shlex.split(options.cohort_args)
    else:
        argv += ["--transport", program.label, "--collectives", ",".join(launch.operators), "--sizes", sizes,
                 "--budget-ms", str(options.budget_ms), "--near-wait-ms", str(options.near_wait_ms),
                 "--start", options.start, "--timeout-s", str(int(options.timeout) + 5)]
        argv += ["--no-rewrite"] if options.no_rewrite else []
    binary = binary_of(program)
    if program.peer == "torch":
        place = [str(TORCH_PYTHON), str(FOLDER / "peers/torch_bench.py"), str(options.bin / "libpeer_method.so")]
    else:
        place = [str(options.cohort if program.is_cohort else options.bin / binary)]
    at = argv.index(binary)
    return argv[:at] + place + argv[at + 1:], environment
