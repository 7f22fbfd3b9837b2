# SPDX-License-Identifier: Apache-2.0
"""How ranks find each other by a store that may still hold what others of their name have left."""

import json
import threading
import time
import unittest

import cohort
from cohort._rendezvous import Rendezvous


class Store(dict):
    """One that keeps what it was told, of threads."""

    def put(self, key, value):
        self[key] = value

    def delete(self, key):
        self.pop(key, None)


def meet(store, ranks, size, place="here", timeout_s=20.0, leaves=True, are_there=False):
    """What each of the ranks is given, or raises. `are_there`: they have come before the time of any of them runs."""
    results, met = {}, []
    if are_there:
        for rank in ranks:
            Rendezvous(store, "group", rank, size, 0)._arrive()

    def one(rank):
        part = Rendezvous(store, "group", rank, size, timeout_s)
        try:
            results[rank] = part.meet(lambda is_one_host: f"{place} {is_one_host}")
            met.append(part)
        except cohort.CohortError as failure:
            results[rank] = failure

    threads = [threading.Thread(target=one, args=(rank,)) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for part in met if leaves else ():
        part.leave()
    return results


def wait_for(condition):
    until = time.monotonic() + 20
    while not condition() and time.monotonic() < until:
        time.sleep(0.001)


class RendezvousTest(unittest.TestCase):
    def test_all_are_told_one_place_and_nothing_stays_in_the_store(self):
        store = Store()
        self.assertEqual(meet(store, range(3), 3), {rank: "here True" for rank in range(3)})
        self.assertEqual(meet(store, [0], 1), {0: "here True"})
        self.assertEqual(store, {})

    def test_nothing_that_killed_ranks_have_left_is_taken_for_an_answer(self):
        for left in ([], ["group/place"], ["group/rank/1"], ["group/rank/1", "group/rank/2"]):
            store = Store()
            meet(store, range(3), 3, "once", leaves=False)
            for key in left:  # as if they had been killed before
                del store[key]
            self.assertEqual(meet(store, range(3), 3, "now"), {rank: "now True" for rank in range(3)})
            self.assertEqual(store, {})

    def test_a_rank_that_is_killed_while_it_waits_is_replaced(self):
        store = Store()
        killed = Rendezvous(store, "group", 1, 2, 20)
        killed._arrive()
        waiting = threading.Thread(target=lambda: meet(store, [0], 2, leaves=False))
        waiting.start()
        wait_for(lambda: "group/place" in store)
        self.assertEqual(json.loads(store["group/place"])["place"], "", "nobody has said yet that it has seen it")
        self.assertEqual(meet(store, [1], 2), {1: "here True"})
        waiting.join()

    def test_who_has_not_come_is_named_on_all(self):
        for came, missing in (([0, 1], 2), ([1, 2], 0), ([0], 1)):
            for rank, failure in meet(Store(), came, 3, timeout_s=1.0, are_there=True).items():
                self.assertIsInstance(failure, cohort.MissingRanks, (came, rank))
                self.assertEqual(failure.rank, missing, (came, rank))

    def test_what_killed_ranks_have_left_is_not_taken_for_a_rank_that_has_come(self):
        store = Store()
        meet(store, range(2), 2, leaves=False)
        self.assertEqual(meet(store, [0], 2, timeout_s=1.0)[0].rank, 1)
        self.assertEqual(meet(store, [1], 2, timeout_s=1.0)[1].rank, 0)

    def test_ranks_that_say_other_sizes_are_told(self):
        store = Store()
        results = {}
        other = threading.Thread(target=lambda: results.update(meet(store, [1], 3, timeout_s=2.0)))
        other.start()
        wait_for(lambda: "group/rank/1" in store)
        results.update(meet(store, [0], 2, timeout_s=2.0))
        other.join()
        self.assertIsInstance(results[0], cohort.WorldSize)
        self.assertEqual(results[0].rank, 1)
        self.assertIn("says that they are 3", str(results[0]))
        self.assertIsInstance(results[1], (cohort.WorldSize, cohort.MissingRanks))

    def test_a_process_whose_rank_another_one_has_taken_is_told(self):
        store = Store()
        results = {}
        first = threading.Thread(target=lambda: results.update(meet(store, [1], 2, timeout_s=20.0)))
        first.start()
        wait_for(lambda: "group/rank/1" in store)
        Rendezvous(store, "group", 1, 2, 20)._arrive()
        first.join()
        self.assertIsInstance(results[1], cohort.DuplicateRank)
        self.assertIn("group/rank/1", store, "it is the other one's")

    def test_hosts_that_differ_are_told_to_who_makes_the_place(self):
        store = Store()
        results = {}
        elsewhere = Rendezvous(store, "group", 1, 2, 20)
        elsewhere._write("group/rank/1", host="elsewhere", size=2, taken="")
        came = threading.Thread(target=lambda: results.update(meet(store, [0], 2)), daemon=True)
        came.start()
        wait_for(lambda: "group/place" in store)
        elsewhere._write("group/rank/1", host="elsewhere", size=2, taken=json.loads(store["group/place"])["edition"])
        came.join()
        self.assertEqual(results, {0: "here False"})


if __name__ == "__main__":
    unittest.main()
