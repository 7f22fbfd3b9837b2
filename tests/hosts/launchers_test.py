#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks on several hosts that other launchers start find each other: nothing is set but what the launcher sets, and where it
has no channel of its own a secret."""

import os
import pathlib
import secrets
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import hosts as hosts_of_test
from hosts import COMMAND, RUNNER, Hosts
from slurm import Slurm

BENCH = (str(COMMAND), "bench", "all_reduce", "--sizes", "8,64K", "--iters", "3")
LIMIT_S = 90
PROGRAM_OF_TORCH = """
import torch
import torch.distributed as dist
import cohort.torch

dist.init_process_group("cohort")
tensor = torch.ones(3)
dist.all_reduce(tensor)
print("sum", tensor.tolist(), flush=True)
dist.barrier()
dist.destroy_process_group()
"""
ROOT = pathlib.Path(__file__).resolve().parents[2]


class Launchers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        hosts_of_test.require_ssh()
        cls.hosts = Hosts(3)
        cls.hosts.__enter__()
        cls.addClassCleanup(cls.hosts.__exit__)
        cls.hosts.serve_ssh()
        cls.secret = cls.hosts.folder / "job.secret"
        cls.secret.write_text(secrets.token_hex(32))
        cls.secret.chmod(0o600)

    def needed(self, program, package):
        path = shutil.which(program)
        if path is None:
            self.skipTest(f"{program} is not installed: package {package}")
        return path

    def check(self, done, ranks, launcher, how):
        text = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, text)
        self.assertEqual(done.stdout.count(f"# cohort all_reduce: {ranks} processes"), 1, text)
        self.assertRegex(text, f"rank 0 of {ranks} by {launcher} .*, meeting by {how}")

    def test_mpiexec_of_mpich_by_pmi_1(self):
        file = self.hosts.folder / "machines"
        file.write_text("host1:1\nhost2:2\nhost3:1\n")
        done = self.hosts.outcome(1, self.needed("mpiexec.hydra", "mpich"), "-f", file, "-n", "4", "-genv", "COHORT_DEBUG", "info",
                                  *BENCH, timeout=LIMIT_S)
        self.check(done, 4, "MPICH", "PMI-1")

    def test_mpirun_of_open_mpi_by_pmix(self):
        program = self.needed("mpirun.openmpi", "openmpi-bin")
        done = self.hosts.outcome(1, program, "--allow-run-as-root", "--host", "host1:1,host2:2", "-np", "3", "--bind-to", "none",
                                  "-x", "COHORT_DEBUG=info", *BENCH, timeout=LIMIT_S)
        self.check(done, 3, "Open MPI", "PMIx")

    def test_prterun_says_all_by_pmix_alone(self):
        program = self.needed("mpirun.openmpi", "openmpi-bin")
        forget = ["env", "-u", "OMPI_COMM_WORLD_RANK", "-u", "OMPI_COMM_WORLD_SIZE"]
        done = self.hosts.outcome(1, program, "--allow-run-as-root", "--host", "host1,host2", "-np", "2", "--bind-to", "none",
                                  "-x", "COHORT_DEBUG=info", *forget, *BENCH, timeout=LIMIT_S)
        self.check(done, 2, "a launcher that speaks PMIx", "PMIx")

    def start_each(self, places, *command):
        """By hand, on hosts 1 and so on, as an orchestrator does."""
        started = [self.hosts.start(host, *command, environment={"COHORT_DEBUG": "info", **place}, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE) for host, place in places]
        ends = [(process, *process.communicate(timeout=LIMIT_S)) for process in started]
        return subprocess.CompletedProcess(command, max(abs(process.returncode) for process, _, _ in ends),
                                           "".join(output for _, output, _ in ends), "".join(errors for _, _, errors in ends))

    def test_the_environment_of_torchrun(self):
        places = [(host, {"RANK": str(host - 1), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": str(host - 1),
                          "MASTER_ADDR": "host1", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "x",
                          "COHORT_SECRET_FILE": str(self.secret)}) for host in (1, 2)]
        self.check(self.start_each(places, *BENCH), 2, "torch.distributed.run", "the host that it names at host1:")

    def test_torchrun_itself_with_two_ranks_on_each_host(self):
        python = ROOT / "build" / "torch" / "bin" / "python"
        if not python.exists():
            self.skipTest(f"torch is not installed: {python} is not there")
        places = [(host, {"PET_NODE_RANK": str(host - 1), "COHORT_SECRET_FILE": str(self.secret), "OMP_NUM_THREADS": "1"})
                  for host in (1, 2)]
        torchrun = (str(python), "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2", "--master-addr",
                    self.hosts.address(1), "--master-port", "29500", "--no-python")
        self.check(self.start_each(places, *torchrun, *BENCH), 4, "torch.distributed.run", "the host that it names at ")

    def test_a_process_group_of_torch_with_the_job_s_secret(self):
        python = ROOT / "build" / "torch" / "bin" / "python"
        package = hosts_of_test.BUILD / "python"
        if not python.exists() or not (package / "cohort" / "_torch_release.txt").exists():
            self.skipTest(f"torch is not installed in {python}, or its backend is not built in {package}")
        places = [(host, {"RANK": str(host - 1), "WORLD_SIZE": "2", "MASTER_ADDR": "host1", "MASTER_PORT": "29500",
                          "COHORT_SECRET_FILE": str(self.secret), "COHORT_TLS": "on", "PYTHONPATH": str(package),
                          "OMP_NUM_THREADS": "1"}) for host in (1, 2)]
        done = self.start_each(places, str(python), "-c", PROGRAM_OF_TORCH)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("sum [2.0, 2.0, 2.0]"), 2, done.stdout)

    def test_an_indexed_job_of_kubernetes(self):
        places = [(host, {"JOB_COMPLETION_INDEX": str(host - 1), "COHORT_SIZE": "3", "COHORT_ADDR": "host1:29400",
                          "COHORT_SECRET": "0" * 64}) for host in (1, 2, 3)]
        done = self.start_each(places, *BENCH)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("# cohort all_reduce: 3 processes"), 1)
        self.assertIn("rank 2 by an Indexed Job of Kubernetes (JOB_COMPLETION_INDEX)", done.stderr)

    def test_pods_of_kubeflow_with_one_process_each(self):
        places = [(host, {"PET_NNODES": "2", "PET_NODE_RANK": str(host - 1), "PET_NPROC_PER_NODE": "1", "PET_MASTER_ADDR": "host1",
                          "RANK": str(host - 1), "WORLD_SIZE": "2", "COHORT_SECRET_FILE": str(self.secret)}) for host in (1, 2)]
        self.check(self.start_each(places, *BENCH), 2, "Kubeflow", "the host that it names at host1:")

    def test_pods_of_kubeflow_with_several_ranks_each(self):
        places = [(host, {"RANK": str(host - 1), "WORLD_SIZE": "2", "NPROC_PER_NODE": "2", "MASTER_ADDR": "host1", "MASTER_PORT": "23456",
                          "KUBERNETES_PORT": "tcp://10.0.0.1:443", "COHORT_SECRET_FILE": str(self.secret)}) for host in (1, 2)]
        done = self.start_each(places, "sh", "-c", 'exec "$0" -n $NPROC_PER_NODE --nodes $WORLD_SIZE --node-rank $RANK --no-prefix -- "$@"',
                               RUNNER, *BENCH)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("# cohort all_reduce: 4 processes"), 1, done.stdout)

    def test_a_rank_table(self):
        table = self.hosts.folder / "table.json"
        servers = ",".join(f'{{"server_id":"h{host}","device":[{{"device_id":"0","device_ip":"{self.hosts.address(host)}",'
                           f'"rank_id":"{host - 1}"}}]}}' for host in (1, 2, 3))
        table.write_text(f'{{"version":"1.0","status":"completed","server_count":"3","server_list":[{servers}]}}')
        places = [(host, {"COHORT_RANK_TABLE": str(table), "COHORT_SECRET_FILE": str(self.secret)}) for host in (3, 2, 1)]
        self.check(self.start_each(places, *BENCH), 3, "a rank table", "the table's address")


class SrunOnFourNodes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        hosts_of_test.require()
        if reason := Slurm.why_not():
            raise unittest.SkipTest(reason)
        cls.hosts = Hosts(4)
        cls.hosts.__enter__()
        cls.addClassCleanup(cls.hosts.__exit__)
        cls.slurm = Slurm(cls.hosts, 4)
        cls.slurm.__enter__()
        cls.addClassCleanup(cls.slurm.__exit__)
        cls.secret = cls.hosts.folder / "job.secret"
        cls.secret.write_text(secrets.token_hex(32))
        cls.secret.chmod(0o600)

    def srun(self, *arguments, **variables):
        return self.slurm.srun(*arguments, *BENCH, environment={"COHORT_DEBUG": "info", **variables}, timeout=LIMIT_S)

    def check(self, done, ranks, how):
        text = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, text)
        self.assertEqual(done.stdout.count(f"# cohort all_reduce: {ranks} processes"), 1, text)
        self.assertRegex(text, f"rank 0 of {ranks} by Slurm .*, meeting by {how}")

    def test_pmix(self):
        if not list(pathlib.Path("/usr/lib").glob("*/pmix2/lib/libpmix.so")):
            self.skipTest("libpmix-dev is not installed, whose name of the library Slurm looks for")
        self.check(self.srun("-N4", "-n8", "--mpi=pmix"), 8, "PMIx")

    def test_pmi_2_answers_pmi_1(self):
        self.check(self.srun("-N4", "-n5", "--mpi=pmi2"), 5, "PMI-1")

    def test_no_mpi_at_all_and_a_secret(self):
        self.check(self.srun("-N3", "-n3", "--mpi=none", COHORT_SECRET_FILE=str(self.secret)), 3, "the host that it names at host1:")

    def test_no_mpi_and_no_secret_says_what_is_missing(self):
        done = self.srun("-N2", "-n2", "--mpi=none")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("COHORT_SECRET_FILE=FILE", done.stderr)

    def test_one_host_needs_nothing(self):
        self.check(self.srun("-N1", "-n2", "--mpi=none"), 2, "an address of this host")


if __name__ == "__main__":
    unittest.main(verbosity=2)
