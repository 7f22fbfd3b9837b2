# SPDX-License-Identifier: Apache-2.0
"""What becomes of a job when the network between hosts fails: every rank goes on, or is told who is to blame."""

import json
import os
import pathlib
import secrets
import select
import signal
import subprocess
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import faults  # noqa: E402

HOST_TIMEOUT_S = 3
PATIENCE_S = 120  # however slow the machine is


class Rank:
    def __init__(self, hosts, rank, size, seconds, secret):
        environment = {"COHORT_RANK": rank, "COHORT_SIZE": size, "COHORT_ADDR": f"{hosts.address(1)}:29400",
                       "COHORT_SECRET": secret, "COHORT_HOST_TIMEOUT": HOST_TIMEOUT_S}
        argv = ["env", *(f"{name}={value}" for name, value in environment.items()), "/usr/bin/python3",
                HERE / "steps.py", seconds]
        self.process = hosts.start(rank + 1, *argv, stdout=subprocess.PIPE)
        self.end = None
        self._pending = b""

    def read(self, deadline):
        """The next thing that it prints, or None: it has ended."""
        while b"\n" not in self._pending:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("a rank neither goes on nor ends")
            some = os.read(self.process.stdout.fileno(), 1 << 16)
            if not some:
                return None
            self._pending += some
        line, self._pending = self._pending.split(b"\n", 1)
        return json.loads(line)

    def wait_for_steps(self, count):
        """Until it has done so many more."""
        deadline = time.monotonic() + PATIENCE_S
        for _ in range(count):
            if "step" not in (self.read(deadline) or {}):
                raise AssertionError("ended before its time")

    def wait_for_end(self):
        deadline = time.monotonic() + PATIENCE_S
        while (said := self.read(deadline)) is not None:
            if "end" in said:
                self.end = said
        self.process.wait()


@unittest.skipUnless(pathlib.Path(os.environ.get("PYTHONPATH", ""), "cohort").exists(), "needs the Python package of a build")
class BadDays(unittest.TestCase):
    """Rank r lives on host r + 1."""

    @classmethod
    def setUpClass(cls):
        faults.require()

    def job(self, size, seconds=600, rate=None):
        """Ranks of as many hosts, which have begun."""
        self.hosts = self.enterContext(faults.FaultyHosts(size))
        for host in range(1, size + 1) if rate else ():
            self.hosts.limit(host, rate)
        secret = secrets.token_hex(32)
        ranks = [Rank(self.hosts, rank, size, seconds, secret) for rank in range(size)]
        for rank in ranks:
            rank.wait_for_steps(3)
        return ranks

    def ends(self, ranks):
        for rank in ranks:
            rank.wait_for_end()
        return [(rank.end["end"], rank.end.get("culprit")) for rank in ranks]

    def test_a_host_that_is_cut_off_is_named_by_the_others_and_by_itself(self):
        ranks = self.job(3)
        self.hosts.cut(3)
        self.assertEqual(self.ends(ranks), [("PeerDied", 2), ("PeerDied", 2), ("LinkFault", 2)])
        self.assertIn("nothing comes from the host of rank 2", ranks[0].end["message"])
        self.assertIn("has lost its network", ranks[2].end["message"])

    def test_of_two_hosts_both_are_told_the_same(self):
        ranks = self.job(2)
        self.hosts.cut(1)
        self.assertEqual(self.ends(ranks), [("LinkFault", 1), ("LinkFault", 1)])
        self.assertIn("one of them is down, or the network between them", ranks[0].end["message"])

    def test_a_host_that_cannot_send_hears_of_it_as_soon_as_the_other_one(self):
        faults_of = {
            "its link is down": lambda host, other: self.hosts.take_link_down(host),
            "its address is gone": lambda host, other: self.hosts.take_address(host),
            "its route is gone": lambda host, other: self.hosts.take_route(host, other),
        }
        for name, fault in faults_of.items():
            for host in (1, 2):
                with self.subTest(name, host=host):
                    ranks = self.job(2)
                    fault(host, 3 - host)
                    self.assertEqual(self.ends(ranks), [("LinkFault", 1), ("LinkFault", 1)])
                    for rank in ranks:
                        self.assertIn("nothing passes between the hosts", rank.end["message"])

    def test_where_one_direction_between_two_hosts_is_lost_nobody_is_said_to_be_dead(self):
        ranks = self.job(3)
        self.hosts.drop(2, 3)
        self.assertEqual(self.ends(ranks), [("LinkFault", 2)] * 3)
        self.assertIn("rank 1 ", ranks[0].end["message"])

    def test_a_network_that_stays_away_is_told_to_all(self):
        ranks = self.job(3)
        for host in (1, 2, 3):
            self.hosts.cut(host)
        self.assertEqual(self.ends(ranks), [("LinkFault", rank) for rank in range(3)])

    def test_a_switch_that_starts_again_is_waited_for(self):
        ranks = self.job(3, seconds=6)
        for host in (1, 2, 3):
            self.hosts.cut(host)
        time.sleep(HOST_TIMEOUT_S / 3)
        for host in (1, 2, 3):
            self.hosts.heal(host)
        self.assertEqual(self.ends(ranks), [("ok", None)] * 3)

    def test_a_connection_that_is_reset_is_a_fault_between_two(self):
        ranks = self.job(3)
        self.hosts.reset(2)
        ends = self.ends(ranks)
        self.assertEqual(len(set(ends)), 1, ends)
        self.assertEqual(ends[0][0], "LinkFault")

    def test_packets_that_are_lost_are_sent_again(self):
        ranks = self.job(3, seconds=5)
        self.hosts.lose(1)
        self.assertEqual(self.ends(ranks), [("ok", None)] * 3)

    def test_a_slow_host_is_waited_for(self):
        ranks = self.job(3, seconds=5, rate="200mbit")
        self.hosts.limit(2, "20mbit")
        self.assertEqual(self.ends(ranks), [("ok", None)] * 3)

    def test_a_rank_that_is_killed_is_named(self):
        ranks = self.job(3)
        ranks[1].process.send_signal(signal.SIGKILL)
        ranks[0].wait_for_end()
        ranks[2].wait_for_end()
        self.assertEqual([(rank.end["end"], rank.end["culprit"]) for rank in (ranks[0], ranks[2])], [("PeerDied", 1)] * 2)

    def test_a_rank_that_is_stopped_for_longer_than_a_lost_host_is_waited_for(self):
        ranks = self.job(2, seconds=4)
        ranks[1].process.send_signal(signal.SIGSTOP)
        time.sleep(2 * HOST_TIMEOUT_S)
        ranks[1].process.send_signal(signal.SIGCONT)
        self.assertEqual(self.ends(ranks), [("ok", None)] * 2)


if __name__ == "__main__":
    unittest.main()
