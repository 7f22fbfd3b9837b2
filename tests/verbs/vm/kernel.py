# SPDX-License-Identifier: Apache-2.0
"""Debian's kernels: fetched without being installed, their images unpacked, their modules found."""

import lzma
import pathlib
import re
import shutil
import subprocess
import tempfile

# Of a kernel's modules, what a guest may want.
KEPT = re.compile(r"/kernel/(arch|crypto|fs|lib|net|drivers/(char|infiniband|virtio|net/dummy))")
META_PACKAGE = "linux-image-amd64"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class NoKernel(Exception):
    """Why there is none."""


def fetch(folder, suite):
    """The version of the kernel in `suite` (empty: of this machine's package lists), which lies in `folder` from now on."""
    folder.mkdir(parents=True, exist_ok=True)
    noted = folder / f"version-{suite or 'installed'}"
    if noted.exists():
        return noted.read_text(encoding="ascii").strip()
    with tempfile.TemporaryDirectory(dir=folder) as name:
        work = pathlib.Path(name).resolve()
        apt = Apt(work, suite)
        package = apt.kernel_package()
        version = package.removeprefix("linux-image-")
        apt.run("apt-get", "-qq", "download", package)
        unpack(next(work.glob("*.deb")), work, folder / version)
    noted.write_text(version + "\n", encoding="ascii")
    return version


class Apt:
    """apt with the machine's lists, or, for another suite, with lists of its own, which leave the machine's alone."""

    def __init__(self, work, suite):
        self.work = work
        self.options = ["-o", "APT::Sandbox::User=root"]
        if not suite:
            return
        mirror = self.run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Origin: Debian", "Label: Debian").split()
        if not mirror:
            raise NoKernel("the package lists name no Debian mirror: apt-get update")
        for part in ("lists/partial", "cache/archives/partial"):
            (work / part).mkdir(parents=True)
        source = work / "suite.sources"
        source.write_text(f"Types: deb\nURIs: {mirror[0]}\nSuites: {suite}\nComponents: main\nSigned-By: {KEYRING}\n")
        for name, value in (("Dir::Etc::sourcelist", source), ("Dir::Etc::sourceparts", "/dev/null"),
                            ("Dir::State::lists", work / "lists"), ("Dir::Cache", work / "cache")):
            self.options += ["-o", f"{name}={value}"]
        self.run("apt-get", "-qq", "update")

    def run(self, program, *arguments):
        done = subprocess.run([program, *self.options, *arguments], cwd=self.work, text=True, capture_output=True, check=False)
        if done.returncode != 0:
            raise NoKernel(f"{program} {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout

    def kernel_package(self):
        depends = self.run("apt-cache", "depends", META_PACKAGE)
        found = re.search(r"Depends: (linux-image-\d\S*)", depends)
        if not found:
            raise NoKernel(f"{META_PACKAGE} is in no package list: apt-get update")
        return found[1]


def unpack(package, work, into):
    """Leaves the image and the modules that a guest may want."""
    files = work / "files"
    subprocess.run(["dpkg-deb", "--extract", package, files], check=True)
    kept = work / "kept"
    kept.mkdir()
    for module in files.rglob("*.ko*"):
        if KEPT.search(str(module)):
            shutil.copy(module, kept / module.name)
    if not list(kept.glob("rdma_rxe.ko*")):
        raise NoKernel(f"{package.name} has no rdma_rxe")
    (kept / "vmlinux").write_bytes(elf_of(next((files / "boot").glob("vmlinuz-*")).read_bytes()))
    shutil.rmtree(into, ignore_errors=True)
    kept.rename(into)


def elf_of(image):
    """The ELF image within a bzImage: unpacked here, it boots twice as fast under emulation."""
    for magic, program in ((b"\xfd7zXZ\x00", "xz"), (b"\x28\xb5\x2f\xfd", "zstd")):
        at = image.find(magic)
        if at < 0:
            continue
        # What follows the compressed image makes both complain, behind the last byte of it.
        unpacked = subprocess.run([program, "-dcq"], input=image[at:], capture_output=True, check=False).stdout
        if unpacked.startswith(b"\x7fELF"):
            return unpacked
    raise NoKernel("the kernel's image is compressed in a way that is not known here")


class Kernel:
    """One that was fetched."""

    def __init__(self, folder, version):
        self.folder = (folder / version).resolve()
        self.image = self.folder / "vmlinux"
        if not self.image.exists():
            raise NoKernel(f"{folder} has no kernel {version}: vm fetch {folder}")
        self.files = {self.name_of(path.name): path for path in self.folder.glob("*.ko*")}

    @staticmethod
    def name_of(file):
        return file.split(".ko")[0].replace("-", "_")

    def modules(self, *names):
        """(name, bytes) of these modules and all that they need, each behind what it needs; others are built in."""
        loaded = {}
        for name in names:
            self.add(name, loaded)
        return list(loaded.items())

    def add(self, name, loaded):
        if name in loaded or name not in self.files:
            return
        module = read_module(self.files[name])
        for needed in re.search(rb"\0depends=([^\0]*)\0", module)[1].decode().split(","):
            self.add(needed.replace("-", "_"), loaded)
        loaded[name] = module


def read_module(path):
    if path.suffix == ".xz":
        return lzma.decompress(path.read_bytes())
    if path.suffix == ".zst":
        return subprocess.run(["zstd", "-dcq", path], check=True, capture_output=True).stdout
    return path.read_bytes()
