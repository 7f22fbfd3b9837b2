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
        dist.barrier()  # what rank 0 had given may have been all that the call needs of it
    except RuntimeError as error:
        print("told:", error, flush=True)
"""

# Rank 1 does not come to make a group, neither to the store nor, where it does, to the place that this says.
INTERRUPTED_AMID_A_GROUP = """
import os, signal, sys, threading, time
import cohort.torch, torch.distributed as dist

cohort.torch.init_process_group()
if dist.get_rank() == 0:
    try:
        began = time.monotonic()
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        dist.new_group()  # which would wait for minutes
    except KeyboardInterrupt:
        assert time.monotonic() - began < 5
        print("interrupted", flush=True)
        os.mkdir(sys.argv[2])
else:
    if sys.argv[1] == "group that meets":
        cohort.torch._torch.create_within = None  # which cannot be called
        try:
            dist.new_group()
        except TypeError:
            pass
    deadline = time.monotonic() + 60
    while not os.path.exists(sys.argv[2]) and time.monotonic() < deadline:
        time.sleep(0.01)
"""

# What comes after a call is made by whoever drove it: here by rank 0's session, into a tensor that takes its time.
COPIED_SLOWLY = """
import os, signal, threading
from datetime import timedelta
import cohort.torch, torch, torch.distributed as dist

class Slow(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), options=None):
        if function is torch.ops.aten.copy_.default and dist.get_rank() == 0:
            begun.set()
            assert let.wait(60)
        plain = torch._C._DisableTorchDispatch()  # as long as it lives
        try:
            return function(*arguments, **(options or {}))
        finally:
            del plain

begun, let = threading.Event(), threading.Event()
cohort.torch.init_process_group()
place = torch.empty(100_000, 2)[:, 0]
places = [torch.Tensor._make_subclass(Slow, place), torch.empty(100_000)]
store = dist.distributed_c10d._get_default_store()
if dist.get_rank() == 1:
    store.wait(["made"])  # by rank 0, whose own thread is back from it
work = dist.all_gather(places, torch.ones(100_000), async_op=True)
if dist.get_rank() == 0:
    store.set("made", "")
    assert begun.wait(60)
    try:
        work.wait(timedelta(seconds=0.3))
    except RuntimeError as error:
        assert "Timed out" in str(error), error
        print("late", flush=True)
    try:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        work.wait()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    let.set()
work.wait()
assert (place == 1).all()
"""

# The same where it fails: the interpreter's error lies with the thread that copied.
COPIED_WRONGLY = """
import cohort.torch, torch, torch.distributed as dist

class Wrong(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), options=None):
        if function is torch.ops.aten.copy_.default:
            raise KeyError("no place")
        plain = torch._C._DisableTorchDispatch()  # as long as it lives
        try:
            return function(*arguments, **(options or {}))
        finally:
            del plain

cohort.torch.init_process_group()
for count in (4, 100_000):
    places = [torch.Tensor._make_subclass(Wrong, torch.empty(count, 2)[:, 0]), torch.empty(count)]
    work = dist.all_gather(places, torch.ones(count), async_op=True)
    try:
        work.wait()
    except RuntimeError as error:
        assert "were not copied" in str(error), error
        print("told", flush=True)
dist.barrier()
"""

# Children have none of the parent's threads, and may become ranks of their own.
FORKED_AMID_CALLS = """
import os, sys
from datetime import timedelta
import cohort.torch, torch, torch.distributed as dist

def hear_late(group, store):
    if group.rank() == 1:
        store.wait(["made"])
    future = group.allreduce([torch.ones(100_000)]).get_future()
    if group.rank() == 0:
        store.set("made", "")
    assert future.wait()[0][0] == 2  # a thread tells it, where the other rank comes later

cohort.torch.init_process_group()
hear_late(dist.group.WORLD, dist.distributed_c10d._get_default_store())
waiting = dist.irecv(torch.ones(1), 1) if dist.get_rank() == 0 else None
child = os.fork()
if child == 0:
    if waiting is not None:
        try:
            waiting.wait()
        except RuntimeError as error:
            print("refused:", error, flush=True)
    store = dist.FileStore(sys.argv[1], 2)
    hear_late(cohort.torch.create(store, dist.get_rank(), 2, timedelta(seconds=30)), store)
    print("told", flush=True)
    os._exit(0)
status = os.waitpid(child, 0)[1]
dist.send(torch.ones(1), 0) if waiting is None else waiting.wait()
assert status == 0, status
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


MISSING = """
from datetime import timedelta
import cohort.torch, torch.distributed as dist

cohort.torch.init_process_group()
if dist.get_rank() == 1:
    store = dist.PrefixStore("alone", dist.distributed_c10d._get_default_store())
    store.set_timeout(timedelta(seconds=0.3))
    try:
        cohort.torch.create(store, 1, 4, timedelta(seconds=9))
    except RuntimeError as error:
        print("told:", error, flush=True)
dist.barrier()
"""


class End(unittest.TestCase):
    def test_ranks_that_do_not_come_to_make_a_group_are_named(self):
        status, output = launch("cohort run", 2, MISSING)
        self.assertEqual(status, 0, output)
        self.assertIn("told: cohort: Timed out: of 4 ranks, 0, 2, 3 had not come to make the group after 0.3 s", output)

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

    def test_ctrl_c_and_a_limit_amid_what_comes_after_a_call(self):
        status, output = launch("cohort run", 2, COPIED_SLOWLY)
        self.assertEqual(status, 0, output)
        self.assertEqual((output.count("late"), output.count("interrupted")), (1, 1), output)

    def test_what_comes_after_a_call_may_fail(self):
        status, output = launch("cohort run", 2, COPIED_WRONGLY)
        self.assertEqual(status, 0, output)
        self.assertEqual(output.count("told"), 4, output)

    def test_children_of_ranks_amid_calls_are_refused_and_may_join_anew(self):
        with tempfile.TemporaryDirectory() as folder:
            status, output = launch("cohort run", 2, FORKED_AMID_CALLS, str(pathlib.Path(folder) / "store"))
        self.assertEqual(status, 0, output)
        self.assertRegex(output, "refused: .*forked from a rank")
        self.assertEqual(output.count("told"), 2, output)

    def test_ctrl_c_while_a_group_is_made(self):
        for how in ("group", "group that meets"):
            with self.subTest(how), tempfile.TemporaryDirectory() as folder:
                status, output = launch("cohort run", 2, INTERRUPTED_AMID_A_GROUP, how, str(pathlib.Path(folder) / "marker"))
                self.assertEqual(status, 0, output)
                self.assertIn("interrupted", output)

    def test_errors_of_a_group_name_it_and_ranks_of_the_world(self):
        output = launch("cohort run", 3, IN_A_GROUP)[1]
        self.assertRegex(output, r"told: .*'torch/2'.*rank 1 \(world rank 2,")

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
