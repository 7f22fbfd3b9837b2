# SPDX-License-Identifier: Apache-2.0
"""A binding by nothing but function calls, as Rust's or Go's would be: no macro of the header, no copy of its source."""

import ctypes
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

BUILD = pathlib.Path(os.environ["COHORT_TEST_BUILD"])
LIBRARY = pathlib.Path(os.environ["COHORT_C_LIBRARY"])
HEADER = pathlib.Path(__file__).resolve().parents[3] / "bindings" / "c" / "cohort_c.h"

# Numbers that the interface promises never to change.
OK, INVALID_ARGUMENT, CANCELLED, NOT_OVER = 0, 1, 9, 100
FLOAT32, SUM = 0, 0


class Failure(Exception):
    pass


class Options(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_size_t), ("rank", ctypes.c_uint32), ("size", ctypes.c_uint32),
                ("name", ctypes.c_char_p), ("address", ctypes.c_char_p), ("job", ctypes.c_char_p),
                ("transport", ctypes.c_char_p), ("algorithm", ctypes.c_char_p), ("timeout_ns", ctypes.c_int64),
                ("join_timeout_ns", ctypes.c_int64), ("buffer_bytes", ctypes.c_uint64), ("heap_bytes", ctypes.c_uint64),
                ("root_info", ctypes.c_void_p)]


def load():
    library = ctypes.CDLL(str(LIBRARY))
    library.cohort_error_text.restype = ctypes.c_char_p
    library.cohort_version.restype = ctypes.c_char_p
    library.cohort_status_name.restype = ctypes.c_char_p
    library.cohort_error_rank.restype = ctypes.c_int64
    library.cohort_type_bytes.restype = ctypes.c_size_t
    library.cohort_wait.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.cohort_cancel.argtypes = library.cohort_request_free.argtypes = [ctypes.c_void_p]
    for name in ("failure", "free", "rank", "size"):
        getattr(library, f"cohort_{name}").argtypes = [ctypes.c_void_p]
    library.cohort_free.restype = None
    library.cohort_all_reduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
                                          ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p]
    return library


class Communicator:
    """What a binding would make of a handle: it is freed with its owner, and errors are exceptions."""

    def __init__(self, library, **options):
        self.library, self.handle = library, ctypes.c_void_p()
        given = Options(bytes=ctypes.sizeof(Options), **options)
        self.check(library.cohort_join(ctypes.byref(given), ctypes.byref(self.handle)))

    def check(self, status):
        if status not in (OK, NOT_OVER):
            raise Failure(status, self.library.cohort_error_text().decode(), self.library.cohort_error_rank())
        return status

    def all_reduce(self, data, request=None):
        self.check(self.library.cohort_all_reduce(self.handle, data, data, len(data), FLOAT32, SUM, None, request))

    def __del__(self):
        self.library.cohort_free(self.handle)


def run_rank():
    library = load()
    comm = Communicator(library, timeout_ns=30 * 10**9)
    rank, size = library.cohort_rank(comm.handle), library.cohort_size(comm.handle)
    data = (ctypes.c_float * 1000)(*[rank + 1] * 1000)
    comm.all_reduce(data)
    assert set(data) == {size * (size + 1) / 2}, data[0]
    request = ctypes.c_void_p()
    comm.all_reduce(data, ctypes.byref(request))
    assert comm.check(library.cohort_wait(request, -1)) == OK
    comm.check(library.cohort_request_free(request))
    try:
        comm.check(library.cohort_all_reduce(comm.handle, data, data, 1000, 99, SUM, None, None))
    except Failure as failure:
        assert failure.args[0] == INVALID_ARGUMENT and "99 is no type" in failure.args[1], failure
    else:
        raise AssertionError("nothing was raised")
    if rank == 0:
        comm.all_reduce(data, ctypes.byref(request))
        assert comm.check(library.cohort_wait(request, 10**6)) == NOT_OVER
        library.cohort_cancel(request)
        assert library.cohort_wait(request, -1) == CANCELLED
        comm.check(library.cohort_request_free(request))
    else:
        while library.cohort_failure(comm.handle) == OK:
            time.sleep(0.01)
        try:
            comm.all_reduce(data)
        except Failure as failure:
            assert failure.args[2] == 0 and "gave up" in failure.args[1], failure
            print("told who gave up", flush=True)


class Binding(unittest.TestCase):
    def test_ranks_meet_and_are_told_what_fails(self):
        done = subprocess.run([BUILD / "bin" / "cohort-run", "-n", "2", "--timeout", "60", "--", sys.executable, __file__],
                              env={**os.environ, "COHORT_TEST_RANK": "1"}, text=True, timeout=90, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("told who gave up", done.stdout)

    def test_the_library_gives_away_versioned_functions_of_the_header_alone(self):
        listed = subprocess.run(["nm", "--dynamic", "--defined-only", "--with-symbol-versions", str(LIBRARY)], check=True,
                                text=True, stdout=subprocess.PIPE).stdout
        symbols = {line.split()[2]: line.split()[1] for line in listed.splitlines()}
        self.assertEqual(symbols.pop("COHORT_0.1@@COHORT_0.1", symbols.pop("COHORT_0.1", "A")), "A")
        declared = set(re.findall(r"\b(cohort_\w+)\(", re.sub(r"//.*", "", HEADER.read_text(encoding="utf-8"))))
        self.assertEqual(set(symbols), {f"{name}@@COHORT_0.1" for name in declared})
        self.assertEqual(set(symbols.values()), {"T"})

    def test_every_status_has_a_name(self):
        library = load()
        header = HEADER.read_text(encoding="utf-8")
        statuses = header[header.index("COHORT_OK"):header.index("COHORT_NOT_OVER")]
        numbers = {name: int(number) for name, number in re.findall(r"COHORT_(\w+) = (\d+)", statuses)}
        self.assertEqual(len(numbers), 19)
        for name, number in numbers.items():
            known = library.cohort_status_name(number).decode()
            self.assertEqual(known.lower(), name.replace("_", "").lower())


if __name__ == "__main__":
    run_rank() if os.environ.get("COHORT_TEST_RANK") else unittest.main()
