# SPDX-License-Identifier: Apache-2.0
"""Interrupts, failures, forks and the interpreter's end: no crash and no hang, in any order."""

import os
import tempfile
import unittest

from support import RanksTestCase, run_ranks

INTERRUPTED = """
import os, signal, sys, threading, time
import cohort, numpy

comm = cohort.init()
if comm.rank == 0:
    while comm.failure is None:  # again where it came before the call
        try:
            # From another thread, while this one waits: as Ctrl-C would.
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            comm.all_reduce(numpy.ones(1))
        except KeyboardInterrupt:
            pass
    print("interrupted", flush=True)
    assert "the program was interrupted" in str(comm.failure), comm.failure
else:
    while comm.failure is None:
        time.sleep(0.01)
    try:
        comm.barrier()
    except cohort.PeerAborted as error:
        print("told", flush=True)
"""

HANDLED = """
import signal, time
import cohort

comm = cohort.init()
if comm.rank == 0:
    signal.signal(signal.SIGALRM, lambda *_: comm.abort("the alarm rang"))
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        comm.barrier()
    except cohort.CohortError as error:
        assert "the alarm rang" in str(error), error
        print("ended", flush=True)
else:
    while comm.failure is None:
        time.sleep(0.01)
    assert "the alarm rang" in str(comm.failure), comm.failure
"""

LEFT_IN_EVERY_STATE = """
import sys
import cohort, numpy

comm = cohort.init()
how = sys.argv[1]
kept = cohort.empty(1 << 18)
group = comm.split(0)
if how == "with a call under way":
    pending = comm.all_reduce(kept, out=kept, async_op=True) if comm.rank == 0 else None
elif how == "without the communicator":
    del comm, group
elif how == "in a cycle":
    cycle = [group, kept]
    cycle.append(cycle)
elif how == "twice":
    cohort.finalize()
    cohort.finalize()
    cohort.init(name="again").barrier()
elif how == "by sys.exit":
    sys.exit(0)
"""

FORKED = """
import os, sys
import cohort, numpy

comm = cohort.init()
pending = comm.all_reduce(numpy.ones(1), async_op=True) if comm.rank == 0 else None
child = os.fork()
if child == 0:
    assert not cohort.is_initialized()
    cohort.finalize()  # nothing here is this process's to leave
    refused = 0
    for call in (comm.barrier, cohort.barrier, cohort.get_rank, lambda: cohort.empty(3)):
        try:
            call()
        except cohort.InvalidArgument as error:
            assert "forked from a rank" in str(error) and "another name" in str(error), error
            refused += 1
    if refused != 4:
        os._exit(1)
    assert cohort.init(name="child", rank=0, size=1, address=f"unix:child-{os.getpid()}").size == 1
    cohort.barrier()
    sys.exit(0)  # through everything that an interpreter does at its end
assert os.waitpid(child, 0)[1] == 0
if comm.rank != 0:
    comm.all_reduce(numpy.ones(1))
assert comm.all_reduce(numpy.ones(1))[0] == comm.size

import multiprocessing

def square(x):
    return x * x

with multiprocessing.get_context("fork").Pool(2) as pool:  # as a data loader does
    assert pool.map(square, range(8)) == [x * x for x in range(8)]
comm.barrier()
"""

# The thread that forks is the child's main one.
FORKED_BY_A_THREAD = """
import atexit, os, threading
import cohort

def work():
    child = os.fork()
    if child == 0:
        cohort.init(name=f"child-{os.getpid()}", rank=0, size=1).barrier()
        atexit._run_exitfuncs()  # as the end of the interpreter does
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

comm = cohort.init()
thread = threading.Thread(target=work)
thread.start()
thread.join()
comm.barrier()
"""

LOADED_ANEW = """
import importlib
import cohort, numpy

comm = cohort.init()
importlib.reload(cohort)
assert cohort.init() is comm and cohort.get_world_size() == comm.size
assert cohort.split(0).all_reduce(numpy.ones(1))[0] == comm.size
"""

# A child that comes back from a signal's handler is amid a wait of its parent's.
FORKED_BY_A_HANDLER = """
import os, signal, sys, time
import cohort

def fork(*_):
    children.append(os.fork())
    if children[0] != 0:
        os.mkdir(sys.argv[1])

comm = cohort.init()
children = []
if comm.rank == 0:
    signal.signal(signal.SIGALRM, fork)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
else:
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
try:
    comm.barrier()
except cohort.InvalidArgument as error:
    assert children == [0] and "forked from a rank" in str(error), error
    os._exit(0)
if comm.rank == 0:
    assert children[0] > 0 and os.waitpid(children[0], 0)[1] == 0
comm.barrier()
"""

FORKED_BEFORE = """
import os
import cohort

child = os.fork()  # as multiprocessing does, of a program that is no rank yet
try:
    cohort.barrier()
except cohort.InvalidArgument as error:
    assert "call cohort.init() first" in str(error), error
cohort.init(name=f"alone-{os.getpid()}", rank=0, size=1).barrier()
if child != 0:
    assert os.waitpid(child, 0)[1] == 0
"""

FAILED = """
import cohort

comm = cohort.init()
if comm.rank == 1:
    raise ZeroDivisionError("the batch is empty")
try:
    comm.barrier()
except cohort.PeerAborted as error:
    assert error.rank == 1 and "ZeroDivisionError: the batch is empty" in str(error), error
    assert isinstance(error, cohort.PeerError) and isinstance(error, ConnectionError)
    print("told why", flush=True)
"""

# Exceptions whose text cannot be had, or is none for other ranks.
FAILED_WITHOUT_TEXT = """
import sys
import cohort

class Wordless(Exception):
    def __str__(self):
        raise ValueError("I have no text")

comm = cohort.init()
if comm.rank == 1:
    if sys.argv[1] == "with":
        with comm:
            raise Wordless
    raise Wordless if sys.argv[1] == "none" else OSError("no such file: \\udcff")
try:
    comm.barrier()
except cohort.PeerAborted as error:
    print("told:", error, flush=True)
"""

LATE = """
import cohort, time

comm = cohort.init()
if comm.rank == 0:
    try:
        comm.barrier(timeout=0.1)
    except TimeoutError as error:
        assert error.kind == "DeadlineExceeded" and error.rank == 1, error
        print("named", flush=True)
else:
    while comm.failure is None:
        time.sleep(0.01)
"""


LATE_IN_A_QUESTION = """
import sys
import cohort, numpy, time

comm = cohort.init()
if comm.rank == 0:
    try:
        getattr(comm, sys.argv[1])(numpy.ones(2), timeout=0.1)
    except TimeoutError as error:
        assert error.op == sys.argv[1], error
        print("named", flush=True)
else:
    while comm.failure is None:
        time.sleep(0.01)
"""

CLOSED = """
import cohort, numpy, time

comm = cohort.init()
if comm.rank == 0:
    pending = comm.all_reduce(numpy.ones(1), async_op=True)
    comm.close()
    try:
        pending.wait(timeout=20)
    except cohort.Cancelled as error:
        assert "was closed by this rank" in str(error) and "before close()" in error.advice, error
        print("ended", flush=True)
else:
    while comm.failure is None:
        time.sleep(0.01)
    try:
        comm.barrier()
    except cohort.PeerAborted as error:
        assert "was closed by this rank" in str(error), error
        print("told", flush=True)
"""

# Whoever asks for the lock of an interpreter that is half gone is ended on the spot: no thread of a blocking call may be.
LEFT_WITH_THREADS = """
import threading, time
import cohort, numpy

class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(0.5)

comm = cohort.init()
slow = Slow()
for tag in range(50):
    threading.Thread(target=comm.recv, args=(numpy.ones(1), 1 - comm.rank, tag), daemon=True).start()
time.sleep(0.2)
"""

# What was registered before may wait for such a thread, or for what it holds.
JOINED_AT_THE_END = """
import atexit, threading

lock = threading.Lock()
threads = []

@atexit.register
def last():
    for thread in threads:
        thread.join()
    with lock:
        print("all is joined", flush=True)

import cohort, numpy

def work():
    with lock:
        comm.recv(numpy.ones(1), 1 - comm.rank)

comm = cohort.init()
threads.append(threading.Thread(target=work, daemon=True))
threads[0].start()
"""

# A death is told with what this rank was at.
DEAD_AMID_A_MESSAGE = """
import os, signal
import cohort, numpy

comm = cohort.init()
if comm.rank == 1:
    comm.recv(numpy.ones(1), 0, tag=6)
    os.kill(os.getpid(), signal.SIGKILL)
waiting = comm.recv(numpy.ones(1), 1, tag=5, async_op=True)
comm.send(numpy.ones(1), 1, tag=6)
try:
    waiting.wait()
except cohort.PeerDied as error:
    assert error.rank == 1 and error.op == "recv" and error.sequence is None, error
    assert "during recv of 8 bytes from rank 1" in str(error) and "with tag 5 on 'world'" in str(error), error
    print("told", flush=True)
"""

# Advice is what Python calls it, and says whose call it was on both ranks.
BOTH_SEND = """
import re
import cohort, numpy

comm = cohort.init()
try:
    comm.send(numpy.ones(1 << 20), 1 - comm.rank, timeout=1)
except cohort.CohortError as error:
    assert re.search(r"send of 8388608 bytes to rank [01] .* by rank [01] .* on 'world' was not finished", str(error)), error
    assert "(timeout= of the call)" in str(error) and "when_all" not in str(error), error
    print("advised", flush=True)
"""

TOLD_ROWS = """
import cohort, numpy

comm = cohort.init()
given = {"out": numpy.empty(2 * comm.size)} if comm.rank == 0 else {}
try:
    comm.all_gather(numpy.ones(2), **given)
except cohort.Mismatch as error:
    assert "on all ranks or on none" in error.advice, error
    print("explained", flush=True)
"""

OTHER_ROWS = """
import cohort, numpy

comm = cohort.init()
mine = numpy.ones(2, numpy.float64 if comm.rank == 0 else numpy.float32)
try:
    comm.all_gather(mine, out=numpy.empty(2 * comm.size, mine.dtype))
except cohort.Mismatch as error:
    assert "data type differs" in str(error) and "on all ranks or on none" not in error.advice, error
    print("unexplained", flush=True)
"""


class End(RanksTestCase):
    def test_with_threads_that_wait(self):
        self.check_ranks(2, LEFT_WITH_THREADS)

    def test_with_a_thread_that_a_handler_joins(self):
        self.assertEqual(self.check_ranks(2, JOINED_AT_THE_END).count("all is joined"), 2)

    def test_a_death_amid_a_message(self):
        self.assertIn("told", run_ranks(2, DEAD_AMID_A_MESSAGE)[1])

    def test_two_ranks_that_both_send_first_are_advised(self):
        self.assertEqual(self.check_ranks(2, BOTH_SEND).count("advised"), 2)

    def test_rows_that_some_ranks_ask_for_and_others_know(self):
        self.assertEqual(self.check_ranks(2, TOLD_ROWS).count("explained"), 2)
        self.assertEqual(self.check_ranks(2, OTHER_ROWS).count("unexplained"), 2)

    def test_close_ends_what_is_under_way(self):
        output = self.check_ranks(2, CLOSED)
        self.assertIn("ended", output)
        self.assertIn("told", output)

    def test_a_signal_s_handler_may_call_what_the_main_thread_waits_for(self):
        self.assertIn("ended", self.check_ranks(2, HANDLED))

    def test_a_deadline_holds_for_what_ranks_ask_each_other_first(self):
        for call in ("all_gather", "gather"):
            with self.subTest(call):
                self.assertIn("named", self.check_ranks(2, LATE_IN_A_QUESTION, call))

    def test_an_interrupt_ends_a_wait_and_is_told_to_the_others(self):
        output = self.check_ranks(2, INTERRUPTED)
        self.assertIn("interrupted", output)
        self.assertIn("told", output)

    def test_an_interpreter_may_end_in_any_state(self):
        for how in ("at once", "with a call under way", "without the communicator", "in a cycle", "twice", "by sys.exit"):
            with self.subTest(how):
                self.check_ranks(2, LEFT_IN_EVERY_STATE, how)

    def test_a_child_is_refused_and_harms_nobody(self):
        self.check_ranks(2, FORKED)

    def test_a_child_of_what_is_no_rank_may_become_one(self):
        self.check_ranks(1, FORKED_BEFORE)

    def test_a_package_that_is_loaded_anew_keeps_its_world(self):
        self.check_ranks(2, LOADED_ANEW)

    def test_a_child_of_a_signal_s_handler_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            self.check_ranks(2, FORKED_BY_A_HANDLER, os.path.join(folder, "forked"))

    def test_a_child_of_a_thread_ends(self):
        self.check_ranks(2, FORKED_BY_A_THREAD)

    def test_the_others_are_told_the_exception_of_a_rank(self):
        status, output = run_ranks(2, FAILED)
        self.assertNotEqual(status, 0)
        self.assertIn("told why", output)

    def test_an_exception_may_have_no_text(self):
        for how, text in (("none", "Wordless"), ("with", "Wordless"), ("surrogate", r"OSError: no such file: \?")):
            with self.subTest(how):
                self.assertRegex(run_ranks(2, FAILED_WITHOUT_TEXT, how)[1], f"told: .*{text}")

    def test_a_deadline_names_who_has_not_come(self):
        self.assertIn("named", self.check_ranks(2, LATE))

    def test_before_init_a_call_says_what_is_missing(self):
        status, output = run_ranks(1, "import cohort\ncohort.barrier()\n")
        self.assertNotEqual(status, 0)
        self.assertIn("call cohort.init() first", output)


if __name__ == "__main__":
    unittest.main()
