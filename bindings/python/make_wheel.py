#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a wheel of the package that a build has: make_wheel.py BUILD FOLDER, for the interpreter that runs this.

It is for this Debian: what the module is linked with comes from its packages, libfmt9, libhwy1, liburing2 and libssl3.
"""

import pathlib
import subprocess
import sys
import sysconfig
import tempfile

METADATA = """Metadata-Version: 2.1
Name: cohort
Version: {version}
Summary: Collective communication between processes, on numpy arrays and torch tensors
License: Apache-2.0
Requires-Python: >={major}.{minor},<{major}.{after}
Provides-Extra: numpy
Requires-Dist: numpy (>=1.23) ; extra == 'numpy'
"""
WHEEL = """Wheel-Version: 1.0
Generator: make_wheel.py
Root-Is-Purelib: false
Tag: {tag}
"""


def version_of(build):
    for line in (build / "CMakeCache.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("CMAKE_PROJECT_VERSION:STATIC="):
            return line.partition("=")[2]
    raise SystemExit(f"make_wheel: {build} is no build of cohort")


def make_wheel(build, folder):
    version, (major, minor) = version_of(build), sys.version_info[:2]
    python = f"cp{major}{minor}"
    tag = f"{python}-{python}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["cmake", "--install", build, "--component", "python", "--strip", "--prefix", scratch], check=True,
                       stdout=subprocess.DEVNULL)
        package = next(pathlib.Path(scratch).rglob("cohort/__init__.py")).parent.parent
        information = package / f"cohort-{version}.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(METADATA.format(version=version, major=major, minor=minor, after=minor + 1),
                                              encoding="utf-8")
        (information / "WHEEL").write_text(WHEEL.format(tag=tag), encoding="utf-8")
        subprocess.run([sys.executable, "-m", "wheel", "pack", package, "--dest-dir", folder], check=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    make_wheel(*map(pathlib.Path, sys.argv[1:]))
