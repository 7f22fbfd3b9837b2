# SPDX-License-Identifier: Apache-2.0
"""ray.util.collective over the backend "COHORT": what its own backend for CPUs gives, and what that does not tell."""

import os
import time
import unittest

from support import in_cluster, losses_of, run_ranks

import numpy
import ray
import torch
from ray.util import collective

import cohort
import cohort.ray

OPS = collective.types.ReduceOp
STEPS = 6  # of programs/


@ray.remote(num_cpus=0, max_restarts=0)
class Worker:
    """One rank."""

    def pid(self):
        return os.getpid()

    def join(self, size, rank, backend, group):
        collective.init_collective_group(size, rank, backend, group)

    def leave(self, group):
        collective.destroy_collective_group(group)

    def all_reduce(self, group, tensor, op=OPS.SUM):
        tensor = tensor.copy() if isinstance(tensor, numpy.ndarray) else tensor.clone()
        collective.allreduce(tensor, group, op)
        return tensor

    def calls(self, group, rank, size, as_torch):
        """Everything that there is, on data of this rank's."""
        generator = numpy.random.default_rng(rank)
        convert = torch.from_numpy if as_torch else numpy.asarray
        results = []

        def mine(kind="float32"):
            return convert(generator.integers(1, 9, (3, 5)).astype(kind))

        def keep(*tensors):
            results.extend(numpy.asarray(tensor).copy() for tensor in tensors)

        for kind in ("float32", "float64", "int32", "int64"):
            for op in (OPS.SUM, OPS.PRODUCT, OPS.MIN, OPS.MAX):
                tensor = mine(kind)
                collective.allreduce(tensor, group, op)
                keep(tensor)
        for root in range(size):
            tensor = mine()
            collective.broadcast(tensor, root, group)
            keep(tensor)
            tensor = mine()
            collective.reduce(tensor, root, group, OPS.MAX)
            keep(tensor)
        parts = [mine() for _ in range(size)]
        collective.allgather(parts, mine(), group)
        keep(*parts)
        tensor = mine()
        collective.reducescatter(tensor, [mine() for _ in range(size)], group, OPS.SUM)
        keep(tensor)
        collective.barrier(group)
        tensor = mine()
        if rank == 0:
            collective.send(tensor, 1, group)
        elif rank == 1:
            collective.recv(tensor, 0, group)
        keep(tensor)
        return results


def get(references):
    return ray.get(references, timeout=240)


def workers(number):
    return [Worker.remote() for _ in range(number)]


def join(actors, backend, group):
    return get([actor.join.remote(len(actors), rank, backend, group) for rank, actor in enumerate(actors)])


def failure_of(reference):
    """What the call raised where it was made, as its caller gets it."""
    try:
        get(reference)
    except cohort.CohortError as failure:
        return failure
    return None


class RayTest(unittest.TestCase):
    def test_every_call_gives_what_gloo_gives(self):
        for size in (2, 3):
            actors = workers(size)
            join(actors, "COHORT", "ours")
            join(actors, "GLOO", "its own")
            for as_torch in (False, True):
                ours, its_own = (get([actor.calls.remote(group, rank, size, as_torch) for rank, actor in enumerate(actors)])
                                 for group in ("ours", "its own"))
                for rank in range(size):
                    self.assertEqual(len(ours[rank]), len(its_own[rank]))
                    for index, (one, other) in enumerate(zip(ours[rank], its_own[rank])):
                        numpy.testing.assert_array_equal(one, other, f"result {index} of rank {rank} of {size}, torch: {as_torch}")

    def test_elements_that_only_torch_has(self):
        actors = workers(2)
        join(actors, "COHORT", "bfloat16")
        for result in get([actor.all_reduce.remote("bfloat16", torch.full((3,), 1.5, dtype=torch.bfloat16)) for actor in actors]):
            self.assertEqual(result.dtype, torch.bfloat16)
            self.assertEqual(result.tolist(), [3, 3, 3])

    def test_a_group_that_the_driver_declares(self):
        actors = workers(2)
        collective.create_collective_group(actors, 2, [1, 0], "COHORT", "declared")
        for result in get([actor.all_reduce.remote("declared", numpy.ones(4)) for actor in actors]):
            self.assertEqual(result.tolist(), [2] * 4)

    def test_actors_that_disagree_are_told(self):
        actors = workers(2)
        join(actors, "COHORT", "disagree")
        calls = [actor.all_reduce.remote("disagree", numpy.ones(4 + rank)) for rank, actor in enumerate(actors)]
        for call in calls:
            failure = failure_of(call)
            self.assertIsInstance(failure, cohort.Mismatch)
            self.assertRegex(str(failure), "rank 1 has 5.*rank 0 has 4|rank 0 has 4.*rank 1 has 5")

    def test_a_killed_actor_is_named_and_the_others_make_the_group_again(self):
        actors = workers(3)
        join(actors, "COHORT", "again")
        pid = get(actors[1].pid.remote())
        self.assertEqual(get(actors[1].leave.remote("no such group")), None)
        waiting = [actors[rank].all_reduce.remote("again", numpy.ones(100_000)) for rank in (0, 2)]
        ray.kill(actors[1])
        for call in waiting:
            failure = failure_of(call)
            self.assertIsInstance(failure, cohort.PeerDied)
            self.assertEqual(failure.rank, 1)
            self.assertIn(f"pid {pid}", str(failure))
        get([actors[rank].leave.remote("again") for rank in (0, 2)])
        actors[1] = Worker.remote()
        join(actors, "COHORT", "again")
        for result in get([actor.all_reduce.remote("again", numpy.ones(4)) for actor in actors]):
            self.assertEqual(result.tolist(), [3] * 4)

    def test_what_killed_actors_left_in_the_store_disturbs_nobody(self):
        for number in range(2):
            came = workers(1)[0]
            came.join.remote(2, number, "COHORT", "left")
            store = cohort.ray._Store()
            key = f"{ray.get_runtime_context().namespace}/left/rank/{number}"
            until = time.monotonic() + 60
            while store.get(key) is None and time.monotonic() < until:
                time.sleep(0.01)
            ray.kill(came)
            actors = workers(2)
            join(actors, "COHORT", "left")
            get([actor.leave.remote("left") for actor in actors])

    def test_who_does_not_come_is_named(self):
        alone = Worker.options(runtime_env={"env_vars": {"COHORT_JOIN_TIMEOUT": "1"}}).remote()
        failure = failure_of(alone.join.remote(2, 0, "COHORT", "alone"))
        self.assertIsInstance(failure, cohort.MissingRanks)
        self.assertEqual(failure.rank, 1)


class RayTrain(unittest.TestCase):
    """A program of its own in the cluster."""

    def run_program(self, **variables):
        (result,) = run_ranks(1, "ray_train_loop.py", RAY_DEDUP_LOGS="0", **variables)
        return result

    def test_losses_are_those_over_gloo(self):
        results = [self.run_program(COHORT_TORCH=wanted) for wanted in ("", "gloo")]
        for status, output in results:
            self.assertEqual(status, 0, output)
        over_gloo, over_cohort = (losses_of(output) for _, output in results)
        self.assertEqual(len(over_gloo), STEPS, results[0][1])
        self.assertEqual(over_cohort, over_gloo)

    def test_a_killed_rank_is_named(self):
        status, output = self.run_program(COHORT_TORCH="gloo", KILL_AT="4")
        self.assertNotEqual(status, 0)
        self.assertIn("PeerDied: rank 1 ", output)


if __name__ == "__main__":
    with in_cluster(worker_process_setup_hook="cohort.ray.register"):
        unittest.main()
