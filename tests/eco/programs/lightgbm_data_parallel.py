# SPDX-License-Identifier: Apache-2.0
"""LightGBM's data-parallel learner on this rank's share of random rows: over its own "sockets", or over "cohort"."""

import hashlib
import os
import signal
import sys
import threading
import time

import lightgbm
import numpy

from victim import may_die

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ROUNDS, ROWS = int(os.environ.get("ROUNDS", 20)), int(os.environ.get("ROWS", 4000))
parameters = {"objective": "regression", "tree_learner": "data", "num_machines": SIZE, "pre_partition": True, "verbose": -1,
              "num_threads": 1, "num_leaves": 31, "deterministic": True, "boost_from_average": False}
comm = None
if sys.argv[1] == "cohort":
    import cohort.lightgbm

    comm = cohort.lightgbm.init()
else:
    ports = os.environ["PORTS"].split(",")
    parameters.update(machines=",".join(f"127.0.0.1:{port}" for port in ports), local_listen_port=int(ports[RANK]))


def at_a_round(env):
    may_die(env.iteration)
    if str(env.iteration) == os.environ.get("INTERRUPT_AT"):
        if RANK == 0:  # it waits for rank 1, which waits for nobody
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        else:
            until = time.monotonic() + 60
            while comm.failure is None and time.monotonic() < until:
                time.sleep(0.01)


generator = numpy.random.default_rng(0)
rows = generator.standard_normal((ROWS, 20))
wanted = rows[:, 0] * 2 + numpy.sin(rows[:, 1]) + generator.standard_normal(ROWS) * 0.1
wanted *= 10 ** generator.uniform(-9, 9, ROWS)  # sums whose last bits depend on their order
data = lightgbm.Dataset(rows[RANK::SIZE], wanted[RANK::SIZE], params=parameters)
began = time.perf_counter()
try:
    booster = lightgbm.train(parameters, data, num_boost_round=ROUNDS, callbacks=[at_a_round])
except lightgbm.basic.LightGBMError:
    print("failure:", comm.failure.rank, flush=True)
    raise
print("seconds", time.perf_counter() - began)
print("model", hashlib.sha256(booster.model_to_string().split("parameters:")[0].encode()).hexdigest(), flush=True)
