# SPDX-License-Identifier: Apache-2.0
"""Ranks start and work where containers confine them: no /dev/shm, no file to write, little locked memory, no privilege.

Each place is made of namespaces that end with the test, by whatever user: what a rank must not have there is tried first.
"""

import os
import subprocess
import sys
import unittest

from support import BUILD, RUNNER, environment

# Shell commands that confine what follows; run as root of a namespace of users and one of mounts.
NO_SHM = "mount -t tmpfs -o ro,mode=000,size=4k none /dev/shm"
READ_ONLY = """for place in $(cut -d' ' -f5 /proc/self/mountinfo | sort -ru); do mount -o remount,bind,ro "$place"; done 2>/dev/null
! touch "$PWD/x" /tmp/x "$HOME/x" 2>/dev/null || exit 75"""
LITTLE_LOCKED = "ulimit -l 64"
# Another namespace, in which nobody is mapped: a user without a name and without any privilege.
NOBODY = """exec unshare --user sh -c 'grep -q "^CapEff:.0*$" /proc/self/status || exit 75; exec "$@"' sh "$@" """
AS_ROOT = 'exec "$@"'

PLACES = {
    "without /dev/shm": (NO_SHM, AS_ROOT),
    "with a read-only root": (READ_ONLY, AS_ROOT),
    "as nobody, with 64 KiB of locked memory": (LITTLE_LOCKED, NOBODY),
    "with all of it": (NO_SHM, READ_ONLY, LITTLE_LOCKED, NOBODY),
}

PACKAGE = """
import os, sys
import cohort, numpy

sys.dont_write_bytecode = True
comm = cohort.init(timeout=30)
assert comm.transport == os.environ["COHORT_TRANSPORT"], comm.transport
for count in (1, 1000, 1_000_000):
    assert (cohort.all_reduce(numpy.ones(count, dtype=numpy.float32)) == comm.size).all()
mapped = cohort.empty(1 << 18)
mapped[:] = 1
assert (cohort.all_reduce(mapped, out=mapped) == comm.size).all()
cohort.split(0).barrier()
print("through", flush=True)
"""
TRAINING = [BUILD / "bin" / "train_digits", "--epochs", "1"]


def confined(place, command, **variables):
    """(status, output and errors) of a command in such a place."""
    script = "\n".join(("mount --make-rprivate /", *place))
    shell = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    done = subprocess.run([*shell, *map(str, command)], env=environment(**variables), text=True, timeout=90, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


class Confined(unittest.TestCase):
    def setUp(self):
        if confined((AS_ROOT,), ["true"])[0] != 0:
            self.skipTest("this host gives nobody namespaces of users")

    def check_ranks(self, place, command, **variables):
        status, output = confined(PLACES[place], [RUNNER, "-n", "2", "--timeout", "60", "--", *command], **variables)
        self.assertNotEqual(status, 75, "the place does not confine as it should")
        self.assertEqual(status, 0, output)
        return output

    def test_ranks_of_the_package(self):
        for place in PLACES:
            for transport in ("shm", "tcp"):
                with self.subTest(place, transport=transport):
                    output = self.check_ranks(place, [sys.executable, "-c", PACKAGE], COHORT_TRANSPORT=transport)
                    self.assertEqual(output.count("through"), 2, output)

    def test_programs_over_both_drivers(self):
        for place in PLACES:
            for driver in ({}, {"COHORT_IO": "epoll"}):
                with self.subTest(place, driver=driver):
                    self.check_ranks(place, TRAINING, **driver)

    def test_where_locked_memory_is_short_for_io_uring_it_says_so_or_works(self):
        place = PLACES["as nobody, with 64 KiB of locked memory"]
        status, output = confined(place, TRAINING, COHORT_IO="uring")
        if status != 0:  # rings count against it, on this kernel
            self.assertIn("ResourceLimit: no memory for io_uring", output)
            self.assertIn("ulimit -l", output)
            status, output = confined(place, TRAINING, COHORT_DEBUG="info")
            self.assertEqual(status, 0, output)
            self.assertIn("epoll in place of io_uring", output)

    def test_a_limit_that_is_too_low_says_what_to_raise(self):
        # Of descriptors: an interpreter needs less than an engine.
        script = "import cohort, resource; resource.setrlimit(resource.RLIMIT_NOFILE, (7, 7)); cohort.init()"
        status, output = confined((NOBODY,), [sys.executable, "-c", script])
        self.assertNotEqual(status, 0)
        self.assertIn("ResourceLimit", output)
        self.assertIn("ulimit -n", output)


if __name__ == "__main__":
    unittest.main()
