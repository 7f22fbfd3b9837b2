# SPDX-License-Identifier: Apache-2.0
"""Runs what texts show of Python: each block as it stands there, among lines that make what it uses and check what it did."""

import pathlib
import re
import textwrap

from support import RanksTestCase

ROOT = pathlib.Path(__file__).parents[3]
LIMIT_S = 250  # of a hang: some import torch
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLACE = re.compile(r"^( *)\.\.\.$", re.MULTILINE)  # of the block, in what is around it


def blocks_of(page):
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


class PageTestCase(RanksTestCase):
    def check_page(self, page, *around):
        """Each block on two ranks, with what is around it."""
        blocks = blocks_of(page)
        self.assertEqual(len(blocks), len(around), f"{page}: each block is run")
        for block, rest in zip(blocks, around):
            program, places = PLACE.subn(lambda place: textwrap.indent(block, place[1]), textwrap.dedent(rest))
            self.assertEqual(places, 1, rest)
            with self.subTest(page=page, block=block):
                self.check_ranks(2, program, limit_s=LIMIT_S)
