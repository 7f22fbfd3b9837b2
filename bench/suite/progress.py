# SPDX-License-Identifier: Apache-2.0
"""How far it is, on stderr, if somebody may be looking."""

import shutil
import sys
import time

WIDTH = 30


class Progress:
    def __init__(self):
        self._start = time.monotonic()
        self._shown = sys.stderr.isatty()

    @property
    def elapsed_s(self):
        return time.monotonic() - self._start

    def show(self, left_s, what):
        if not self._shown:
            return
        filled = int(WIDTH * self.elapsed_s / max(self.elapsed_s + left_s, 1e-3))
        bar = "#" * filled + "." * (WIDTH - filled)
        minutes, seconds = divmod(int(left_s + 0.5), 60)
        columns = shutil.get_terminal_size().columns
        text = f"[{bar}] {minutes}:{seconds:02} left  {what}"
        sys.stderr.write(f"\r\033[K{text[:columns - 1]}")
        sys.stderr.flush()

    def note(self, text):
        self.clear()
        print(text, file=sys.stderr)

    def clear(self):
        if self._shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
