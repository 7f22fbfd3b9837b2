# SPDX-License-Identifier: Apache-2.0
"""The texts show Python that runs."""

import unittest

from pages import ROOT, PageTestCase, blocks_of

# Others than python.md: bindings/torch/pages_test.py, bindings/jax/jax_test.py, eco/pages_test.py.
WITH_BLOCKS = {"docs/use/python.md", "docs/use/torch.md", "docs/use/graph-pytorch.md", "docs/use/jax.md",
               "docs/use/programs.md"}

FIRST_CALL = """
...
assert cohort.get_world_size() == 2
assert total.dtype == np.float32 and total.shape == (1024,) and (total == 1).all()
"""

REGROUPED = """
import cohort
import numpy as np

...

world = cohort.init()
world.barrier()
if world.rank == 1:
    world.close()
else:
    try:
        world.all_reduce(np.ones(4))
        raise AssertionError("rank 1 has left")
    except cohort.PeerError as error:
        team = regroup(world, error)
    assert team.size == 1 and gone == {1} and team.world_ranks == [0]
    assert team.all_reduce(np.ones(4)).tolist() == [1] * 4
    forgetful = cohort.PeerDied("a cause without a culprit")
    gone.clear()
    team.close()
    assert regroup(world, forgetful).size == 1 and gone == {1}
"""

AWAITED = """
import asyncio
import cohort
import numpy as np

async def together(comm, x, y):
    ...
    return first, second

with cohort.init() as comm:
    first, second = asyncio.run(together(comm, np.full(3, comm.rank), np.full(5, 1)))
assert first.tolist() == [1] * 3 and second.tolist() == [2] * 5
"""


class Pages(PageTestCase):
    def test_python_md(self):
        self.check_page("docs/use/python.md", FIRST_CALL, REGROUPED, AWAITED)

    def test_no_other_page_has_blocks_that_are_not_run(self):
        pages = [ROOT / "README.md", ROOT / "bench" / "README.md", *(ROOT / "docs").rglob("*.md")]
        names = {str(page.relative_to(ROOT)) for page in pages}
        self.assertEqual({name for name in names if blocks_of(name)}, WITH_BLOCKS)


if __name__ == "__main__":
    unittest.main()
