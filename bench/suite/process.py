# SPDX-License-Identifier: Apache-2.0
"""Starts a program, reads its lines as they come, and ends it with everything that it started."""

import ctypes
import os
import pathlib
import select
import signal
import subprocess
import time

PR_SET_PDEATHSIG = 1
MARK = "COHORT_BENCH_LAUNCH"  # in the environment of all that a launch starts: launchers make sessions of their own
LINE_LIMIT = 1 << 20


class Failed(Exception):
    """The program did not end well in time."""


class Process:
    """Iterate it for the lines of standard output. Throws Failed. Ends when the block that it manages ends."""

    _launches = 0

    def __init__(self, argv, environment, line_timeout_s):
        Process._launches += 1
        self._mark = f"{os.getpid()}-{Process._launches}"
        self._timeout_s = line_timeout_s
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
                env={**os.environ, **environment, MARK: self._mark})
        except OSError as error:
            raise Failed(f"{argv[0]}: {error.strerror}") from None
        self._complaints = bytearray()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind or self._process.poll() is None:
            self._end()
        self._process.stdout.close()
        self._process.stderr.close()

    def __iter__(self):
        pending = bytearray()
        streams = {self._process.stdout: pending, self._process.stderr: self._complaints}
        deadline = time.monotonic() + self._timeout_s
        while streams:
            ready, _, _ = select.select(list(streams), [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self._end()
                raise Failed(f"no answer within {self._timeout_s:g} s")
            for stream in ready:
                some = os.read(stream.fileno(), 1 << 16)
                if not some:
                    del streams[stream]
                streams.get(stream, bytearray()).extend(some)
            while (end := pending.find(b"\n")) >= 0:
                deadline = time.monotonic() + self._timeout_s
                yield pending[:end].decode(errors="replace")
                del pending[:end + 1]
            if max(len(pending), len(self._complaints)) > LINE_LIMIT:
                self._end()
                raise Failed("prints without end")
        self._finish(deadline)

    def _finish(self, deadline):
        try:
            status = self._process.wait(timeout=max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._end()
            raise Failed("closed its output but did not end") from None
        if status != 0:
            self._sweep()
            raise Failed(f"status {status}: {self.first_complaint()}")

    def first_complaint(self):
        text = self._complaints.decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip(" -\t*")]
        return lines[0][:160] if lines else "no message"

    def _end(self):
        """A launcher told to end takes its ranks with it; what does not listen is killed."""
        for how in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self._process.pid, how)
            except ProcessLookupError:
                break
            try:
                self._process.communicate(timeout=3)
                break
            except subprocess.TimeoutExpired:
                continue
        self._sweep()

    def _sweep(self):
        """Kills what bears this launch's mark and is still there."""
        wanted = f"{MARK}={self._mark}".encode()
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                continue  # ended meanwhile, or another user's
