# SPDX-License-Identifier: Apache-2.0
"""A Slurm of its own on hosts that are namespaces (hosts.py): slurmctld on host1, slurmd on each. To be used as a context."""

import os
import pathlib
import shutil
import signal
import subprocess
import time

PATIENCE_S = 60
CONFIGURATION = """
ClusterName=cohort
SlurmctldHost=host1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SlurmctldPort=16817
SlurmdPort=16818
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmdSpoolDir={folder}/spool-%n
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/%n.log
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
PartitionName=all Nodes=host[1-{count}] Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""


class Slurm:
    def __init__(self, hosts, count):
        self._hosts = hosts
        self._count = count
        self._folder = hosts.folder / "slurm"
        self._environment = {"SLURM_CONF": str(self._folder / "slurm.conf")}

    @staticmethod
    def why_not():
        """Why there can be none here, or None."""
        programs = {"srun": "slurm-client", "slurmctld": "slurmctld", "slurmd": "slurmd", "munged": "munge"}
        missing = [package for program, package in programs.items() if not shutil.which(program, path="/usr/sbin:" + os.environ["PATH"])]
        return f"Slurm is not installed: packages {' '.join(missing)}" if missing else None

    def __enter__(self):
        folder = self._folder
        for name in ("state", *(f"spool-host{i}" for i in range(1, self._count + 1))):
            (folder / name).mkdir(parents=True)
        nodes = "".join(f"NodeName=host{i} NodeAddr={self._hosts.address(i)} CPUs=4 RealMemory=1000 State=UNKNOWN\n"
                        for i in range(1, self._count + 1))
        (folder / "slurm.conf").write_text(CONFIGURATION.format(folder=folder, count=self._count) + nodes)
        (folder / "key").write_bytes(os.urandom(1024))
        (folder / "key").chmod(0o600)
        # Its socket is a path, which all hosts share.
        subprocess.run(["/usr/sbin/munged", "--force", "--num-threads=1", "-S", folder / "munge.sock", f"--key-file={folder}/key",
                        f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed"],
                       check=True, timeout=PATIENCE_S)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._hosts.start(1, "slurmctld", "-c", "-D", environment=self._environment, **quiet)
        for i in range(1, self._count + 1):
            self._hosts.start(i, "slurmd", "-D", "-N", f"host{i}", environment=self._environment, **quiet)
        until = time.monotonic() + PATIENCE_S
        while self._idle() != str(self._count):
            if time.monotonic() > until:
                self.__exit__()
                raise RuntimeError(f"Slurm does not come up: {(folder / 'ctld.log').read_text()[-2000:]}")
            time.sleep(0.3)
        return self

    def _idle(self):
        done = self._hosts.outcome(1, "sinfo", "-h", "-t", "idle", "-o", "%D", environment=self._environment)
        return done.stdout.strip()

    def srun(self, *arguments, environment=None, timeout=PATIENCE_S):
        return self._hosts.outcome(1, "srun", *arguments, environment={**self._environment, **(environment or {})}, timeout=timeout)

    def __exit__(self, *_):
        # Those that outlive the daemons that started them work in this folder.
        mine = str(self._folder)
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            try:
                is_own = mine in os.readlink(entry / "cwd") or mine.encode() in (entry / "cmdline").read_bytes()
                if is_own and int(entry.name) != os.getpid():
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                pass
