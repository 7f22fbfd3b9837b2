#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Guests whose emulation fails are started again, others are not. QEMU and busybox are played by scripts."""

import os
import pathlib
import sys
import tempfile
import types
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent / "vm"))
import guest

# Plays one line of the plan at each start: what the console says, and the status that the guest leaves.
QEMU = """#!/bin/bash
console=$(grep -o 'path=[^, ]*console' <<<"$*" | cut -d= -f2)
status=$(grep -o 'path=[^, ]*status' <<<"$*" | cut -d= -f2)
IFS='|' read -r said left < <(sed -n "$(( $(wc -l <"$PLAN.starts") + 1 ))p" "$PLAN")
echo start >>"$PLAN.starts"
echo "$said" >"$console"
echo "$left" >"$status"
"""


class Kernel:
    image = "vmlinuz"

    @staticmethod
    def modules(*_):
        return []


class GuestTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.plan = pathlib.Path(folder.name) / "plan"
        (self.plan.parent / "plan.starts").touch()
        for name, text in (("qemu-system-x86_64", QEMU), ("busybox", "#!/bin/sh\n")):
            program = self.plan.parent / name
            program.write_text(text, encoding="ascii")
            program.chmod(0o755)
        path = os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", path)
        os.environ["PATH"] = f"{folder.name}:{path}"
        os.environ["PLAN"] = str(self.plan)

    def run_guest(self, *starts):
        self.plan.write_text("".join(f"{line}\n" for line in starts), encoding="ascii")
        options = types.SimpleNamespace(processors=2, memory="1G", timeout=30, console=None)
        return guest.run(Kernel, "true\n", options)

    def starts(self):
        return len((self.plan.parent / "plan.starts").read_text(encoding="ascii").splitlines())

    def test_a_guest_that_ends_is_started_once(self):
        self.assertEqual(self.run_guest("booted|exit 3"), 3)
        self.assertEqual(self.starts(), 1)

    def test_a_fault_of_the_emulation_is_tried_again(self):
        self.assertEqual(self.run_guest("Oops: int3: 0000 [#1]|", "Oops: int3: 0000 [#1]|", "booted|exit 0"), 0)
        self.assertEqual(self.starts(), 3)

    def test_a_fault_that_stays_is_told(self):
        with self.assertRaisesRegex(guest.NoGuest, "Oops: int3"):
            self.run_guest(*["Oops: int3: 0000 [#1]|"] * 9)
        self.assertEqual(self.starts(), guest.MOST_STARTS)

    def test_what_another_fault_says_is_told_at_once(self):
        with self.assertRaisesRegex(guest.NoGuest, "rxe_qp_do_cleanup"):
            self.run_guest("BUG: unable to handle page fault, rxe_qp_do_cleanup|", "booted|exit 0")
        self.assertEqual(self.starts(), 1)


if __name__ == "__main__":
    unittest.main()
