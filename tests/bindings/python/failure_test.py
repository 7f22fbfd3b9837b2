# SPDX-License-Identifier: Apache-2.0
"""What exceptions of C++ are in Python, thrown by methods that Python calls past pybind11 and by others."""

import sys
import unittest

import cohort
from support import BUILD

sys.path.insert(0, str(BUILD / "tests" / "python"))
from throwing_module import Thrower

RAISED = {
    "invalid_argument": ValueError, "domain_error": ValueError, "length_error": ValueError, "range_error": ValueError,
    "out_of_range": IndexError, "overflow_error": OverflowError, "bad_alloc": MemoryError, "runtime_error": RuntimeError,
    "py::type_error": TypeError, "no exception": RuntimeError, "cohort::Error": cohort.InvalidArgument,
    "error_already_set": ModuleNotFoundError,
}


def raised_by(throw, name):
    try:
        throw(name)
    except Exception as error:  # pylint: disable=broad-except
        return error
    return None


class Failures(unittest.TestCase):
    def test_each_is_what_its_python_namesake_says(self):
        thrower = Thrower()
        for name, kind in RAISED.items():
            with self.subTest(name):
                past = raised_by(thrower.throw_past_pybind11, name)
                self.assertIs(type(past), kind)
                self.assertEqual(repr(past), repr(raised_by(thrower.throw_by_pybind11, name)))


if __name__ == "__main__":
    unittest.main()
