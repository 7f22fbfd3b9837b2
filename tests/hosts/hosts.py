# SPDX-License-Identifier: Apache-2.0
"""Several "hosts" on this machine, out of namespaces: each with a network, name and shared memory of its own, at one switch.
File system, processes and cores are shared, as by containers. Everything ends with this process, and nothing of the machine's own network is
touched. Needs root.
"""

import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

NETWORK = "10.231.78"
NETWORK_6 = "fd00:78::"
PR_SET_PDEATHSIG = 1
PATIENCE_S = 20
BUILD = pathlib.Path(os.environ.get("COHORT_TEST_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build" / "release"))
RUNNER = BUILD / "bin" / "cohort-run"
COMMAND = BUILD / "bin" / "cohort"
libc = ctypes.CDLL(None, use_errno=True)


def _die_with_parent():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def why_not():
    """Why there can be no hosts here, or None."""
    if os.geteuid() != 0:
        return "namespaces for hosts can be made by root only"
    for program in ("ip", "unshare", "nsenter"):
        if not shutil.which(program):
            return f"{program} is not installed"
    made = subprocess.run(["unshare", "--net", "--uts", "--ipc", "--mount", "ip", "link", "add", "x", "type", "bridge"],
                          capture_output=True, text=True, check=False)
    return f"no namespaces can be made here: {made.stderr.strip()}" if made.returncode else None


def require():
    """For setUpClass."""
    if reason := why_not():
        raise unittest.SkipTest(reason)
    for program in (RUNNER, COMMAND):
        if not program.exists():
            raise unittest.SkipTest(f"{program} is not built")


def require_ssh():
    """The same, for Hosts.serve_ssh()."""
    require()
    if not pathlib.Path("/usr/sbin/sshd").exists() or not shutil.which("ssh-keygen"):
        raise unittest.SkipTest("openssh-server is not installed")


def _holder(*namespaces, script="true", arguments=()):
    """A process that keeps namespaces alive, once the script has made them what they are to be."""
    holder = subprocess.Popen(
        ["unshare", *namespaces, "--propagation", "private", "sh", "-ec", script.strip() + "\necho up; exec sleep infinity", "sh",
         *map(str, arguments)] if "--mount" in namespaces else
        ["unshare", *namespaces, "sh", "-ec", script.strip() + "\necho up; exec sleep infinity", "sh", *map(str, arguments)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=_die_with_parent)
    if holder.stdout.readline() != b"up\n":
        raise RuntimeError(holder.stderr.read().decode())
    return holder


HOST_SCRIPT = """
mkdir "$2/cgroup-$1"; mount --rbind /sys/fs/cgroup "$2/cgroup-$1"
mount -t sysfs sysfs /sys; mount --rbind "$2/cgroup-$1" /sys/fs/cgroup; umount -l "$2/cgroup-$1"
hostname "host$1"; mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=1777 tmp /tmp
mount --bind "$2/hosts" /etc/hosts
mkdir -p /run/sshd; mount -t tmpfs -o mode=0755 sshd /run/sshd
ip link set lo up
"""


class Hosts:
    """Hosts 1 to n, `host1` and so on at 10.231.78.1 and so on, by `eth0`. To be used as a context."""

    def __init__(self, count):
        BUILD.mkdir(parents=True, exist_ok=True)
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="hosts-", dir=BUILD))  # not in /tmp, of which each host has its own
        self._count = count
        self._holders = []
        self._started = []

    def __enter__(self):
        lines = ["127.0.0.1 localhost"] + [f"{NETWORK}.{i} host{i}" for i in range(1, self._count + 1)]
        (self._folder / "hosts").write_text("\n".join(lines) + "\n")
        try:
            self._switch = _holder("--net", script="ip link set lo up; ip link add br0 type bridge stp_state 0; ip link set br0 up")
            self._holders.append(self._switch)
            for i in range(1, self._count + 1):
                self._holders.append(_holder("--net", "--uts", "--ipc", "--mount", script=HOST_SCRIPT, arguments=(i, self._folder)))
                self.connect(i, "eth0", f"{NETWORK}.{i}/24", f"{NETWORK_6}{i}/64")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr, process.stdin):
                if stream:
                    stream.close()
        for holder in reversed(self._holders):
            holder.kill()
            holder.wait()
            holder.stdout.close()
            holder.stderr.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def folder(self):
        return self._folder

    def address(self, host):
        return f"{NETWORK}.{host}"

    def _inside(self, host):
        kinds = ["--net"] if host == 0 else ["--net", "--uts", "--ipc", "--mount"]
        return ["nsenter", "-t", str(self._holders[host].pid), *kinds] + ([] if host == 0 else [f"--wdns={os.getcwd()}"]) + ["--"]

    def connect(self, host, interface, *addresses, switch="br0"):
        """One more interface of a host, at a port of the switch, or at another one, which is then made."""
        port = f"p{host}{interface}"[:15]
        if switch != "br0":
            self.run(0, "sh", "-c", f"ip link show {switch} >/dev/null 2>&1 || (ip link add {switch} type bridge && ip link set {switch} up)")
        self.run(0, "ip", "link", "add", port, "type", "veth", "peer", "name", interface, "netns", str(self._holders[host].pid))
        self.run(0, "ip", "link", "set", port, "master", switch, "up")
        for address in addresses:
            self.run(host, "ip", "addr", "add", address, "dev", interface, *(["nodad"] if ":" in address else []))
        # The address that it gives itself can be used at once, too.
        self.run(host, "sh", "-c", f"echo 0 >/proc/sys/net/ipv6/conf/{interface}/accept_dad")
        self.run(host, "ip", "link", "set", interface, "up")

    def run(self, host, *argv, environment=None, timeout=PATIENCE_S, check=True):
        """Its standard output; 0 is the switch."""
        done = self.outcome(host, *argv, environment=environment, timeout=timeout)
        if check and done.returncode:
            raise RuntimeError(f"{argv}: status {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def outcome(self, host, *argv, environment=None, timeout=PATIENCE_S):
        try:
            return subprocess.run([*self._inside(host), *map(str, argv)], capture_output=True, text=True, timeout=timeout,
                                  stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})}, check=False)
        except subprocess.TimeoutExpired as late:
            said = b"".join(filter(None, (late.stdout, late.stderr))).decode(errors="replace")
            raise RuntimeError(f"{argv}: not over after {timeout} s, and said: {said or 'nothing'}") from None

    def start(self, host, *argv, environment=None, **options):
        process = subprocess.Popen([*self._inside(host), *map(str, argv)], text=True, stdin=subprocess.DEVNULL,
                                   env={**os.environ, **(environment or {})}, preexec_fn=_die_with_parent, **options)
        self._started.append(process)
        return process

    def serve_ssh(self):
        """A real sshd on each host, and `ssh hostN` from each to each without a password, as users have it."""
        folder = self._folder
        for name in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
        public = (folder / "host_key.pub").read_text().split()
        names = ",".join(f"host{i},{NETWORK}.{i}" for i in range(1, self._count + 1))
        (folder / "known_hosts").write_text(f"{names} {public[0]} {public[1]}\n")
        (folder / "sshd_config").write_text(
            f"HostKey {folder}/host_key\nAuthorizedKeysFile {folder}/user_key.pub\nStrictModes no\nUsePAM no\n"
            f"PermitRootLogin prohibit-password\nPidFile none\nMaxStartups 100\nUseDNS no\n")
        (folder / "ssh_config").write_text(
            f"Host *\n  IdentityFile {folder}/user_key\n  IdentitiesOnly yes\n  UserKnownHostsFile {folder}/known_hosts\n"
            f"  StrictHostKeyChecking yes\n")
        for i in range(1, self._count + 1):
            self.run(i, "mount", "--bind", folder / "ssh_config", "/etc/ssh/ssh_config")
            self.start(i, "/usr/sbin/sshd", "-D", "-e", "-f", folder / "sshd_config", stderr=subprocess.PIPE)
        for i in range(1, self._count + 1):
            until = time.monotonic() + PATIENCE_S
            while self.outcome(i, "ssh", "-o", "BatchMode=yes", f"host{i}", "true").returncode:
                if time.monotonic() > until:
                    raise RuntimeError(f"no sshd on host{i}: {self.outcome(i, 'ssh', '-v', f'host{i}', 'true').stderr}")
                time.sleep(0.1)

    def processes_with(self, text):
        """Numbers of processes, on any host, in whose command line it is."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                try:
                    if text.encode() in (entry / "cmdline").read_bytes().replace(b"\0", b" "):
                        found.append(int(entry.name))
                except OSError:
                    pass
        return found
