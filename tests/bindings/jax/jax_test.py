#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""JAX of PyPI with its collectives between CPU processes on cohort, beside numpy and gloo."""

import importlib.util
import os
import pathlib
import re
import socket
import subprocess
import sys
import unittest

BUILD = pathlib.Path(os.environ["COHORT_TEST_BUILD"])
RANKS = pathlib.Path(__file__).with_name("jax_ranks.py")
PAGE = pathlib.Path(__file__).parents[3] / "docs" / "use" / "jax.md"
TIMEOUT_S = 240


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@unittest.skipIf(importlib.util.find_spec("jax") is None, "this interpreter has no jax")
class Jax(unittest.TestCase):
    def run_ranks(self, ranks, case, *options, **environment):
        return self.run_program(ranks, [RANKS, case], *options, **environment)

    def run_program(self, ranks, program, *options, **environment):
        command = [BUILD / "bin" / "cohort-run", "-n", str(ranks), "--timeout", str(TIMEOUT_S), *options, "--", sys.executable,
                   *program]
        done = subprocess.run(list(map(str, command)), env={**os.environ, **environment}, capture_output=True, text=True,
                              check=False)
        return done.returncode, done.stdout + done.stderr

    def test_what_the_page_shows_runs(self):
        (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        status, text = self.run_program(2, ["-c", block + "print(jax.process_count(), 'processes')\n"])
        self.assertEqual(status, 0, text)
        self.assertEqual(text.count("2 processes"), 2, text)

    def check_collectives(self, ranks):
        status, text = self.run_ranks(ranks, "collectives")
        self.assertEqual(status, 0, text)
        self.assertEqual(len(re.findall(f"of {ranks}: {ranks} devices agree with numpy", text)), ranks, text)

    def test_collectives_of_two_ranks_are_what_numpy_says(self):
        self.check_collectives(2)

    def test_collectives_of_four_ranks_are_what_numpy_says(self):
        self.check_collectives(4)

    def test_losses_of_a_training_are_those_over_gloo(self):
        status, text = self.run_ranks(2, "training")
        self.assertEqual(status, 0, text)
        port = str(free_port())
        others = [subprocess.Popen([sys.executable, RANKS, "training", "--gloo", str(rank), "2", port], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(2)]
        outputs = ["".join(one.communicate(timeout=TIMEOUT_S)) for one in others]
        by_cohort, by_gloo = (re.search("losses .*", output) for output in (text, outputs[0]))
        self.assertTrue(by_cohort and by_gloo, text + "".join(outputs))
        self.assertEqual(by_cohort[0], by_gloo[0])

    def test_a_killed_rank_is_named_in_what_jax_raises_on_the_others(self):
        status, text = self.run_ranks(3, "killed", "--keep-going")
        self.assertNotEqual(status, 0, text)
        for rank in (0, 2):
            self.assertRegex(text, rf"rank {rank} ends: JaxRuntimeError: .*PeerDied: rank 1 ")

    def test_ranks_that_disagree_are_told_who_has_what(self):
        status, text = self.run_ranks(2, "disagreeing")
        self.assertNotEqual(status, 0, text)
        for rank in (0, 1):
            self.assertRegex(text, rf"rank {rank} ends: JaxRuntimeError: .*count differs: rank 1 has 5, rank 0 has 4")

    def test_several_devices_of_a_process_are_refused(self):
        status, text = self.run_ranks(2, "collectives", XLA_FLAGS="--xla_force_host_platform_device_count=2")
        self.assertNotEqual(status, 0, text)
        self.assertIn("2 CPU devices in this process", text)


if __name__ == "__main__":
    unittest.main()
