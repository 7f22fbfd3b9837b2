# SPDX-License-Identifier: Apache-2.0
"""Starts programs of several ranks as torch.distributed.run does, and keeps what each rank says."""

import contextlib
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(os.environ["COHORT_TEST_BUILD"])


def environment(**more):
    """The tests' own, without what a launcher around them has left."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COHORT_", "OMPI_", "PMI", "RAY_"))}
    return {**kept, "PYTHONPATH": f"{BUILD / 'python'}:{HERE / 'programs'}", "COHORT_TEST_BUILD": str(BUILD),
            "COHORT_CACHE": "off", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **more}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_ranks(ranks, program, *arguments, limit_s=300, **variables):
    """A file of programs/, on so many ranks: [(status, output and errors)]. A rank that lives after the limit is killed."""
    command = [sys.executable, str(HERE / "programs" / program), *arguments]
    ports = [free_port() for _ in range(ranks)]
    shared = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": str(free_port()), "PORTS": ",".join(map(str, ports)), **variables}
    with tempfile.TemporaryDirectory() as folder:
        outputs = [open(os.path.join(folder, str(rank)), "w+", encoding="utf-8", errors="replace") for rank in range(ranks)]
        processes = [subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                                      env=environment(RANK=str(rank), LOCAL_RANK=str(rank), **shared))
                     for rank, output in enumerate(outputs)]
        try:
            statuses = [process.wait(limit_s) for process in processes]
        finally:
            for process in processes:
                process.kill()
        results = []
        for status, output in zip(statuses, outputs):
            output.seek(0)
            results.append((status, output.read()))
            output.close()
        return results


def losses_of(output):
    return [float(value) for value in re.findall(r"^loss \d+ (\S+)$", output, re.MULTILINE)]


@contextlib.contextmanager
def in_cluster(**runtime_env):
    """Ray on this machine, at its loopback address. It takes longer to begin than Ray waits for, where others compile."""
    for name in list(os.environ):
        if name.startswith(("COHORT_", "RAY_")) and name != "COHORT_TEST_BUILD":
            del os.environ[name]
    os.environ.update(environment(), RAY_agent_register_timeout_ms="300000", RAY_raylet_start_wait_time_s="300",
                      RAY_USAGE_STATS_ENABLED="0", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0")
    import ray

    ray.init(num_cpus=4, include_dashboard=False, _node_ip_address="127.0.0.1", object_store_memory=100 << 20,
             log_to_driver=False, logging_level="error", runtime_env=runtime_env)
    try:
        yield
    finally:
        ray.shutdown()
