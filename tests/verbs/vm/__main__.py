# SPDX-License-Identifier: Apache-2.0
"""Runs a command of this machine in a guest whose kernel has an RDMA device, rdma_rxe's rxe0.

    vm packages                                the Debian packages that it takes
    vm fetch FOLDER [SUITE]                    a kernel of Debian into FOLDER, unless it is there; prints its version
    vm run FOLDER VERSION [OPTION]... -- COMMAND [ARGUMENT]...

The guest is emulated, needs no KVM and no disk image, and sees this machine's files at their own paths: it reads them
over 9p and keeps what it writes in its memory. The command runs as root, in the current folder, with the environment
of the caller. Its output comes here as it appears, and its exit status is ours. 124: the time was over; 125: there was
no guest, or it ended without a status.
"""

import argparse
import os
import pathlib
import shlex
import sys

sys.dont_write_bytecode = True
import guest
import kernel

PACKAGES = ("qemu-system-x86", "busybox-static", "iproute2", "ibverbs-providers", "xz-utils", "zstd")


def parse(arguments):
    parser = argparse.ArgumentParser(prog="vm", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("packages")
    fetch = verbs.add_parser("fetch")
    fetch.add_argument("folder", type=pathlib.Path)
    fetch.add_argument("suite", nargs="?", default="")
    run = verbs.add_parser("run")
    run.add_argument("folder", type=pathlib.Path)
    run.add_argument("version")
    run.add_argument("--memory", default="1G", help="of the guest (1G)")
    run.add_argument("--processors", type=int, default=2, help="of the guest (2)")
    run.add_argument("--timeout", type=float, default=300, help="seconds, from start to end (300)")
    run.add_argument("--console", type=pathlib.Path, help="keep the kernel's messages here")
    run.add_argument("command", nargs="+")
    return parser.parse_args(arguments)


def script_of(command):
    """What the guest's shell runs: the command as it would run here."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in os.environ.items() if name.isidentifier()]
    return "\n".join(lines + [f"cd {shlex.quote(os.getcwd())} || exit 126", f"exec {shlex.join(command)}\n"])


def main():
    options = parse(sys.argv[1:])
    if options.verb == "packages":
        print(*PACKAGES)
        return 0
    try:
        if options.verb == "fetch":
            print(kernel.fetch(options.folder, options.suite))
            return 0
        found = kernel.Kernel(options.folder, options.version)
        return guest.run(found, script_of(options.command), options)
    except (guest.NoGuest, kernel.NoKernel) as error:
        print(f"vm: {error}", file=sys.stderr)
        return 125


if __name__ == "__main__":
    sys.exit(main())
