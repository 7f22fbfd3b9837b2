# SPDX-License-Identifier: Apache-2.0
"""LightGBM over cohort makes the models that it makes over its own sockets, and names a rank that was killed."""

import ctypes
import signal
import unittest

from support import run_ranks

import cohort
import cohort.lightgbm

REDUCER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int32)


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
    """As LightGBM calls them, of a world of one."""

    def setUp(self):
        self.comm = cohort.join(name="functions", rank=0, size=1, address="unix:cohort-eco-functions")
        reduce_scatter, all_gather = cohort._cohort.lightgbm_functions(self.comm)
        numbers = ctypes.POINTER(ctypes.c_int32)
        self.all_gather = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int32, numbers, numbers, ctypes.c_int, ctypes.c_char_p,
                                           ctypes.c_int32)(all_gather)
        self.reduce_scatter = reduce_scatter

    def tearDown(self):
        self.comm.close()

    def test_a_block_goes_where_it_belongs(self):
        out = ctypes.create_string_buffer(8)
        self.all_gather(b"abcd", 4, (ctypes.c_int32 * 1)(0), (ctypes.c_int32 * 1)(4), 1, out, 8)
        self.assertEqual(out.raw, b"abcd\0\0\0\0")


class Use(unittest.TestCase):
    def test_options_of_a_communicator_that_is_there_are_refused(self):
        with cohort.join(name="use", rank=0, size=1, address="unix:cohort-eco-use") as comm:
            with self.assertRaisesRegex(TypeError, "timeout"):
                cohort.lightgbm.init(comm, timeout=3)
            self.assertIs(cohort.lightgbm.init(comm), comm)
            cohort.lightgbm.finalize()
            self.assertTrue(comm.is_closed)
            cohort.lightgbm.finalize()


if __name__ == "__main__":
    unittest.main()
