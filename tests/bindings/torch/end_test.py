# SPDX-License-Identifier: Apache-2.0
"""An interpreter that ends leaves its process groups: no crash, no hang, and the other ranks are told."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))

from launchers import launch

# Rank 0 ends while its call waits for rank 1, which calls once the other interpreter is half gone: whoever asks for its
# lock then is ended on the spot, and with it a process whose thread may not be.
HALF_GONE = """
import os, sys, time
import cohort.torch, torch, torch.distributed as dist

marker = sys.argv[1]

class Slow:
    def __del__(self, mark=os.mkdir, sleep=time.sleep, marker=marker):
        mark(marker)
        sleep(1)

cohort.torch.init_process_group()
tensor = torch.ones(4)
if dist.get_rank() == 0:
    slow = Slow()
    future = dist.all_reduce(tensor, async_op=True).get_future().then(lambda done: print("too late"))
    del tensor
else:
    deadline = time.monotonic() + 60
    while not os.path.exists(marker) and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        dist.all_reduce(tensor)
    except RuntimeError as error:
        print("told:", error, flush=True)
"""

BY_EXCEPTION = """
import cohort.torch, torch, torch.distributed as dist

cohort.torch.init_process_group()
if dist.get_rank() == 0:
    raise KeyError("no such image")
try:
    dist.all_reduce(torch.ones(4))
except RuntimeError as error:
    print("told:", error, flush=True)
"""

DESTROYED_LATE = """
import atexit, sys

@atexit.register
def last():
    dist.destroy_process_group()
    print("destroyed", flush=True)

import cohort.torch, torch, torch.distributed as dist

cohort.torch.init_process_group()
with cohort.torch.mapped_tensors():
    tensor = torch.ones(1 << 20)
dist.all_reduce(tensor)
group = dist.new_group([0, 1])
dist.all_reduce(tensor, group=group, async_op=True).get_future().then(lambda done: print("told", flush=True)).wait()
"""


# Ranks are children of a process that has imported everything, as launchers of tests make them.
FORKED = """
import os, sys
import cohort.torch, torch, torch.distributed as dist

if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
cohort.torch.init_process_group()
if dist.get_rank() == 0:
    raise KeyError("no such image")
try:
    dist.all_reduce(torch.ones(4))
except RuntimeError as error:
    print("told:", error, flush=True)
"""

WITH_A_THREAD = """
import threading, time
import cohort.torch, torch, torch.distributed as dist

class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(0.5)

cohort.torch.init_process_group()
slow = Slow()
if dist.get_rank() == 0:
    threading.Thread(target=dist.recv, args=(torch.ones(4), 1), daemon=True).start()
    time.sleep(0.2)
else:
    try:
        dist.barrier()
    except RuntimeError as error:
        print("told:", error, flush=True)
"""

JOINED_AT_THE_END = """
import atexit, threading

threads = []

@atexit.register
def last():
    for thread in threads:
        thread.join()
    print("all is joined", flush=True)

import cohort.torch, torch, torch.distributed as dist

cohort.torch.init_process_group()
threads.append(threading.Thread(target=dist.recv, args=(torch.ones(4), 1 - dist.get_rank()), daemon=True))
threads[0].start()
"""

INTERRUPTED = """
import os, signal, sys, threading, time
import cohort.torch, torch, torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

marker = sys.argv[2]
cohort.torch.init_process_group()

def backward(hook=None):
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    if hook is not None:
        model.register_comm_hook(None, hook)
    loss = model(torch.ones(1, 4)).sum()
    return lambda model=model: loss.backward()  # which communicates as long as there is the model

wait = {"call": lambda: dist.all_reduce(torch.ones(4)), "monitored": cohort.torch.monitored_barrier}.get(sys.argv[1])
if wait is None:
    wait = {"backward": backward, "hook": lambda: backward(fp16_compress_hook)}[sys.argv[1]]()
if dist.get_rank() == 0:
    try:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        wait()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        os.mkdir(marker)
else:
    deadline = time.monotonic() + 60
    while not os.path.exists(marker) and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        wait()
    except RuntimeError as error:
        print("told:", error, flush=True)
"""

IN_A_GROUP = """
import cohort.torch, torch, torch.distributed as dist

cohort.torch.init_process_group()
dist.new_group([0, 1])
group = dist.new_group([1, 2])
if dist.get_rank() == 1:
    try:
        dist.all_reduce(torch.ones(3), group=group)
    except RuntimeError as error:
        print("told:", error, flush=True)
elif dist.get_rank() == 2:
    try:
        dist.all_reduce(torch.ones(4), group=group)
    except RuntimeError as error:
        pass
"""


class End(unittest.TestCase):
    def test_with_a_thread_that_waits(self):
        status, output = launch("cohort run", 2, WITH_A_THREAD)
        self.assertEqual(status, 0, output)
        self.assertIn("told: ", output)

    def test_with_a_thread_that_a_handler_joins(self):
        status, output = launch("cohort run", 2, JOINED_AT_THE_END)
        self.assertEqual(status, 0, output)
        self.assertEqual(output.count("all is joined"), 2, output)

    def test_ctrl_c_in_a_call(self):
        for how in ("call", "monitored", "backward", "hook"):
            with self.subTest(how), tempfile.TemporaryDirectory() as folder:
                status, output = launch("cohort run", 2, INTERRUPTED, how, str(pathlib.Path(folder) / "marker"))
                self.assertEqual(status, 0, output)
                self.assertIn("interrupted", output)
                self.assertRegex(output, r"told: .*rank 0")

    def test_errors_of_a_group_name_it_and_ranks_of_the_world(self):
        output = launch("cohort run", 3, IN_A_GROUP)[1]
        self.assertRegex(output, r"told: .*'torch/2'.*rank 1 of 'torch/2' is rank 2 of the world")

    def test_amid_a_call_that_another_rank_makes_later(self):
        with tempfile.TemporaryDirectory() as folder:
            status, output = launch("cohort run", 2, HALF_GONE, str(pathlib.Path(folder) / "marker"))
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"(?s)told: .*rank 0 .*closed by this rank")

    def test_by_an_exception(self):
        status, output = launch("cohort run", 2, BY_EXCEPTION)
        self.assertEqual(status, 1, output)
        self.assertRegex(output, r"(?s)told: .*KeyError: 'no such image'")

    def test_of_a_child_that_is_a_rank(self):
        status, output = launch("cohort run", 2, FORKED)
        self.assertEqual(status, 1, output)
        self.assertRegex(output, r"(?s)told: .*KeyError: 'no such image'")

    def test_before_groups_are_destroyed(self):
        status, output = launch("cohort run", 2, DESTROYED_LATE)
        self.assertEqual(status, 0, output)
        self.assertEqual(output.count("destroyed"), 2, output)
        self.assertEqual(output.count("told"), 2, output)


if __name__ == "__main__":
    unittest.main()
