# SPDX-License-Identifier: Apache-2.0
"""What machine this is."""

import os
import pathlib
import platform
import re
import subprocess

CPUS = pathlib.Path("/sys/devices/system/cpu")
PACKAGES = ("openmpi-bin", "mpich", "libucx0", "libgloo0", "libfabric1", "liburing2")


def usable_cores():
    """Cores, not hardware threads, that this process may use."""
    cores = set()
    for cpu in os.sched_getaffinity(0):
        try:
            cores.add((CPUS / f"cpu{cpu}/topology/thread_siblings_list").read_text())
        except OSError:
            cores.add(cpu)
    return len(cores)


def cache_bytes(indices):
    """Of the caches of the first core whose index matches."""
    sizes = []
    for entry in (CPUS / "cpu0/cache").glob(f"index{indices}/size"):
        match = re.fullmatch(r"(\d+)K", entry.read_text().strip())
        sizes += [int(match[1]) << 10] if match else []
    return sizes


def core_cache_bytes():
    """Of the second level; 1 MiB where the system does not say."""
    return max(cache_bytes("2"), default=1 << 20)


def largest_cache_bytes():
    """32 MiB where the system does not say."""
    return max(cache_bytes("*"), default=32 << 20)


def value_of(path, name):
    try:
        match = re.search(rf"^{name}\s*:\s*(.*)$", pathlib.Path(path).read_text(), re.MULTILINE)
    except OSError:
        return ""
    return match[1].strip() if match else ""


def output_of(*argv):
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=10, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def packages():
    """Names and versions of the installed ones."""
    lines = output_of("dpkg-query", "-W", "-f", "${Package} ${Version}\\n", *PACKAGES).splitlines()
    return [line for line in lines if len(line.split()) == 2]


def facts(options):
    """(what, value) pairs for the report."""
    yield "processor", value_of("/proc/cpuinfo", "model name") or platform.machine()
    yield "cores used", f"{options.cores} of {os.cpu_count()} logical processors"
    yield "last-level cache", f"{largest_cache_bytes() >> 20} MiB"
    yield "memory", value_of("/proc/meminfo", "MemTotal")
    yield "kernel", f"{platform.system()} {platform.release()}"
    yield "system", platform.freedesktop_os_release().get("PRETTY_NAME", "") if hasattr(
        platform, "freedesktop_os_release") else ""
    yield "compiler", output_of("c++", "--version").split("\n")[0]
    yield "cohort", output_of("git", "-C", str(pathlib.Path(__file__).parent), "describe", "--always", "--dirty")
    yield "packages", ", ".join(packages())
    yield "load at the start", f"{os.getloadavg()[0]:.2f}"
