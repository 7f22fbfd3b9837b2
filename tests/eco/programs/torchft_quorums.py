# SPDX-License-Identifier: Apache-2.0
"""torchft's process group of "gloo" or "cohort" through three quorums of ranks 0, 1, 2, then without rank 1, which is killed."""

import os
import signal
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torchft import process_group

RANK, TIMEOUT = int(os.environ["RANK"]), timedelta(seconds=60)
place = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=RANK == 0, wait_for_workers=False)
if sys.argv[1] == "cohort":
    from cohort.torchft import ProcessGroupCohort

    group = ProcessGroupCohort(TIMEOUT)
else:
    group = process_group.ProcessGroupGloo(TIMEOUT)


def configure(number, ranks):
    group.set_rank_info(str(RANK), 0, 1, RANK)
    process_group.reconfigure_with_store(group, f"{place}/quorum/{number}", ranks.index(RANK), len(ranks), TIMEOUT)
    tensor = torch.full((1000,), float(RANK + 1))
    group.allreduce([tensor], process_group.AllreduceOptions()).wait()
    print(f"quorum {number} of {len(ranks)}: {tensor[0].item()} survivors={getattr(group, 'is_made_of_survivors', None)}", flush=True)


for number in range(3):
    configure(number, [0, 1, 2])
if RANK == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    group.allreduce([torch.ones(1000)], process_group.AllreduceOptions()).wait()
except RuntimeError as error:
    print("failed:", str(error).replace("\n", " "), flush=True)
for number in range(3, 12):  # more than names would take that grow with each
    configure(number, [0, 2])
shares = [torch.full((2,), float(RANK)) for _ in range(2)]
out = torch.empty(2)
try:
    group.reduce_scatter([out], [shares], process_group.ReduceScatterOptions()).wait()
    print("shares", out.tolist(), flush=True)
except RuntimeError as error:
    print("shares:", error, flush=True)
store.set(f"done/{RANK}", "")
store.wait([f"done/{rank}" for rank in (0, 2)], TIMEOUT)
