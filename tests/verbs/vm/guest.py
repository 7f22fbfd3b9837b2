# SPDX-License-Identifier: Apache-2.0
"""The guest: an initial file system of busybox and modules, and QEMU."""

import ctypes
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

# What virtio, the root file system and the RDMA device take; the last ones are for tests.
MODULES = ("virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay", "crc32_generic", "crc32c_generic", "ib_uverbs",
           "rdma_ucm", "rdma_rxe", "dummy")
FOLDERS = ("bin", "dev", "host", "lower", "modules", "proc", "sys", "upper")


# QEMU 7.2, one emulated processor patching code that another one runs: the other may take the kernel's own breakpoint for
# one that nobody has set. A boot in many ends so, whatever runs in the guest.
EMULATOR_FAULT = "Oops: int3"
MOST_STARTS = 3


class NoGuest(Exception):
    """Why there is none."""


class EmulatorFault(NoGuest):
    """The emulation went wrong, not what runs in it."""


def run(kernel, script, options):
    """Runs the script in a guest; its exit status, or 124. Once more from its beginning, if the emulation fails."""
    for start in range(1, MOST_STARTS):
        try:
            return run_once(kernel, script, options)
        except EmulatorFault as fault:
            print(f"vm: start {start} of {MOST_STARTS} at most: {fault}", file=sys.stderr)
    return run_once(kernel, script, options)


def run_once(kernel, script, options):
    with tempfile.TemporaryDirectory(prefix="verbs-vm-") as name:
        folder = pathlib.Path(name)
        (folder / "initrd").write_bytes(initial_files(kernel, script))
        console = options.console or folder / "console"
        silence, kept_open = os.pipe()  # at the end of its input, QEMU would drop the guest's output
        try:
            done = subprocess.run(
                qemu_command(kernel, folder, console, options), stdin=silence, timeout=options.timeout,
                preexec_fn=end_with_parent, check=False)
        except subprocess.TimeoutExpired:
            print(f"vm: the guest was not done after {options.timeout:g} s", file=sys.stderr)
            return 124
        finally:
            os.close(silence)
            os.close(kept_open)
        status = re.fullmatch(r"exit (\d+)\s*", read_text(folder / "status"))
        if status:
            return int(status[1])
        said = read_text(console)
        tail = said[-4000:]
        kind = EmulatorFault if EMULATOR_FAULT in said else NoGuest
        raise kind(f"the guest ended without a status (QEMU's is {done.returncode}); its console ends with:\n{tail}")


def read_text(path):
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def end_with_parent():
    """QEMU does not outlive whoever kills us."""
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)


def qemu_command(kernel, folder, console, options):
    program = shutil.which("qemu-system-x86_64")
    if program is None:
        raise NoGuest("there is no qemu-system-x86_64: install qemu-system-x86")
    arguments = ["console=ttyS0", "quiet", "panic=-1", "mitigations=off", "nokaslr", "tsc=reliable", "no_timer_check", "nowatchdog",
                 "random.trust_cpu=on", "audit=0", "apparmor=0", "oops=panic"] + tsc_rate()
    return [
        program, "-accel", "tcg,thread=multi", "-machine", "q35", "-cpu", "max,la57=off", "-smp", str(options.processors),
        "-m", options.memory, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-nic", "none",
        "-kernel", str(kernel.image), "-initrd", str(folder / "initrd"), "-append", " ".join(arguments),
        "-chardev", f"file,id=console,path={console}", "-serial", "chardev:console", "-device", "virtio-serial-pci",
        "-chardev", "stdio,id=output,signal=off", "-device", "virtserialport,chardev=output,name=output",
        "-chardev", f"file,id=status,path={folder}/status", "-device", "virtserialport,chardev=status,name=status",
        "-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
        "-device", "virtio-9p-pci,fsdev=root,mount_tag=root",
    ]


def tsc_rate():
    """Told, since a guest that measures it on a busy host may be wrong ten times over, and every clock with it."""
    bogomips = re.search(r"^bogomips\s*:\s*([\d.]+)", pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii"), re.MULTILINE)
    return [f"tsc_early_khz={float(bogomips[1]) * 500:.0f}"] if bogomips else []


def initial_files(kernel, script):
    busybox = shutil.which("busybox")
    if busybox is None:
        raise NoGuest("there is no busybox: install busybox-static")
    archive = Archive()
    for folder in FOLDERS:
        archive.add_folder(folder)
    archive.add("bin/busybox", pathlib.Path(busybox).read_bytes(), is_program=True)
    archive.add("init", (pathlib.Path(__file__).parent / "init").read_bytes(), is_program=True)
    archive.add("command", script.encode())
    modules = kernel.modules(*MODULES)
    for name, module in modules:
        archive.add(f"modules/{name}.ko", module)
    archive.add("order", "".join(f"{name}\n" for name, _ in modules).encode())
    return archive.finish()


class Archive:
    """A cpio archive in the kernel's format (newc: Documentation/driver-api/early-userspace/buffer-format.rst)."""

    def __init__(self):
        self.parts = []
        self.entries = 0

    def add_folder(self, name):
        self.entry(name, 0o040755, b"")

    def add(self, name, content, is_program=False):
        self.entry(name, 0o100755 if is_program else 0o100644, content)

    def entry(self, name, mode, content):
        self.entries += 1
        fields = [self.entries, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
        head = b"070701" + "".join(f"{field:08x}" for field in fields).encode() + name.encode() + b"\0"
        self.parts += [self.padded(head), self.padded(content)]

    @staticmethod
    def padded(part):
        return part + bytes(-len(part) % 4)

    def finish(self):
        self.entry("TRAILER!!!", 0, b"")
        return b"".join(self.parts)
