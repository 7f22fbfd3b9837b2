#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where the network caps each flow, several connections carry more than one, encrypted or not."""

import json
import pathlib
import secrets
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import hosts as hosts_of_test
from hosts import COMMAND, Hosts

RATE_MBIT = 20  # low, so that nothing else limits a flow
BYTES = 1 << 20
# Connections that are made one after the other have ports that are few apart, so that each is in a class of its own.
CLASSES = 256
# Where one flow has the rate, four have four times that; half of it is left for what is not data.
LEAST_GAIN = 2


class ConnectionsOverCappedFlows(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        hosts_of_test.require()
        if not shutil.which("tc"):
            raise unittest.SkipTest("tc is not installed")
        cls.hosts = Hosts(2)
        cls.hosts.__enter__()
        cls.addClassCleanup(cls.hosts.__exit__)

    @classmethod
    def cap(cls, rate):
        """Each flow, both ways. The rank of the second host calls: its ports tell connections apart, there and here."""
        for host, port in ((1, "dport"), (2, "sport")):
            cls.cap_at(host, port, rate)

    @classmethod
    def cap_at(cls, host, port, rate):
        cls.hosts.outcome(host, "tc", "qdisc", "delete", "dev", "eth0", "root")  # if there is one
        lines = ["qdisc add dev eth0 root handle 1: htb"]
        for number in range(CLASSES):
            minor = f"1:{number + 1:x}"
            lines += [f"class add dev eth0 parent 1: classid {minor} htb rate {rate} quantum 1514",
                      f"filter add dev eth0 parent 1: protocol ip u32 match ip protocol 6 0xff "
                      f"match ip {port} {number} 0x{CLASSES - 1:x} flowid {minor}"]
        batch = cls.hosts.folder / f"tc-{host}"
        batch.write_text("\n".join(lines) + "\n")
        done = cls.hosts.outcome(host, "tc", "-batch", batch)
        if done.returncode:
            raise unittest.SkipTest(f"flows cannot be capped here: {done.stderr.strip().splitlines()[0]}")

    def run_bench(self, connections, **variables):
        """A broadcast, which is verified: what it says, and what stands in the log of rank 0."""
        secret = secrets.token_hex(32)
        ranks = []
        for rank in range(2):
            own = {"COHORT_RANK": str(rank), "COHORT_SIZE": "2", "COHORT_ADDR": f"{self.hosts.address(1)}:29400", "COHORT_SECRET": secret,
                   "COHORT_TCP_CONNECTIONS": str(connections), **variables}
            ranks.append(self.hosts.start(rank + 1, COMMAND, "bench", "broadcast", "--sizes", str(BYTES), "--iters", "3", "--json",
                                          environment=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        said = [rank.communicate(timeout=120) for rank in ranks]
        for rank, (_, complaints) in zip(ranks, said):
            self.assertEqual(rank.returncode, 0, complaints)
        return said[0]

    def time(self, connections, **variables):
        """In us."""
        return json.loads(self.run_bench(connections, **variables)[0].splitlines()[-1])["median_us"]

    def test_four_carry_at_least_twice_as_much_as_one(self):
        self.cap(f"{RATE_MBIT}mbit")
        one = self.time(1)
        self.assertGreater(one, 0.8 * BYTES * 8 / RATE_MBIT, "flows are not capped")
        for variables in ({}, {"COHORT_TLS": "on"}):
            with self.subTest(**variables):
                # Two flows may have got one class: those of another start do not.
                gains = []
                while len(gains) < 3 and (not gains or gains[-1] < LEAST_GAIN):
                    gains.append(one / self.time(4, **variables))
                self.assertGreaterEqual(gains[-1], LEAST_GAIN, gains)

    def test_the_log_says_whether_connections_between_hosts_are_encrypted(self):
        for variables, words in (({"COHORT_TLS": "on"}, "are encrypted (TLS 1.3)"), ({"COHORT_TLS": "off"}, "are not encrypted: COHORT_TLS=off"),
                                 ({}, "are not encrypted: neither end has COHORT_TLS=on")):
            with self.subTest(**variables):
                log = self.run_bench(1, COHORT_DEBUG="info", **variables)[1]
                self.assertIn(f"info: connections to 1 rank of other hosts {words}", log)

    def test_ranks_that_measure_come_to_one_number(self):
        """To which, depends on how busy the machine is: that four are found where they carry more is tested in a simulated world."""
        self.cap("400mbit")
        log = self.run_bench("auto", COHORT_DEBUG="info")[1]
        self.assertRegex(log, "large messages to other hosts go over (1 connection|4 connections) of each link over TCP")


if __name__ == "__main__":
    unittest.main(verbosity=2)
