# SPDX-License-Identifier: Apache-2.0
"""Whether plans are the optimum, and what they take: against all ways to cut few gradients, and a square programme for more."""

import itertools
import random
import sys
import time

CASES, MOST, LONG_CASES, LONG = 2000, 9, 30, 300
LARGE, LARGE_MS = 100_000, 50


def _case(chance, count):
    """Items, and the start-up from idle, behind another one, and for a byte."""
    ready, items = 0.0, []
    for place in range(count):
        ready += chance.choice((0.0, chance.random() * 300))
        items.append((f"g{place}", ready, chance.randint(1, 1 << 18)))
    idle = chance.random() * 200
    return items, (idle, idle * chance.random(), 2e-3 * chance.random())


def _finish(items, cost, cuts):
    idle, queued, byte = cost
    end, first = 0.0, 0
    for cut in cuts:
        size = sum(item[2] for item in items[first:cut])
        end = max(items[cut - 1][1] + idle, end + queued) + byte * size if first else items[cut - 1][1] + idle + byte * size
        first = cut
    return end


def _brute_force(items, cost):
    count = len(items)
    return min(_finish(items, cost, [*cuts, count]) for size in range(count)
               for cuts in itertools.combinations(range(1, count), size))


def _square(items, cost):
    idle, queued, byte = cost
    best = [0.0]
    for end in range(1, len(items) + 1):
        size, least = 0, float("inf")
        for first in range(end - 1, -1, -1):
            size += items[first][2]
            start = items[end - 1][1] + idle
            least = min(least, (max(start, best[first] + queued) if first else start) + byte * size)
        best.append(least)
    return best[-1]


def _worst(plan_of, cases, least_of):
    """By how much a plan ends later than it could, at most."""
    worst = 0.0
    for items, cost in cases:
        least = least_of(items, cost)
        worst = max(worst, plan_of(items, cost) / least - 1)
    return worst


def rows(build):
    sys.path.insert(0, str(build / "python"))
    from cohort.graph import LinearCost, plan

    def plan_of(items, cost):
        return plan(items, LinearCost(*cost)).finish_us

    chance = random.Random(1)
    few = _worst(plan_of, [_case(chance, chance.randint(1, MOST)) for _ in range(CASES)], _brute_force)
    many = _worst(plan_of, [_case(chance, chance.randint(MOST, LONG)) for _ in range(LONG_CASES)], _square)
    items, cost = _case(chance, LARGE)
    made = LinearCost(*cost)
    times = []
    for _ in range(3):
        began = time.perf_counter()
        plan(items, made)
        times.append(1e3 * (time.perf_counter() - began))
    where = "this process"
    return [
        [where, f"plan, beside all ways to cut up to {MOST} gradients", "the optimum", f"{few:.2e} later, in {CASES} cases", few < 1e-9],
        [where, f"plan, beside the square programme for up to {LONG}", "the optimum", f"{many:.2e} later, in {LONG_CASES} cases", many < 1e-9],
        [where, f"plan of {LARGE} gradients, with what Python hands over", f"at most {LARGE_MS} ms", f"{min(times):.1f} ms", min(times) <= LARGE_MS],
    ]
