# SPDX-License-Identifier: Apache-2.0
"""cohort.graph without torch: graphs, insertion and the planner, as Python sees them."""

import itertools
import json
import pathlib
import random
import unittest

from cohort import graph

SAMPLE = pathlib.Path(__file__).parents[3] / "samples" / "graphs" / "transformer.json"


def small_graph():
    return graph.parse_graph(json.dumps({
        "name": "mlp",
        "tensors": [
            {"name": "w", "shape": [256], "role": "parameter"}, {"name": "loss", "role": "loss"},
            {"name": "w.grad", "shape": [256], "role": "gradient", "gradient_of": "w"}],
        "nodes": [
            {"name": "loss", "op": "forward", "inputs": ["w"], "outputs": ["loss"], "duration_us": 10},
            {"name": "w.backward", "op": "backward", "phase": "backward", "inputs": ["loss"], "outputs": ["w.grad"],
             "duration_us": 20},
            {"name": "w.step", "op": "sgd", "phase": "update", "inputs": ["w", "w.grad"], "attributes": {"updates": "w"}}]}), "mlp")


def ends(items, cost, cuts):
    """When these buckets are through."""
    end = 0.0
    for first, last in zip((0, *cuts), (*cuts, len(items))):
        size = cost.byte_us * sum(item[2] for item in items[first:last])
        ready = items[last - 1][1] + cost.idle_us + size
        end = max(ready, end + cost.queued_us + size) if first else ready
    return end


class Graphs(unittest.TestCase):
    def test_a_graph_gets_its_collectives(self):
        made = graph.insert_all_reduce(small_graph(), "smart_overlap", graph.LinearCost(5.0, 2.0, 0.01))
        nodes = [node["name"] for node in json.loads(made.graph.to_json())["nodes"]]
        self.assertEqual(nodes, ["loss", "w.backward", "reduce_bucket_0", "w.step"])
        self.assertEqual(made.plan.items, [("w.grad", 30.0, 1024, 0)])
        self.assertIn("bucket 0: 1 gradients, 1024 bytes", made.decisions[-1])
        self.assertEqual(len(made.graph), 4)
        self.assertIn("reduce_bucket_0", made.graph.to_text())
        self.assertTrue(made.graph.to_svg().startswith("<svg"))
        spans = [("loss", 0.0, 10.0), ("w.backward", 10.0, 30.0), ("reduce_bucket_0", 30.0, 45.0), ("w.step", 45.0, 46.0)]
        summary = graph.summarize(made.graph, spans)
        self.assertEqual((summary["exposed_us"], summary["overlap"]), (15.0, 0.0))
        self.assertIn("reduce_bucket_0", graph.to_chrome_trace(made.graph, [spans]))

    def test_the_graph_of_the_sample_is_planned_by_every_strategy(self):
        read = graph.parse_graph(SAMPLE.read_text(encoding="utf-8"), "transformer")
        cost = graph.LinearCost(50.0, 10.0, 0.001)
        buckets = {}
        for strategy in ("synchronous", "compute_communication_overlap", "hierarchical", "smart_overlap"):
            made = graph.insert_all_reduce(read, strategy, cost)
            buckets[strategy] = len(made.plan.buckets)
            self.assertGreaterEqual(made.plan.finish_us, graph.lower_bound_us(made.plan, cost))
        self.assertEqual(buckets["synchronous"], 1)
        self.assertGreater(buckets["compute_communication_overlap"], buckets["smart_overlap"])
        self.assertLess(len(graph.fuse_kernels(read)), len(read) + 1)

    def test_plans_end_as_early_as_can_be(self):
        chance = random.Random(7)
        for _ in range(200):
            ready = sorted(chance.uniform(0, 100) for _ in range(chance.randint(1, 8)))
            items = [(f"g{place}", us, chance.randint(1, 1000)) for place, us in enumerate(ready)]
            cost = graph.LinearCost(chance.uniform(5, 30), chance.uniform(0, 5), chance.uniform(0, 0.2))
            count = len(items)
            best = min(ends(items, cost, cuts) for size in range(count) for cuts in itertools.combinations(range(1, count), size))
            self.assertAlmostEqual(graph.plan(items, cost).finish_us, best, places=6)
            for other in graph.rules_of_others(items, cost):
                self.assertGreaterEqual(other.finish_us, best - 1e-6)

    def test_limits_and_hashes(self):
        items = [(f"g{place}", float(place), 100) for place in range(6)]
        cost = graph.LinearCost(10.0, 1.0, 0.01)
        limited = graph.plan(items, cost, graph.Limits(max_group_size=2))
        self.assertTrue(all(end - first <= 2 for first, end, *_ in limited.buckets))
        later = [(name, ready + 1, size) for name, ready, size in items]
        self.assertEqual(graph.plan(later, cost, graph.Limits(max_group_size=2)).hash, limited.hash)
        self.assertNotEqual(graph.plan(items, cost, graph.Limits(max_group_size=1)).hash, limited.hash)
        self.assertIn("measured:  ends at 50.0 us", graph.explain(limited, cost, (50.0, 5.0)))

    def test_costs_are_fitted(self):
        cost = graph.fit([(1000, 15.0), (2000, 20.0), (4000, 30.0)], [(1000, 7.0), (2000, 12.0), (4000, 22.0)])
        for value, expected in ((cost.idle_us, 10.0), (cost.queued_us, 2.0), (cost.byte_us, 0.005)):
            self.assertAlmostEqual(value, expected, places=6)

    def test_what_is_wrong_has_a_code_a_node_a_cause_and_an_advice(self):
        with self.assertRaises(graph.GE_DIST_GRAPH_BUILD_ERROR) as caught:
            graph.parse_graph('{"name": "x", "tensors": [], "nodes": [{"name": "a", "op": "b", "inptus": []}]}', "x")
        self.assertEqual(caught.exception.code, "GE_DIST_GRAPH_BUILD_ERROR")
        self.assertIn("inputs", str(caught.exception))
        self.assertTrue(caught.exception.node and caught.exception.cause and caught.exception.advice)
        with self.assertRaises(graph.GE_ALLREDUCE_INSERT_FAILED):
            graph.insert_all_reduce(graph.parse_graph('{"name": "x", "tensors": [{"name": "y"}], "nodes": '
                                                      '[{"name": "a", "op": "b", "outputs": ["y"]}]}', "x"))
        with self.assertRaises(graph.GE_MEMORY_OVERFLOW) as caught:
            graph.check_memory(small_graph(), 100)
        self.assertIsInstance(caught.exception, MemoryError)
        self.assertGreater(graph.check_memory(small_graph(), 1 << 20), 2048)
        with self.assertRaises(graph.DistGraphBuildError):
            graph.insert_all_reduce(small_graph(), "fastest")
        with self.assertRaises(graph.DistGraphBuildError):
            graph.summarize(small_graph(), [("nobody", 0.0, 1.0)])

    def test_bucket_sizes(self):
        seed = graph.DynamicBucketScheduler(100.0, 25, "seed")
        self.assertEqual([seed.adjust_bucket_size(rate) for rate in (79.0, 100.0, 100.0, 100.0, 100.0, 100.0)],
                         [12, 24, 48, 96, 192, 256])
        steady = graph.DynamicBucketScheduler(100.0)
        self.assertEqual([steady.adjust_bucket_size(90.0) for _ in range(6)], [25] * 6)


if __name__ == "__main__":
    unittest.main()
