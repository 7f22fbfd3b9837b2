# SPDX-License-Identifier: Apache-2.0
"""Memory of tensors stays as long as a call works on it, whatever their program does meanwhile."""

import unittest

from support import RanksTestCase

# As torch's, whose `tensor.data = other` gives a tensor other elements and frees those that it had.
GIVEN_OTHER_ELEMENTS = """
import gc, types, weakref
import cohort, numpy

class Tensor:
    __module__ = "torch"
    device, dtype, layout = types.SimpleNamespace(type="cpu"), "torch.float64", "torch.strided"
    is_conj = is_neg = lambda self: False
    is_contiguous = lambda self: True
    shape = property(lambda self: self.data.shape)

    def __init__(self, data):
        self.data = data

    def detach(self):
        return Tensor(self.data)

    def data_ptr(self):
        return self.data.ctypes.data

comm = cohort.init()
tensor = Tensor(numpy.ones(100_000))
first_elements = weakref.ref(tensor.data)
out = numpy.zeros(100_000)
if comm.rank == 0:
    pending = comm.all_reduce(tensor, out=out, async_op=True)
    tensor.data = numpy.zeros(1)
    gc.collect()
    assert first_elements() is not None, "the call works on memory that was freed"
    comm.send(numpy.ones(1), 1)
    pending.wait()
    del pending
else:
    comm.recv(numpy.ones(1), 0)
    comm.all_reduce(tensor, out=out)
    tensor.data = None
assert (out == comm.size).all()
gc.collect()
assert first_elements() is None, "somebody keeps it for ever"
"""


class Memory(RanksTestCase):
    def test_a_tensor_may_be_given_other_elements_during_a_call(self):
        self.check_ranks(2, GIVEN_OTHER_ELEMENTS)


if __name__ == "__main__":
    unittest.main()
