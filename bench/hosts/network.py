# SPDX-License-Identifier: Apache-2.0
"""Hosts for measurements: network namespaces with names, since launchers of others find them by these, at one switch.

Needs root. Everything, the switch too, lies in namespaces whose names begin with the prefix, so that the network of the
machine is not touched; all of it ends with the block that manages it.
"""

import os
import pathlib
import subprocess

SUBNET = "10.231.78"


def can_make_hosts():
    return os.geteuid() == 0 and subprocess.run(["unshare", "--net", "--uts", "ip", "link"], capture_output=True).returncode == 0


class Hosts:
    def __init__(self, count, rate=None):
        self.count = count
        self._rate = rate  # as tc takes it, such as "1gbit"; None: as fast as the machine
        self._prefix = f"cohort-{os.getpid()}"
        self._switch = f"{self._prefix}-switch"

    def name(self, host):
        return f"{self._prefix}-{host}"

    def address(self, host):
        return f"{SUBNET}.{host + 1}"

    def inside(self, host, argv):
        """What to start so that argv runs there."""
        name = f'hostname host{host}; exec "$@"'
        return ["ip", "netns", "exec", self.name(host), "unshare", "--uts", "sh", "-c", name, "sh", *argv]

    def __enter__(self):
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_):
        self._remove()

    def _make(self):
        _run("ip", "netns", "add", self._switch)
        self._at_switch("ip", "link", "add", "bridge0", "type", "bridge", "stp_state", "0")
        self._at_switch("ip", "link", "set", "bridge0", "up")
        for host in range(self.count):
            self._connect(host)

    def _connect(self, host):
        name, port = self.name(host), f"port{host}"
        _run("ip", "netns", "add", name)
        _run("ip", "link", "add", port, "netns", self._switch, "type", "veth", "peer", "name", "eth0", "netns", name)
        self._at_switch("ip", "link", "set", port, "master", "bridge0", "up")
        here = ["ip", "netns", "exec", name]
        _run(*here, "ip", "link", "set", "lo", "up")
        _run(*here, "ip", "address", "add", f"{self.address(host)}/24", "dev", "eth0")
        _run(*here, "ip", "link", "set", "eth0", "up")
        if self._rate:
            self._limit(host, self._rate)

    def set_rate(self, rate):
        """Of all links, amid what runs, as tc takes it. Where they were not limited, they are from now on."""
        for host in range(self.count):
            self._limit(host, rate)

    def _limit(self, host, rate):
        limit = ["root", "tbf", "rate", rate, "burst", "128kb", "latency", "50ms"]
        _run("ip", "netns", "exec", self.name(host), "tc", "qdisc", "replace", "dev", "eth0", *limit)
        self._at_switch("tc", "qdisc", "replace", "dev", f"port{host}", *limit)

    def _at_switch(self, *argv):
        _run("ip", "netns", "exec", self._switch, *argv)

    def _remove(self):
        for name in [*map(self.name, range(self.count)), self._switch]:
            if pathlib.Path("/run/netns", name).exists():
                subprocess.run(["ip", "netns", "delete", name], check=False)


def _run(*argv):
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"bench hosts: {' '.join(argv)}: {done.stderr.strip()}")
