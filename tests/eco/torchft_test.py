# SPDX-License-Identifier: Apache-2.0
"""A process group of torchft's is configured anew for each quorum, also after a rank was killed."""

import re
import signal
import unittest

from support import run_ranks


class TorchFt(unittest.TestCase):
    def quorums(self, backend):
        results = run_ranks(3, "torchft_quorums.py", backend)
        self.assertEqual([status for status, _ in results], [0, -signal.SIGKILL, 0], "\n".join(output for _, output in results))
        return [results[rank][1] for rank in (0, 2)]

    def test_quorums_are_those_of_gloo_and_a_killed_rank_is_named(self):
        for told, of_gloo in zip(self.quorums("cohort"), self.quorums("gloo")):
            sums = r"quorum \d+ of \d+: [\d.]+"
            self.assertEqual(re.findall(sums, told), re.findall(sums, of_gloo))
            self.assertEqual(re.findall(r"survivors=(\w+)", told), ["False"] + ["True"] * 11)
            self.assertRegex(told, r"failed: .*PeerDied: rank 1 ")
            self.assertIn("shares [2.0, 2.0]", told)


if __name__ == "__main__":
    unittest.main()
