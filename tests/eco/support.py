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
import time

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(os.environ["COHORT_TEST_BUILD"])


def environment(**more):
    """The tests' own, without what a launcher around them has left."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COHORT_", "OMPI_", "PMI"))}
    return {**kept, "PYTHONPATH": f"{BUILD / 'python'}:{HERE / 'programs'}", "COHORT_TEST_BUILD": str(BUILD),
            "COHORT_CACHE": "off", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **more}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_ranks(ranks, program, *arguments, limit_s=300, **variables):
    """A file of programs/, or of that path, on so many ranks: [(status, output and errors)]. Ranks that live after the limit are
    killed."""
    command = [sys.executable, str(HERE / "programs" / program), *arguments]
    ports = [free_port() for _ in range(ranks)]
    shared = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": str(free_port()), "PORTS": ",".join(map(str, ports)), **variables}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as files:
        outputs = [files.enter_context(open(os.path.join(folder, str(rank)), "w+", encoding="utf-8", errors="replace"))
                   for rank in range(ranks)]
        processes = [subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                                      env=environment(RANK=str(rank), LOCAL_RANK=str(rank), **shared))
                     for rank, output in enumerate(outputs)]
        until = time.monotonic() + limit_s
        try:
            for process in processes:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0, until - time.monotonic()))
        finally:
            for process in processes:
                process.kill()
        statuses = [process.wait() for process in processes]
        for output in outputs:
            output.seek(0)
        return [(status, output.read()) for status, output in zip(statuses, outputs)]


def losses_of(output):
    """Those that the program told, of each step once: Ray Train shows some lines twice."""
    return list({step: float(value) for step, value in re.findall(r"\bloss (\d+) (\S+) at ", output)}.values())


@contextlib.contextmanager
def in_cluster(**runtime_env):
    """Ray on this machine, for this process and those that it starts. Ray gives its own processes some seconds to begin, which
    they do not keep where others compile: again, then."""
    for name in list(os.environ):
        if name.startswith(("COHORT_", "RAY_")) and name != "COHORT_TEST_BUILD":
            del os.environ[name]
    os.environ.update(environment(RAY_USAGE_STATS_ENABLED="0", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0"))
    import ray

    for turns_left in reversed(range(8)):
        try:
            ray.init(num_cpus=8, include_dashboard=False, object_store_memory=100 << 20, logging_level="error",
                     log_to_driver=False, runtime_env=runtime_env)
            break
        except Exception:
            ray.shutdown()
            if turns_left == 0:
                raise
    try:
        os.environ["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address
        yield
    finally:
        ray.shutdown()
