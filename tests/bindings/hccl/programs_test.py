#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that know HCCL's names alone: ranks that are processes, and those of an article as it was printed."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["COHORT_TEST_BUILD"])
RUNNER = BUILD / "bin/cohort-run"
PROGRAM = BUILD / "bin/bindings_hccl_program"
LIMIT_S = 240


def run(ranks, *arguments, options=(), **variables):
    done = subprocess.run([RUNNER, "-n", str(ranks), "--timeout", str(LIMIT_S), *options, "--", PROGRAM, *arguments], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S + 30, env={**os.environ, **variables})
    return done.returncode, done.stdout


def table(folder, ranks, address="127.0.0.1"):
    devices = [{"device_id": str(rank), "device_ip": f"192.168.1.{rank + 1}", "rank_id": str(rank)} for rank in range(ranks)]
    path = pathlib.Path(folder, "table.json")
    path.write_text(json.dumps({"status": "completed", "version": "1.0", "server_count": "1",
                                "server_list": [{"server_id": address, "host_nic_ip": "reserve", "device": devices}]}))
    return str(path)


class Programs(unittest.TestCase):
    def check_fine(self, ranks, *arguments, **variables):
        status, output = run(ranks, *arguments, **variables)
        self.assertEqual(status, 0, output)
        for rank in range(ranks):
            self.assertIn(f"rank {rank} of {ranks}: fine\n", output)

    def test_every_call_is_right(self):
        for ranks in (1, 2, 3, 4, 8):
            with self.subTest(ranks=ranks):
                self.check_fine(ranks, "all")

    def test_every_call_is_right_over_tcp(self):
        self.check_fine(3, "all", COHORT_TRANSPORT="tcp")

    def test_ranks_of_a_table_meet_without_a_secret(self):
        with tempfile.TemporaryDirectory() as folder:
            # Not at the address of `cohort run`, nor with its secret.
            bare = ["env", "-u", "COHORT_ADDR", "-u", "COHORT_SECRET_FD"]
            done = subprocess.run([RUNNER, "-n", "3", "--timeout", str(LIMIT_S), "--", *bare, PROGRAM, "table", table(folder, 3)],
                                  text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S + 30)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(done.stdout.count("of 3: fine"), 3, done.stdout)

    def test_a_rank_that_is_none_of_the_table_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            status, output = run(2, "table", table(folder, 1), options=["--keep-going"])
        self.assertIn("HcclCommInitClusterInfo: 1: HcclCommInitClusterInfo: rank 1 is none of the rank table", output)

    def told(self, ranks, what, **variables):
        _, output = run(ranks, what, options=["--keep-going"], **variables)
        told = re.findall(r"\[(\d)\] told (\d+) (\d+) (.*)", output)
        return {int(rank): (int(code), int(asynchronous), text) for rank, code, asynchronous, text in told}, output

    def test_a_variable_that_cannot_be_read_on_one_rank_is_told_on_all(self):
        for variable in ("HCCL_EXEC_TIMEOUT", "HCCL_CONNECT_TIMEOUT", "HCCL_BUFFSIZE", "COHORT_TIMEOUT"):
            with self.subTest(variable):
                with_it = ["sh", "-c", f'[ "$COHORT_RANK" != 1 ] || export {variable}=soon; exec "$@"', "sh"]
                done = subprocess.run([RUNNER, "-n", "3", "--timeout", str(LIMIT_S), "--keep-going", "--", *with_it, PROGRAM, "all"],
                                      text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S + 30)
                for rank in (0, 1, 2):
                    self.assertRegex(done.stdout, rf"\[{rank}\] .*InvalidArgument: .*\b{variable}='soon' is no", done.stdout)
                for rank in (0, 2):
                    self.assertRegex(done.stdout, rf"\[{rank}\] .*rank 1 \(", done.stdout)

    def test_a_killed_rank_is_named_on_every_survivor(self):
        for transport in ("shm", "tcp"):
            with self.subTest(transport=transport):
                told, output = self.told(3, "killed", COHORT_TRANSPORT=transport)
                self.assertEqual(sorted(told), [0, 2], output)
                for code, asynchronous, text in told.values():
                    self.assertEqual((code, asynchronous), (507000, 21), output)
                    self.assertRegex(text, r"PeerDied: rank 1\b", output)

    def test_ranks_that_disagree_are_told(self):
        told, output = self.told(3, "disagree")
        self.assertEqual(sorted(told), [0, 1, 2], output)
        for code, asynchronous, text in told.values():
            self.assertEqual((code, asynchronous), (107000, 1), output)
            self.assertRegex(text, "Mismatch: ", output)
            self.assertIn("50", text)
            self.assertIn("100", text)

    def test_a_call_that_its_stream_does_not_come_to_is_awaited_by_nobody(self):
        told, output = self.told(3, "skipped")
        self.assertEqual(told[0][0], 507047, output)
        self.assertIn("aclrtSetOpWaitTimeout", told[0][2])
        for rank in (1, 2):
            self.assertEqual(told[rank][:2], (507000, 21), output)
            self.assertRegex(told[rank][2], "rank 0\\b.*HcclAllReduce was not begun", output)

    def test_devices_that_began_to_join_do_not_wait_for_the_one_that_cannot(self):
        done = subprocess.run([PROGRAM, "crowded"], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT_S,
                              env={**os.environ, "HCCL_CONNECT_TIMEOUT": "100000"})
        self.assertEqual((done.returncode, done.stdout), (0, "refused each time\n"), done.stderr)

    def test_a_batch_that_finds_no_memory_is_awaited_by_nobody(self):
        for allocation in range(1, 13):
            with self.subTest(allocation=allocation):
                done = subprocess.run([PROGRAM, "starved", str(allocation)], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      timeout=LIMIT_S, env={**os.environ, "HCCL_EXEC_TIMEOUT": "100000"})
                if allocation > 6:  # of a message that is started: in this thread, or in another one, which finds memory
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn(done.stdout, ("ended 200000 507000\n", "ended 0 0\n"), done.stderr)
                    continue
                self.assertEqual((done.returncode, done.stdout), (0, "ended 200000 507000\n"), done.stderr)
                self.assertRegex(done.stderr, "PeerAborted: rank 0\\b.*HcclBatchSendRecv was not begun, because this rank could not")


class Article(unittest.TestCase):
    """The ranks of the sample know each other by a name, and nobody starts them but this."""

    def test_each_rank_gets_the_sum_of_all(self):
        for ranks in range(1, 9):
            with self.subTest(ranks=ranks):
                command = BUILD / "bin/hccl_gradients"
                # A user's other jobs of the same name are others by their address.
                place = {**os.environ, "COHORT_ADDR": f"unix:cohort-test-{os.getpid()}-{ranks}", "OMP_NUM_THREADS": "1"}
                running = [subprocess.Popen([command, str(rank), str(ranks)], text=True, stdout=subprocess.PIPE,
                                            stderr=subprocess.STDOUT, env=place) for rank in range(ranks)]
                outputs = []
                for process in running:
                    try:
                        outputs.append(process.communicate(timeout=LIMIT_S)[0])
                    finally:
                        process.kill()
                self.assertEqual([process.returncode for process in running], [0] * ranks, outputs)
                given = [self.numbers("Local", output) for output in outputs]
                sums = [sum(column) for column in zip(*given)]
                for output in outputs:
                    for expected, got in zip(sums, self.numbers("Global aggregated", output)):
                        self.assertAlmostEqual(expected, got, delta=1e-3)

    def numbers(self, what, output):
        line = re.search(rf"{what} gradients \(first 5\): (.*)", output)
        self.assertIsNotNone(line, output)
        numbers = [float(word) for word in line[1].split()]
        self.assertEqual(len(numbers), 5)
        return numbers

    def test_threads_that_are_ranks(self):
        for ranks in (1, 8):
            done = subprocess.run([BUILD / "bin/hccl_all_gather", str(ranks)], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=LIMIT_S)
            self.assertEqual((done.returncode, done.stdout), (0, f"{ranks} ranks have got what all had\n"))


if __name__ == "__main__":
    unittest.main()
