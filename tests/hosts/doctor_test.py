#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`cohort doctor` on hosts with planted faults names each of them, and nothing on those without; `cohort topo` shows what there is."""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import hosts as hosts_of_test
from hosts import COMMAND, RUNNER, Hosts

SECRET = "b" * 64


class Doctor(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        hosts_of_test.require()
        cls.hosts = Hosts(2)
        cls.hosts.__enter__()
        cls.addClassCleanup(cls.hosts.__exit__)

    def problems(self, script="", *, environment=None, host=1):
        """{check: text and fix} of what it says in a shell that has run the script first, in a mount namespace of its own."""
        command = ["unshare", "--mount", "sh", "-ec", f"{script}\nexec {COMMAND} doctor --json"]
        done = self.hosts.outcome(host, *command, environment=environment, timeout=60)
        self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
        found = [json.loads(line) for line in done.stdout.splitlines()]
        bad = {one["check"]: f"{one['text']} -> {one['fix']}" for one in found if one["severity"] == "PROBLEM"}
        self.assertEqual(done.returncode, 1 if bad else 0)
        for one in found:
            self.assertEqual(bool(one["fix"]), one["severity"] == "PROBLEM", one)
        return bad

    def check(self, script, check, words, **environment):
        """It names this fault, which it does not name without it."""
        before = self.problems()
        found = self.problems(script, environment=environment)
        self.assertIn(check, found)
        self.assertNotIn(check, before)
        self.assertRegex(found[check], words)

    def test_a_host_as_it_is_has_none_that_are_planted_here(self):
        text = self.hosts.run(1, COMMAND, "doctor", check=False)
        self.assertRegex(text, r"(?m)^ok +io_uring +works$")
        self.assertRegex(text, r"(?m)^ok +interface eth0 +10\.231\.78\.1/24 .*MTU 1500")

    def test_few_descriptors(self):
        self.check("ulimit -n 512", "descriptors", "at most 512 can be open.*nofile")

    def test_little_address_space(self):
        self.check("ulimit -v 4000000", "address space", r"ulimit -v.*4\.0 GiB of every one -> .*COHORT_HEAPSIZE")

    def test_small_files(self):
        self.check("ulimit -f 2048", "file size", "counts for shared memory too.*ulimit -f unlimited")

    def test_few_processes(self):
        self.check("prlimit --nproc=100:100 --pid $$", "processes", "a user may have 100.*nproc")

    def test_little_locked_memory_and_io_uring_without_it(self):
        if not shutil.which("setpriv"):
            self.skipTest("setpriv is not installed")
        command = ["sh", "-ec", f"ulimit -l 16; exec setpriv --reuid 65534 --clear-groups {COMMAND} doctor --json"]
        done = self.hosts.outcome(1, *command, timeout=60)
        found = {one["check"]: one for one in map(json.loads, done.stdout.splitlines()) if one["severity"] == "PROBLEM"}
        self.assertIn("locked memory", found)
        self.assertRegex(found["locked memory"]["text"], r"16 KiB \(ulimit -l\)")

    def test_little_shared_memory(self):
        self.check("mount -t tmpfs -o size=1m small /dev/shm", "/dev/shm", "1.0 MiB.*--shm-size")

    def test_yama(self):
        if not pathlib.Path("/proc/sys/kernel/yama/ptrace_scope").exists():
            self.skipTest("this kernel has no yama")
        self.check(f"echo 2 > {self.hosts.folder}/scope; mount --bind {self.hosts.folder}/scope /proc/sys/kernel/yama/ptrace_scope",
                   "kernel copies", "ptrace_scope is 2.*kernel.yama.ptrace_scope=0")

    def test_io_uring_that_is_turned_off(self):
        self.check("", "io_uring", "COHORT_IO=epoll turns it off", COHORT_IO="epoll")

    def test_a_small_mtu_is_no_fault_but_is_said(self):
        self.hosts.run(1, "ip", "link", "set", "eth0", "mtu", "1280")
        try:
            self.assertNotIn("interface eth0", self.problems())
            text = self.hosts.run(1, COMMAND, "doctor", check=False)
            self.assertRegex(text, r"(?m)^note +interface eth0 +.*MTU 1280.*cohort doctor --peers measures")
        finally:
            self.hosts.run(1, "ip", "link", "set", "eth0", "mtu", "1500")

    def test_an_interface_that_is_down(self):
        self.hosts.connect(1, "spare", "10.50.0.1/24")
        self.hosts.run(1, "ip", "link", "set", "spare", "down")
        try:
            self.assertRegex(self.problems()["interface spare"], "is down -> ip link set spare up")
        finally:
            self.hosts.run(1, "ip", "link", "del", "spare")

    def test_loopback_that_is_down(self):
        self.hosts.run(2, "ip", "link", "set", "lo", "down")
        try:
            self.assertRegex(self.problems(host=2)["loopback"], "ip link set lo up")
        finally:
            self.hosts.run(2, "ip", "link", "set", "lo", "up")

    def test_no_route_to_rank_0(self):
        self.check("", "way to rank 0", "no route to COHORT_ADDR=10.77.0.1:29400.*ip route add", COHORT_ADDR="10.77.0.1:29400")

    def test_an_address_that_is_none(self):
        self.check("", "way to rank 0", "COHORT_ADDR=HOST:PORT", COHORT_ADDR="10.77.0.1")

    def test_an_interface_that_is_not_there(self):
        self.check("", "COHORT_SOCKET_IFNAME", "'ib7' leaves no interface that is up", COHORT_SOCKET_IFNAME="ib7")

    def test_ports_that_are_none_and_few_ports(self):
        self.check("", "COHORT_PORT_RANGE", "500-400", COHORT_PORT_RANGE="500-400")
        usual = self.hosts.run(1, "cat", "/proc/sys/net/ipv4/ip_local_port_range").strip()
        self.hosts.run(1, "sh", "-c", "echo 40000 40100 > /proc/sys/net/ipv4/ip_local_port_range")
        try:
            self.assertRegex(self.problems()["ports"], "40000 to 40100, 101 in all")
        finally:
            self.hosts.run(1, "sh", "-c", f"echo {usual} > /proc/sys/net/ipv4/ip_local_port_range")

    def test_small_buffers(self):
        usual = self.hosts.run(1, "cat", "/proc/sys/net/ipv4/tcp_rmem").strip()
        self.hosts.run(1, "sh", "-c", "echo 4096 87380 131072 > /proc/sys/net/ipv4/tcp_rmem")
        try:
            self.assertRegex(self.problems()["TCP buffers"], "tcp_rmem lets them grow to 128 KiB.*sysctl")
        finally:
            self.hosts.run(1, "sh", "-c", f"echo {usual} > /proc/sys/net/ipv4/tcp_rmem")

    def test_a_secret_that_others_may_read(self):
        path = self.hosts.folder / "open.secret"
        path.write_text(SECRET)
        path.chmod(0o644)
        self.check("", "secret", f"{path}.*chmod 600", COHORT_SECRET_FILE=str(path))

    def test_a_name_that_means_nothing_and_a_value_that_cannot_be_read(self):
        self.check("", "variable", "COHORT_TIMEOT is set and means nothing; COHORT_TIMEOUT", COHORT_TIMEOT="3")
        self.check("", "variable", "COHORT_BUFFSIZE", COHORT_BUFFSIZE="lots")

    def test_a_container_with_little_of_everything(self):
        # As the kernel shows it: whether cgroups can be made here depends on where the tests run.
        folder = self.hosts.folder / "box"
        folder.mkdir()
        (folder / "own").write_text("0::/box\n")
        found = self.problems(f"""
            mount -t tmpfs cgroups /sys/fs/cgroup; mkdir /sys/fs/cgroup/box
            echo 50000 100000 > /sys/fs/cgroup/box/cpu.max; echo {512 << 20} > /sys/fs/cgroup/box/memory.max
            echo 200 > /sys/fs/cgroup/box/pids.max; mount --bind {folder}/own /proc/$$/cgroup""")
        self.assertRegex(found["cgroup: processors"], r"0\.5 cores' time on \d+ cores.*at most 1 ranks")
        self.assertRegex(found["cgroup: memory"], "512 MiB.*memory.max")
        self.assertRegex(found["cgroup: processes"], "200, threads included.*pids.max")


class Peers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        hosts_of_test.require()
        cls.hosts = Hosts(4)
        cls.hosts.__enter__()
        cls.addClassCleanup(cls.hosts.__exit__)

    def examine(self, *command, environment=None):
        ranks = [self.hosts.start(host, COMMAND, *command, environment={
            "COHORT_RANK": str(host - 1), "COHORT_SIZE": "4", "COHORT_ADDR": "10.231.78.1:29400", "COHORT_SECRET": SECRET,
            **(environment or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for host in (1, 2, 3, 4)]
        ends = [(*rank.communicate(timeout=120), rank.returncode) for rank in ranks]
        return max(abs(status) for _, _, status in ends), ends[0][0], "".join(errors for _, errors, _ in ends)

    def of_pairs(self, output):
        return [one for one in map(json.loads, output.splitlines()) if one["host"] == "between hosts"]

    def test_all_pairs_are_measured_and_all_hosts_looked_at(self):
        _, output, errors = self.examine("doctor", "--peers", "--json")
        pairs = self.of_pairs(output)
        self.assertEqual(sum(one["severity"] == "ok" for one in pairs), 6, output + errors)
        self.assertEqual({json.loads(line)["host"] for line in output.splitlines()},
                         {"host1", "host2", "host3", "host4", "between hosts"})

    def test_a_host_at_a_tenth_of_the_rate_is_named(self):
        for host in (1, 2, 3, 4):
            rate = "20mbit" if host == 3 else "200mbit"
            for side, interface in ((host, "eth0"), (0, f"p{host}eth0")):
                self.hosts.run(side, "tc", "qdisc", "replace", "dev", interface, "root", "tbf", "rate", rate, "burst", "64kb",
                               "latency", "50ms")
        try:
            status, output, errors = self.examine("doctor", "--peers", "--json")
        finally:
            for host in (1, 2, 3, 4):
                for side, interface in ((host, "eth0"), (0, f"p{host}eth0")):
                    self.hosts.run(side, "tc", "qdisc", "del", "dev", interface, "root")
        slow = [one for one in self.of_pairs(output) if one["check"].startswith("bandwidth of")]
        self.assertEqual([one["check"] for one in slow], ["bandwidth of host3"], output + errors)
        self.assertEqual(status, 1)

    def test_two_hosts_that_cannot_connect_are_named(self):
        # Joining connects all, so that it is what fails.
        for host, other in ((2, 4), (4, 2)):
            self.hosts.run(host, "ip", "route", "add", "blackhole", f"10.231.78.{other}/32")
        try:
            status, output, errors = self.examine("doctor", "--peers", environment={"COHORT_JOIN_TIMEOUT": "6"})
        finally:
            for host, other in ((2, 4), (4, 2)):
                self.hosts.run(host, "ip", "route", "del", "blackhole", f"10.231.78.{other}/32")
        self.assertNotEqual(status, 0)
        self.assertIn("the ranks could not meet", errors)

    def test_topo_shows_hosts_and_ranks(self):
        picture = self.hosts.folder / "hosts.svg"
        status, output, errors = self.examine("topo", "--json", "--svg", picture)
        self.assertEqual(status, 0, errors)
        told = json.loads(output)
        self.assertEqual([(one["name"], one["ranks"], one["address"]) for one in told["hosts"]],
                         [(f"host{i}", [i - 1], f"10.231.78.{i}") for i in (1, 2, 3, 4)])
        self.assertEqual(told["transport"], "tcp")
        self.assertTrue(all(one["cores"] >= 1 and one["memories"] for one in told["hosts"]), output)
        self.assertEqual(told["hosts"][0]["same_machine_as"], [1, 2, 3])  # one kernel has them all
        self.assertRegex(picture.read_text(), r"(?s)^<svg .*host1.*host4.*</svg>\s*$")
        here = self.hosts.run(1, RUNNER, "-n", "2", "--no-prefix", "--", COMMAND, "topo")
        self.assertIn("ranks 0, 1 share memory", here)


if __name__ == "__main__":
    unittest.main(verbosity=2)
