#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables of invented predictions."""

import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))

from scale.main import command_of, parse, sizes_of  # noqa: E402
from scale.table import END, begin, lines_of, parse_row, put_between  # noqa: E402

ROWS = """collective,algorithm,ranks,bytes,us,messages
all_reduce,ring,4096,1024,90.000,8
all_reduce,nhr,4096,1024,30.000,8
all_reduce,ring,4096,1048576,100.000,8
all_reduce,tree,4096,1048576,-,8
barrier,tree,4096,1048576,7.500,8
"""


def predictions():
    return [row for row in (parse_row(line, "rdma") for line in ROWS.splitlines()) if row]


class Tables(unittest.TestCase):
    def test_a_run_that_never_ends_is_no_row(self):
        self.assertEqual([one.algorithm for one in predictions()], ["ring", "nhr", "ring", "tree"])

    def test_the_fastest_stands_beside_the_next_one(self):
        text = "\n".join(lines_of(predictions(), "it"))
        self.assertIn("| rdma | 4096 | `nhr` 30.00 (3.00 `ring`) | `ring` 100.0 |", text)
        self.assertIn("| `nhr` | **30.00** |  |", text)
        self.assertIn("| `ring` | 90.00 | **100.0** |", text)

    def test_a_barrier_has_no_size(self):
        text = "\n".join(lines_of(predictions(), "it"))
        self.assertIn("| barrier | ranks | time |", text)
        self.assertIn("| barrier | rdma 4096 |", text)

    def test_only_what_stands_between_the_marks_of_the_command_is_replaced(self):
        others = f"{begin('that')}\nkept\n{END}\n"
        old = f"why\n{others}{begin('this')}\nold\n{END}\nafter\n"
        new = f"why\n{others}{begin('this')}\nnew\n{END}\nafter\n"
        self.assertEqual(put_between(old, "this", ["new"]), new)
        for text in ("", begin("this") + "\n", f"{END}\n", others):
            self.assertRaises(ValueError, put_between, text, "this", [])

    def test_blocks_have_an_element_at_least(self):
        self.assertEqual(sizes_of("all_gather", 4096, [1 << 10, 1 << 14]), [1 << 14])
        self.assertEqual(sizes_of("all_reduce", 4096, [1 << 10, 1 << 14]), [1 << 10, 1 << 14])
        self.assertEqual(sizes_of("barrier", 4096, [1 << 10, 1 << 14]), [None])

    def test_the_command_that_is_told_asks_for_the_same(self):
        options = parse(["--ranks", "64,128", "--sizes", "1K,1M", "--algorithms", "ring"])
        again = parse(command_of(options).split()[3:])
        self.assertEqual(options, again)


if __name__ == "__main__":
    unittest.main()
