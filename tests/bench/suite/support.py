# SPDX-License-Identifier: Apache-2.0
"""What the tests of bench/suite share: the package on the path, invented rows and limits."""

import pathlib
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))

from suite.cells import Cell, Row  # noqa: E402
from suite.programs import PROGRAMS  # noqa: E402
from suite.results import Results  # noqa: E402

NEAR, FAR = 130, 480
CACHE_BYTES = 32 << 20

# A machine of round figures: a line takes 0.1 us, one core moves 10000 bytes a us, beyond the cache both together
# 20000, loopback 5000 one way and 8000 both ways.
LIMITS = [("one_way", 0, 0.1, "near"), ("timer", 0, 0.02, "near"), ("switch", 0, 1.5, "near"),
          ("stream", 64 << 20, 2 * (64 << 20) / 20000, "near"), ("tcp_round_trip", 8, 8.0, "near"),
          ("tcp_exchange", 8, 5.0, "near")]
for _size in (64, 4 << 10, 256 << 10, 4 << 20):
    for _name in ("pull", "copy"):
        LIMITS.append((_name, _size, 0.02 + _size / 10000, "near"))
for _size in (32 << 10, 1 << 20, 64 << 20):
    LIMITS.append(("tcp_stream", _size, 8 + _size / 5000, "near"))
    LIMITS.append(("tcp_duplex", _size, 4 + 2 * _size / 8000, "near"))


def row(program, cell, us, trip_ns=NEAR, turn=1):
    return Row(program, cell, us * 0.9, us, us * 2, 100, trip_ns, trip_ns, turn)


def cell(operator="all_reduce", ranks=2, size=8, transport="shm"):
    return Cell(transport, operator, ranks, size)


def results_of(rows, limits=()):
    """Of all programs, with the cells of the rows."""
    result = Results(list(PROGRAMS), sorted({r.cell for r in rows}), 2, CACHE_BYTES)
    for one in rows:
        result.add(one)
    result.add_limits(list(limits))
    return result
