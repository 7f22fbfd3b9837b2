# SPDX-License-Identifier: Apache-2.0
"""What can happen to the network between test hosts."""

import re
import shutil
import unittest

import hosts as hosts_of_test


def require():
    """For setUpClass."""
    hosts_of_test.require()
    if not shutil.which("nft"):
        raise unittest.SkipTest("nft is not installed")


class FaultyHosts(hosts_of_test.Hosts):
    @staticmethod
    def _port(host):
        return f"p{host}eth0"

    def cut(self, host):
        """Pulls its cable."""
        self.run(0, "ip", "link", "set", self._port(host), "down")

    def take_link_down(self, host):
        """At the host itself, which then has no route for what it sends."""
        self.run(host, "ip", "link", "set", "eth0", "down")

    def take_address(self, host):
        self.run(host, "ip", "addr", "del", f"{self.address(host)}/24", "dev", "eth0")

    def take_route(self, source, target):
        """What the first one sends to the second never leaves it; what the second sends arrives."""
        self.run(source, "ip", "route", "add", "blackhole", f"{self.address(target)}/32")

    def heal(self, host):
        self.run(0, "ip", "link", "set", self._port(host), "up")

    def limit(self, host, rate):
        """Of its link, both ways."""
        limit = ["root", "tbf", "rate", rate, "burst", "128kb", "latency", "50ms"]
        self.run(host, "tc", "qdisc", "replace", "dev", "eth0", *limit)
        self.run(0, "tc", "qdisc", "replace", "dev", self._port(host), *limit)

    def drop(self, source, target):
        """The switch loses what goes from one host to another; neither of them is told."""
        self._filter(f"ip saddr {self.address(source)} ip daddr {self.address(target)} drop")

    def lose(self, percent):
        """The switch loses that part of all packets."""
        self._filter(f"meta protocol ip numgen random mod 1000 < {round(10 * percent)} drop")

    def reset(self, host):
        """Ends the connection on which a host has sent most, as a firewall does that forgets it."""
        lines = self.run(host, "ss", "-tniHO").splitlines()
        sent = {line: int(found.group(1)) for line in lines if (found := re.search(r"bytes_acked:(\d+)", line))}
        local, remote = max(sent, key=sent.get).split()[3:5]
        ports = f"tcp sport {local.rsplit(':', 1)[1]} tcp dport {remote.rsplit(':', 1)[1]}"
        self.run(host, "nft", "add", "table", "inet", "faults")
        self.run(host, "nft", "add", "chain", "inet", "faults", "out", "{ type filter hook output priority 0; }")
        self.run(host, "nft", "add", "rule", "inet", "faults", "out", f"{ports} reject with tcp reset")

    def _filter(self, rule):
        chain = "{ type filter hook forward priority 0; }"
        self.run(0, "nft", "add", "table", "bridge", "faults")
        self.run(0, "nft", "add", "chain", "bridge", "faults", "links", chain)
        self.run(0, "nft", "add", "rule", "bridge", "faults", "links", rule)
