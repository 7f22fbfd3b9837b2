# SPDX-License-Identifier: Apache-2.0
"""docs/use/programs.md shows Python that runs."""

import pathlib
import re
import tempfile
import unittest

from support import in_cluster, run_ranks

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "use" / "programs.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

AROUND_RAY = ("", """
for result in ray.get([worker.step.remote() for worker in workers]):
    assert result.tolist() == [2] * 1000
ray.shutdown()
""")
AROUND_LIGHTGBM = ("""
import numpy
generator = numpy.random.default_rng(0)
rows = generator.standard_normal((400, 5))
wanted = rows[:, 0]
""", """
assert booster.num_trees() == 10
assert comm.size == 2
cohort.lightgbm.finalize()
""")


class Pages(unittest.TestCase):
    def check(self, ranks, block, around, **variables):
        before, after = around
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program.py"
            program.write_text(before + block + after, encoding="utf-8")
            for rank, (status, output) in enumerate(run_ranks(ranks, program, **variables)):
                self.assertEqual(status, 0, f"rank {rank}: {output}")

    def test_programs_md(self):
        of_ray, of_lightgbm = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
        self.check(2, of_lightgbm, AROUND_LIGHTGBM)
        self.check(1, of_ray, AROUND_RAY)


if __name__ == "__main__":
    with in_cluster():
        unittest.main()
