# SPDX-License-Identifier: Apache-2.0
"""Gradients that are averaged while backward runs give the same as DistributedDataParallel's."""

import os
import pathlib
import sys
import tempfile
import time
import unittest
from datetime import timedelta

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))
os.environ["COHORT_DETERMINISM"] = "D3"
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no processes of its own in each rank

import forked
import torch
import torch.distributed as dist
from support import run_parts

import cohort.torch  # noqa: F401: registers the backend
import ge_graph_optimizer
import graph_buffer_ranks
import graph_compile_ranks
import graph_half_ranks
import graph_lazy_ranks
import graph_option_ranks
import graph_ranks
import graph_training
from cohort.graph import DistGraphBuildError, DynamicBucketScheduler, GEDistributedOptimizer, GraphError, PerformanceMonitor
from cohort.graph.options import keywords_of_file, make_options


def parts_of(*modules):
    return {name: part for module in modules for name, part in vars(module).items() if name.startswith("part_")}


PARTS = parts_of(graph_ranks, graph_option_ranks)
HALF = parts_of(graph_half_ranks)
MODULES = (graph_ranks, graph_option_ranks, graph_compile_ranks, graph_buffer_ranks, graph_half_ranks, graph_lazy_ranks)
COMPILED = parts_of(graph_compile_ranks)


def join(rank, size, store, seconds=60):
    torch.set_num_threads(1)
    dist.init_process_group("cohort", store=dist.FileStore(store, size), rank=rank, world_size=size,
                            timeout=timedelta(seconds=seconds))
    for module in MODULES:
        module.RANK, module.SIZE = rank, size


def run(rank, size, store, parts):
    """These, in this process."""
    join(rank, size, store)
    for name, part in parts.items():
        began = time.monotonic()
        run_parts(type("One", (), {name: staticmethod(part)}))
        if rank == 0 and os.environ.get("COHORT_TEST_TIMES"):
            print(f"{name} {time.monotonic() - began:.2f} s", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def die_amid_backward(rank, size, store, folder, dying, form=None):
    """The rank `dying` ends while the others wait for its gradients; what they are told goes into files. With a form, by which
    gradients go host by host, two ranks share each host."""
    options = {}
    if form is not None:
        os.environ["COHORT_HOST_ID"] = f"host-{rank // 2}"
        options = {"allreduce_strategy": "hierarchical", "form": form}
    join(rank, size, store)
    model = graph_training.network()
    optimizer = GEDistributedOptimizer(model=model, optimizer=graph_training.sgd(model), replanning=graph_training.SOON,
                                       max_group_size=1, **options)
    graph_training.train(model, optimizer, 8)
    if rank == dying:
        model[2].weight.register_hook(lambda gradient: os._exit(0))
    try:
        graph_training.train(model, optimizer, 1)
    except RuntimeError as failure:
        with open(os.path.join(folder, f"rank-{rank}"), "w", encoding="utf-8") as file:
            file.write(str(failure))
    os._exit(0)


def wait_in_a_group_of_little_patience(rank, size, store, folder):
    """The last rank makes no step: the others are told so by the group's timeout, not by the longer one of the world."""
    join(rank, size, store, seconds=600)
    group = dist.new_group()
    make_buckets = cohort.torch._torch.Buckets

    def make_impatient_buckets(*arguments, **keywords):  # all that waits for others besides has the time that it needs
        group.set_timeout(timedelta(seconds=2))
        try:
            return make_buckets(*arguments, **keywords)
        finally:
            group.set_timeout(timedelta(seconds=600))

    cohort.torch._torch.Buckets = make_impatient_buckets
    model = graph_training.network()
    optimizer = GEDistributedOptimizer(model=model, optimizer=graph_training.sgd(model), process_group=group)
    if rank < size - 1:
        try:
            graph_training.train(model, optimizer, 1)
        except RuntimeError as failure:
            with open(os.path.join(folder, f"rank-{rank}"), "w", encoding="utf-8") as file:
                file.write(str(failure))
    dist.barrier()
    os._exit(0)


def on_two_hosts(rank, size, store):
    """Ranks 0 and 1 share a host, and 2 and 3."""
    os.environ["COHORT_HOST_ID"] = f"host-{rank // 2}"
    names = ("part_every_strategy_gives_the_losses_of_ddp", "part_sums_of_16_bits_do_not_overflow")
    parts = {name: {**PARTS, **HALF}[name] for name in names}
    compiled = "part_hosts_may_be_reduced_first"
    run(rank, size, store, {**parts, compiled: COMPILED[compiled], "part_groups": graph_compile_ranks.groups_are_of_hosts_and_of_places})


def on_hosts_that_differ(rank, size, store):
    os.environ["COHORT_HOST_ID"] = f"host-{rank // 2}"
    run(rank, size, store, {"part_uneven": graph_compile_ranks.uneven_hosts_are_refused})


class Graph(unittest.TestCase):
    def test_on_two_ranks(self):
        forked.check_ranks(self, 2, run, PARTS)

    def test_on_four_ranks(self):
        names = ("part_every_strategy_gives_the_losses_of_ddp", "part_control_flow_and_ranks_of_different_speed",
                 "part_compression_sends_less_and_learns_the_same", "part_uneven_inputs_join",
                 "part_a_plan_that_does_not_fit_is_made_anew")
        forked.check_ranks(self, 4, run, {name: PARTS[name] for name in names})

    def test_on_one_rank(self):
        names = ("part_every_strategy_gives_the_losses_of_ddp", "part_what_is_measured_is_shown")
        forked.check_ranks(self, 1, run, {name: PARTS[name] for name in names})

    def test_compiled_graphs(self):
        forked.check_ranks(self, 2, run, COMPILED)

    def test_on_two_hosts(self):
        forked.check_ranks(self, 4, on_two_hosts)
        forked.check_ranks(self, 3, on_hosts_that_differ)

    def test_buckets_keep_to_the_timeout_of_their_group(self):
        with tempfile.TemporaryDirectory() as folder:
            forked.check_ranks(self, 2, wait_in_a_group_of_little_patience, folder)
            self.assertIn("deadline", pathlib.Path(folder, "rank-0").read_text(encoding="utf-8").lower())

    def test_a_rank_that_dies_amid_backward_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            forked.check_ranks(self, 3, die_amid_backward, folder, 2)
            for rank in range(2):
                text = pathlib.Path(folder, f"rank-{rank}").read_text(encoding="utf-8")
                self.assertIn("rank 2", text)


    def test_a_rank_of_another_host_that_dies_is_named(self):
        for form in ("shares", "leader"):
            with tempfile.TemporaryDirectory() as folder:
                forked.check_ranks(self, 4, die_amid_backward, folder, 2, form)  # who meets it in no small group, too
                for rank in (0, 1, 3):
                    text = pathlib.Path(folder, f"rank-{rank}").read_text(encoding="utf-8")
                    self.assertIn("rank 2", text)
                    self.assertNotIn("Mismatch", text)


class Options(unittest.TestCase):
    def refuses(self, words, call):
        with self.assertRaises(GraphError) as caught:
            call()
        self.assertEqual(caught.exception.code, "GE_DIST_GRAPH_BUILD_ERROR")
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_names_of_the_seed(self):
        for name in ("GEDistributedOptimizer", "PerformanceMonitor", "DynamicBucketScheduler", "GE_DIST_GRAPH_BUILD_ERROR",
                     "GE_ALLREDUCE_INSERT_FAILED", "GE_MEMORY_OVERFLOW"):
            self.assertTrue(hasattr(ge_graph_optimizer, name), name)
        ge_graph_optimizer.GEDistributedOptimizer(allreduce_strategy="hierarchical", bucket_cap_mb=50, enable_compression=True)
        ge_graph_optimizer.GEDistributedOptimizer(gradient_sync_method="partial_sync", sync_frequency=4, gradient_clipping=1.0)
        ge_graph_optimizer.GEDistributedOptimizer(allreduce_strategy="smart_overlap", bucket_size=25)

    def test_unknown_options_are_refused_with_the_nearest(self):
        self.refuses(["alreduce_strategy", "'allreduce_strategy'"], lambda: GEDistributedOptimizer(alreduce_strategy="x"))
        self.refuses(["smart_overlap"], lambda: GEDistributedOptimizer(allreduce_strategy="smart_overlapp"))
        self.refuses(["memory_config.bufer_size", "'buffer_size'"], lambda: GEDistributedOptimizer(memory_config={"bufer_size": 1}))
        self.refuses(["enable_compression.knd", "'kind'"], lambda: GEDistributedOptimizer(enable_compression={"knd": "int8"}))
        self.refuses(["distributed.allreduce_insertion.stratgy", "'strategy'"],
                     lambda: keywords_of_file({"distributed": {"allreduce_insertion": {"stratgy": "x"}}}))
        self.refuses(["performence", "'performance'"], lambda: keywords_of_file({"performence": {}}))
        self.refuses(["distributed", "mapping"], lambda: keywords_of_file({"distributed": 3}))
        self.refuses(["no_such_file"], lambda: keywords_of_file("no_such_file.yaml"))

    def test_values_that_make_no_sense_are_refused(self):
        for given in ({"bucket_size": -1}, {"bucket_size": 5, "bucket_cap_mb": 6}, {"min_tensor_size": "1XB"},
                      {"max_group_size": -1}, {"enable_pipeline": "yes"}, {"precision_mode": "fp8"}, {"gradient_clipping": 0},
                      {"sync_frequency": 4}, {"gradient_accumulation_steps": 0}, {"enable_compression": "zip"},
                      {"gradient_sync_method": "no_sync"},
                      {"precision_mode": "fp16", "gradient_sync_method": "partial_sync", "sync_frequency": 2}, {"memory_config": {"limit": "much"}}):
            self.refuses([next(iter(given)).partition(".")[0].split("_")[0]], lambda given=given: make_options(given))

    def test_sizes(self):
        self.assertEqual(make_options({"min_tensor_size": "1MB"}).min_tensor_size, 1 << 20)
        self.assertEqual(make_options({"min_tensor_size": "512 KiB"}).min_tensor_size, 1 << 19)
        self.assertEqual(make_options({"bucket_cap_mb": 50}).bucket_bytes, 50 << 20)
        self.assertEqual(make_options({"bucket_size": 25, "bucket_cap_mb": 25}).bucket_bytes, 25 << 20)
        self.assertEqual(make_options({}).bucket_bytes, 0)

    def test_every_key_of_the_file_is_a_keyword(self):
        given = {
            "distributed": {
                "allreduce_insertion": {"strategy": "synchronous", "min_tensor_size": 5, "max_group_size": 3,
                                        "enable_pipeline": False, "bucket_size": 2, "split_size": 100, "form": "leader",
                                        "compression": "bf16"},
                "gradient_sync": {"method": "full_sync", "frequency": 1, "clipping": 2.0, "broadcast_buffers": False}},
            "performance": {
                "memory_optimization": {"enable_memory_reuse": False, "gradient_accumulation_steps": 2,
                                        "gradient_checkpointing": True, "activation_offloading": True, "buffer_size": "dynamic",
                                        "limit": "1GB", "offload_dir": "/tmp"},
                "computation_optimization": {"kernel_fusion": True, "precision_mode": "bf16"}}}
        options, usual = make_options(keywords_of_file(given)), make_options({})
        for name in ("allreduce_strategy", "min_tensor_size", "max_group_size", "enable_pipeline", "bucket_bytes", "split_size",
                     "form", "enable_compression", "gradient_clipping", "broadcast_buffers", "enable_memory_reuse", "gradient_accumulation_steps",
                     "memory", "kernel_fusion", "precision_mode"):
            self.assertNotEqual(getattr(options, name), getattr(usual, name), name)

    def test_without_a_process_group_it_says_so(self):
        self.refuses(["init_process_group"], lambda: GEDistributedOptimizer(model=torch.nn.Linear(2, 2)))
        self.refuses(["model"], lambda: PerformanceMonitor().profile_step(None))

    def test_bucket_sizes_follow_the_rule_of_the_seed(self):
        scheduler = DynamicBucketScheduler(target_throughput=100.0, bucket_size=25, rule="seed")
        self.assertEqual([scheduler.adjust_bucket_size(rate) for rate in (79, 79, 81)], [12, 6, 12])
        self.refuses(["rule", "steady"], lambda: DynamicBucketScheduler(100.0, rule="other"))


if __name__ == "__main__":
    unittest.main()
