#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which interface and which ports ranks on hosts with two networks use."""

import pathlib
import re
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import hosts as hosts_of_test
from hosts import COMMAND, Hosts

# A name of this host that leads astray, as Debian writes it; and a second network of all hosts.
BENCH = (str(COMMAND), "bench", "all_reduce", "--sizes", "8,64K", "--iters", "3")
SECRET = "a" * 64


class Interfaces(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        hosts_of_test.require()
        cls.hosts = Hosts(2)
        cls.hosts.__enter__()
        cls.addClassCleanup(cls.hosts.__exit__)
        for host in (1, 2):
            cls.hosts.connect(host, f"second{host}", f"10.99.0.{host}/24", switch="br1")
        (cls.hosts.folder / "hosts").write_text("127.0.0.1 localhost\n127.0.1.1 host1 host2\n")

    def start(self, address, *command, environment=None, size=2):
        base = {"COHORT_SIZE": str(size), "COHORT_ADDR": address, "COHORT_SECRET": SECRET, **(environment or {})}
        return [self.hosts.start(host, *command, environment={**base, "COHORT_RANK": str(host - 1)}, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE) for host in (1, 2)]

    def finish(self, processes):
        ends = [(*process.communicate(timeout=60), process.returncode) for process in processes]
        return max(abs(status) for _, _, status in ends), "".join(output + errors for output, errors, _ in ends)

    def addresses_of(self, address, **environment):
        """Those by which the ranks say they are reached."""
        status, text = self.finish(self.start(address, COMMAND, "topo", environment=environment))
        self.assertEqual(status, 0, text)
        return re.findall(r"reached at (\S+)", text)

    def test_ranks_are_reached_in_the_network_of_the_rendezvous_though_their_names_lead_astray(self):
        self.assertEqual(self.addresses_of("10.231.78.1:29400"), ["10.231.78.1", "10.231.78.2"])
        self.assertEqual(self.addresses_of("10.99.0.1:29400"), ["10.99.0.1", "10.99.0.2"])

    def test_an_interface_that_is_named_goes_before_it(self):
        for choice in ("second*", "10.99.0.0/16", "^eth0,lo"):
            with self.subTest(choice):
                self.assertEqual(self.addresses_of("10.231.78.1:29400", COHORT_SOCKET_IFNAME=choice), ["10.99.0.1", "10.99.0.2"])

    def test_an_interface_that_is_not_there_is_told_with_those_that_are(self):
        status, text = self.finish(self.start("10.231.78.1:29400", *BENCH, environment={"COHORT_SOCKET_IFNAME": "nowhere0",
                                                                                        "COHORT_JOIN_TIMEOUT": "5"}))
        self.assertNotEqual(status, 0)
        self.assertIn("COHORT_SOCKET_IFNAME='nowhere0' leaves no IPv4 address", text)
        self.assertIn("eth0 10.231.78.", text)

    def test_ipv6_and_addresses_of_one_link(self):
        self.assertEqual(self.addresses_of("[fd00:78::1]:29400"), ["[fd00:78::1]", "[fd00:78::2]"])
        # Its interface is called otherwise on each host.
        link = self.hosts.run(1, "ip", "-6", "addr", "show", "dev", "second1", "scope", "link")
        local = re.search(r"inet6 (fe80:\S+)/", link)[1]
        ranks = [self.hosts.start(host, *BENCH, environment={
            "COHORT_RANK": str(host - 1), "COHORT_SIZE": "2", "COHORT_SECRET": SECRET,
            "COHORT_ADDR": f"[{local}%second{host}]:29400"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for host in (1, 2)]
        status, text = self.finish(ranks)
        self.assertEqual(status, 0, text)
        self.assertEqual(text.count("# cohort all_reduce: 2 processes over tcp"), 1, text)

    def test_ranks_listen_at_ports_of_the_range_alone(self):
        ranks = self.start("10.231.78.1:29400", "sh", "-c", f'exec {COMMAND} bench all_reduce --sizes 8 --budget-ms 4000',
                           environment={"COHORT_PORT_RANGE": "7100-7103", "COHORT_TRANSPORT": "tcp"})
        ports = set()
        until = time.monotonic() + 30
        while len(ports) < 1 and time.monotonic() < until:
            ports = {int(port) for port in re.findall(r"10\.231\.78\.2:(\d+)\s", self.hosts.run(2, "ss", "-Htln"))}
            time.sleep(0.05)
        status, text = self.finish(ranks)
        self.assertEqual(status, 0, text)
        self.assertTrue(ports and ports <= set(range(7100, 7104)), ports)

    def test_a_range_that_is_taken_is_told(self):
        holder = self.hosts.start(2, sys.executable, "-c", "import socket, time\n"
                                  "s = socket.create_server(('10.231.78.2', 7200)); print('up', flush=True); time.sleep(600)",
                                  stdout=subprocess.PIPE)
        holder.stdout.readline()
        status, text = self.finish(self.start("10.231.78.1:29400", *BENCH, environment={"COHORT_PORT_RANGE": "7200-7200",
                                                                                        "COHORT_JOIN_TIMEOUT": "5"}))
        holder.kill()
        self.assertNotEqual(status, 0)
        self.assertIn("all 1 ports from 7200 to 7200 are taken at 10.231.78.2", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
