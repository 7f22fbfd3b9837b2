# SPDX-License-Identifier: Apache-2.0
"""LightGBM over cohort makes the models that it makes over its own sockets, and names a rank that was killed."""

import signal
import subprocess
import sys
import unittest

from support import environment, run_ranks

import cohort
import cohort.lightgbm

FUNCTIONS = """
import ctypes, sys, threading
import cohort

start, size, *elsewhere = sys.argv[1:]
comm = cohort.join(name="functions", rank=0, size=1)
numbers = ctypes.POINTER(ctypes.c_int32)
call = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int32, numbers, numbers, ctypes.c_int, ctypes.c_char_p, ctypes.c_int32)
all_gather = call(cohort._cohort.lightgbm_functions(comm)[1])
out = ctypes.create_string_buffer(8)
arguments = b"abcd", 4, (ctypes.c_int32 * 1)(int(start)), (ctypes.c_int32 * 1)(int(size)), 1, out, 8
if elsewhere:
    thread = threading.Thread(target=all_gather, args=arguments)
    thread.start()
    thread.join()
else:
    all_gather(*arguments)
print(out.raw)
"""


class LightGbm(unittest.TestCase):
    def models(self, ranks, *arguments, **variables):
        results = run_ranks(ranks, "lightgbm_data_parallel.py", *arguments, **variables)
        for rank, (status, output) in enumerate(results):
            self.assertEqual(status, 0, f"rank {rank}: {output}")
        return [line for _, output in results for line in output.splitlines() if line.startswith("model ")]

    def test_the_model_is_that_over_its_sockets(self):
        for ranks in (2, 3, 4):
            over_sockets = self.models(ranks, "sockets")
            self.assertEqual(len(over_sockets), ranks)
            self.assertEqual(len(set(over_sockets)), 1)
            self.assertEqual(self.models(ranks, "cohort"), over_sockets)

    def test_a_killed_rank_is_named_by_lightgbms_own_error(self):
        (status, told), (killed, _) = run_ranks(2, "lightgbm_data_parallel.py", "cohort", KILL_AT="4")
        self.assertEqual(killed, -signal.SIGKILL)
        self.assertEqual(status, 1)
        self.assertRegex(told, r"LightGBMError: cohort: PeerDied: rank 1 \(.*pid \d+\)")
        self.assertIn("failure: 1", told)

    def test_ctrl_c_ends_a_training_that_waits(self):
        (status, told), (other, its) = run_ranks(2, "lightgbm_data_parallel.py", "cohort", INTERRUPT_AT="4")
        self.assertIn("KeyboardInterrupt", told)
        self.assertNotEqual(status, 0)
        self.assertIn("rank 0", its)
        self.assertNotEqual(other, 0)


class Functions(unittest.TestCase):
    """As LightGBM calls them, by a program that does not catch what they throw."""

    def told(self, *arguments):
        done = subprocess.run([sys.executable, "-c", FUNCTIONS, *arguments], env=environment(), text=True, timeout=60, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def test_a_block_goes_where_it_belongs(self):
        self.assertEqual(self.told("0", "4"), (0, "b'abcd\\x00\\x00\\x00\\x00'\n"))

    def test_blocks_that_are_none_are_refused(self):
        for start, size in (("1", "4"), ("0", "-4"), ("0", "9")):
            status, told = self.told(start, size)
            self.assertEqual(status, -signal.SIGABRT)
            self.assertIn("cohort: allgather with blocks that are not one behind the other", told)

    def test_a_thread_that_has_no_communicator_is_told(self):
        status, told = self.told("0", "4", "elsewhere")
        self.assertEqual(status, -signal.SIGABRT)
        self.assertIn("cohort: no communicator is there for trainings of this thread", told)


class Use(unittest.TestCase):
    def test_options_of_a_communicator_that_is_there_are_refused(self):
        with cohort.join(name="use", rank=0, size=1) as comm:
            with self.assertRaisesRegex(TypeError, "timeout"):
                cohort.lightgbm.init(comm, timeout=3)
            self.assertIs(cohort.lightgbm.init(comm), comm)
            cohort.lightgbm.finalize()
            self.assertTrue(comm.is_closed)
            cohort.lightgbm.finalize()


if __name__ == "__main__":
    unittest.main()
