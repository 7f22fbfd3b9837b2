# SPDX-License-Identifier: Apache-2.0
"""Programs written for the Python interface of hcomm run as they are, on eight ranks."""

import unittest

from support import RanksTestCase

ALL = """
import hcomm
import numpy as np

hcomm.init()

# Where this is.
world_size = hcomm.get_world_size()
rank = hcomm.get_rank()
print(f"world_size: {world_size}, rank: {rank}, version {hcomm.__version__}")

input_tensor = np.array([rank + 1] * 1024, dtype=np.float32)
output_tensor = hcomm.all_reduce(
    tensor=input_tensor,
    op="sum",
    group=None
)
print(f"rank {rank} AllReduce sum: {output_tensor[:5]}...")
assert (output_tensor == 36).all()

input_tensor = np.array([rank] * 1024, dtype=np.float32)
output_tensor = hcomm.all_gather(
    tensor=input_tensor,
    group=None
)
print(f"rank {rank} AllGather shape: {output_tensor.shape}")
assert output_tensor.shape == (8192,) and output_tensor[1024] == 1

input_tensor = np.array([1] * 1024, dtype=np.float32)
output_tensor = hcomm.reduce_scatter(
    tensor=input_tensor,
    op="sum",
    group=None
)
print(f"rank {rank} ReduceScatter sum: {output_tensor[:5]}...")
assert output_tensor.shape == (128,) and (output_tensor == 8).all()

# Padded to what can be split.
input_tensor = np.array([1] * 1032, dtype=np.float32)
pad_size = (world_size - (1032 % world_size)) % world_size
input_tensor = np.pad(input_tensor, (0, pad_size))
output_tensor = hcomm.reduce_scatter(tensor=input_tensor, op="sum")
assert output_tensor.shape == (129,)
"""

UNEQUAL = """
import hcomm
import numpy as np

hcomm.init()
rank = hcomm.get_rank()
if rank == 0:
    input_tensor = np.array([1] * 1024, dtype=np.float32)
else:
    input_tensor = np.array([1] * 2048, dtype=np.float32)
try:
    hcomm.all_reduce(tensor=input_tensor, op="sum")
except hcomm.Mismatch as error:
    text = str(error)
    assert "1024" in text and "2048" in text and error.rank == 0 and error.op == "all_reduce", text
    assert f"this rank gave float32 of shape ({1024 if rank == 0 else 2048},)" in text, text
    assert "same arguments" in error.advice and error.sequence == 1
else:
    raise AssertionError("nothing was raised")
"""

OTHER_TYPES = """
import hcomm
import numpy as np

hcomm.init()
kind = np.float64 if hcomm.get_rank() == 3 else np.float32
try:
    hcomm.all_reduce(tensor=np.ones(16, dtype=kind))
except hcomm.Mismatch as error:
    assert "float64" in str(error) and "float32" in str(error) and error.rank == 3, error
else:
    raise AssertionError("nothing was raised")
"""

INDIVISIBLE = """
import hcomm
import numpy as np

hcomm.init()
try:
    hcomm.reduce_scatter(tensor=np.array([1] * 1030, dtype=np.float32), op="sum")
except ValueError as error:
    assert "1030 rows" in str(error) and "2 neutral rows to 1032" in error.advice, error
else:
    raise AssertionError("nothing was raised")
share = hcomm.reduce_scatter(tensor=np.array([1] * 1030, dtype=np.float32), op="sum", uneven=True)
assert share.shape == (129 if hcomm.get_rank() < 6 else 128,)
"""


class Seed(RanksTestCase):
    def test_the_three_calls(self):
        output = self.check_ranks(8, ALL)
        self.assertIn("rank 0 AllReduce sum: [36. 36. 36. 36. 36.]...", output)

    def test_unequal_shapes_are_an_error_on_every_rank(self):
        self.check_ranks(8, UNEQUAL)

    def test_unequal_types_are_an_error_on_every_rank(self):
        self.check_ranks(4, OTHER_TYPES)

    def test_counts_that_do_not_divide_are_an_error_with_advice(self):
        self.check_ranks(8, INDIVISIBLE)


if __name__ == "__main__":
    unittest.main()
