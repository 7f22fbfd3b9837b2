# SPDX-License-Identifier: Apache-2.0
"""A rank of a test: all_reduces until it has run for SECONDS, or fails. Prints what came of it as JSON, and its first steps:
nobody reads while another rank is waited for."""

import json
import sys
import time

import cohort
import numpy

COUNT = 64 * 1024
TOLD = 10


def steps(comm, seconds):
    """How many; all ranks stop after the same one."""
    done = 0
    start = time.monotonic()
    while True:
        data = numpy.full(COUNT, comm.rank + done, numpy.float64)
        if not (comm.all_reduce(data) == sum(range(comm.size)) + comm.size * done).all():
            raise ValueError(f"step {done}: a wrong sum")
        done += 1
        late = comm.all_reduce(numpy.array([time.monotonic() - start > seconds], numpy.int32), op="max")
        if late[0]:
            return done
        if done <= TOLD:
            print(json.dumps({"step": done}), flush=True)


try:
    comm = cohort.init()
    print(json.dumps({"end": "ok", "steps": steps(comm, float(sys.argv[1]))}), flush=True)
except cohort.errors.CohortError as error:
    print(json.dumps({"end": error.kind, "culprit": error.rank, "message": str(error)}), flush=True)
