# SPDX-License-Identifier: Apache-2.0
"""Torch's flight recorder keeps calls of the backend, and torch's analyser reads what it has kept."""

import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import time
import unittest
from datetime import timedelta

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))

import forked
import torch
import torch.distributed as dist

import cohort.torch

PREFIX = "trace_rank_"
ENTRY = ("process_group", "collective_seq_id", "profiling_name", "input_sizes", "input_dtypes", "output_sizes", "output_dtypes",
         "timeout_ms", "is_p2p")


def join(rank, size, store, backend="cohort", seconds=60, folder=None, entries=100):
    """Records so many calls, and writes those of a failure into the folder."""
    os.environ["TORCH_FR_BUFFER_SIZE"] = str(entries)
    if folder:
        os.environ["TORCH_FR_DUMP_TEMP_FILE"] = os.path.join(folder, PREFIX)
    dist.init_process_group(backend, store=dist.FileStore(store, size), rank=rank, world_size=size,
                            timeout=timedelta(seconds=seconds))


def entries_of(backend="cohort", **options):
    dump = torch._C._distributed_c10d._dump_fr_trace if backend == "gloo" else cohort.torch.dump_fr_trace
    return pickle.loads(dump(**options))["entries"]


def write_dump(folder, rank):
    pathlib.Path(folder, f"{PREFIX}{rank}").write_bytes(cohort.torch.dump_fr_trace())


def analyse(folder):
    """What torchfrtrace says of the dumps of all ranks."""
    done = subprocess.run([sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", folder, "-p", PREFIX], text=True,
                          check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return done.stdout


def collectives(rank, size):
    """One of each that both backends take, on tensors that gloo takes."""
    given, whole = torch.full((2, 3), float(rank)), torch.ones(2 * size, 3)
    parts = [torch.zeros(2, 3) for _ in range(size)]
    dist.all_reduce(given)
    dist.all_reduce(torch.ones(5, dtype=torch.int64), dist.ReduceOp.MAX, async_op=True).wait()
    dist.broadcast(given, 1)
    dist.reduce(given, 0)
    dist.all_gather(parts, given)
    dist.gather(given, parts if rank == 0 else None, 0)
    dist.scatter(given, parts if rank == 0 else None, 0)
    dist.all_to_all_single(torch.zeros(2 * size, 3), whole)
    dist.barrier()
    group = dist.new_group([0, 1], timeout=timedelta(seconds=33), group_desc="halves")
    dist.all_reduce(given, group=group)


def record_collectives(rank, size, store, backend, folder):
    join(rank, size, f"{store}-{backend}", backend)
    collectives(rank, size)
    with open(os.path.join(folder, f"{backend}-{rank}"), "wb") as file:
        pickle.dump(entries_of(backend), file)
    if backend == "cohort":
        write_dump(folder, rank)
    dist.barrier()
    dist.destroy_process_group()


def record_all(rank, size, store, folder):
    """Also what gloo records in another way, or not at all."""
    join(rank, size, store)
    dist.all_reduce(torch.sparse_coo_tensor([[rank]], [1.0], (4,), check_invariants=True))
    parts = [torch.zeros(3) for _ in range(size)]
    dist.reduce_scatter(torch.zeros(3), parts)
    dist.all_gather_single(torch.zeros(3 * size), parts[0])
    dist.reduce_scatter_single(torch.zeros(3), torch.ones(3 * size))
    dist.all_to_all(parts, [torch.ones(3) for _ in range(size)])
    dist.all_reduce_coalesced([torch.ones(2), torch.ones(3)])
    with dist._coalescing_manager():
        dist.all_reduce(torch.ones(4))
        dist.all_reduce(torch.ones(5))
    for first in range(size):
        message = torch.ones(7, dtype=torch.int16)
        dist.send(message, 1 - rank) if rank == first else dist.recv(message, None if first else 1 - rank)
    dist.barrier()
    write_dump(folder, rank)
    messages = [entry for entry in entries_of() if entry["is_p2p"]]
    names = [entry["profiling_name"] for entry in messages]
    assert names == (["gloo:send 0->1", "gloo:recv 0<-1"] if rank == 0 else ["gloo:recv 1<-0", "gloo:send 1->0"]), names
    assert [entry["p2p_seq_id"] for entry in messages] == [10**9, 10**9 + 1]
    assert all(entry["state"] == "completed" and entry["retired"] for entry in entries_of()), entries_of()
    dist.destroy_process_group()


def stay_away(rank, size, store, folder):
    """Rank 1 does not make the third call."""
    join(rank, size, store, folder=folder)
    dist.barrier()
    dist.all_reduce(torch.ones(4))
    if rank == 0:
        dist.group.WORLD.set_timeout(timedelta(seconds=1))
        try:
            dist.all_reduce(torch.ones(9))
        except RuntimeError as error:
            assert "Timed out" in str(error), error
        else:
            raise AssertionError("the call was made by one rank alone")
        is_written = os.path.exists(os.path.join(folder, f"{PREFIX}0"))
        os.mkdir(os.path.join(folder, "done"))
        assert is_written
    else:
        write_dump(folder, rank)
        while not os.path.exists(os.path.join(folder, "done")):  # it is still there
            time.sleep(0.01)


def call_otherwise(rank, size, store, folder):
    """Both ranks are told that their calls differ, and both write what they did."""
    join(rank, size, store, folder=folder)
    dist.barrier()
    try:
        dist.all_reduce(torch.ones(4 + rank), async_op=True).get_future().wait()
    except RuntimeError as error:
        assert "count differs" in str(error), error
    else:
        raise AssertionError("calls that differ were made")
    assert os.path.exists(os.path.join(folder, f"{PREFIX}{rank}")), "nothing was written"


def see_states(rank, size, store):
    join(rank, size, store)
    got = torch.zeros(3)
    work = dist.irecv(got, 1) if rank == 0 else None
    if work:
        (entry,) = entries_of()
        assert (entry["state"], entry["retired"], entry["profiling_name"]) == ("started", False, "gloo:recv 0<-1"), entry
        (frame,) = [frame for frame in entry["frames"] if frame["name"] == "see_states"]
        assert frame["filename"] == __file__, frame
    dist.barrier()
    if work is None:
        dist.send(got, 0)
    else:
        work.wait()
        dump = json.loads(cohort.torch.dump_fr_trace_json())
        assert dump["pg_config"] == {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}, dump
        (status,) = dump["pg_status"].values()
        assert status == {f"last_{what}_collective": "1" for what in ("enqueued", "started", "completed")}, dump
        received, barrier = dump["entries"]
        for entry in (received, barrier):
            assert entry["state"] == "completed" and entry["retired"] and entry["duration_ms"] >= 0, entry
            assert entry["time_created_ns"] <= entry["time_discovered_started_ns"] <= entry["time_discovered_completed_ns"], entry
        assert received["input_sizes"] == [[3]] and received["input_dtypes"] == ["Float"], received
    assert entries_of() and not entries_of(only_active=True)
    assert "entries" not in pickle.loads(cohort.torch.dump_fr_trace(False))
    assert all("frames" not in entry for entry in entries_of(include_stack_traces=False))
    dist.barrier()
    dist.destroy_process_group()


def record_more_than_fit(rank, size, store):
    join(rank, size, store, entries=4)
    pending = [dist.all_reduce(torch.ones(2), async_op=True) for _ in range(11)]
    for work in pending:
        work.wait()
    kept = entries_of()
    assert [entry["collective_seq_id"] for entry in kept] == [8, 9, 10, 11], kept
    assert [entry["record_id"] for entry in kept] == [7, 8, 9, 10] and all(entry["state"] == "completed" for entry in kept), kept
    dist.destroy_process_group()


def record_nothing(rank, size, store, folder):
    for name in ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"):
        os.environ.pop(name, None)
    os.environ["TORCH_FR_DUMP_TEMP_FILE"] = os.path.join(folder, PREFIX)
    dist.init_process_group("cohort", store=dist.FileStore(store, size), rank=rank, world_size=size)
    dist.all_reduce(torch.ones(2))
    if rank == 0:
        dist.group.WORLD.set_timeout(timedelta(seconds=1))
        try:
            dist.all_reduce(torch.ones(2))
        except RuntimeError:
            pass
    assert not entries_of() and not os.listdir(folder)


def begin_anew_in_a_child(rank, size, store):
    join(rank, size, store)
    dist.all_reduce(torch.ones(2))
    waiting = dist.irecv(torch.ones(1), 1 - rank)
    child = os.fork()
    if child == 0:
        status = 0 if not entries_of() else 1
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "a child has its parent's calls"
    dist.send(torch.ones(1), 1 - rank)
    waiting.wait()
    assert [entry["state"] for entry in entries_of()] == ["completed"] * 3, entries_of()
    dist.barrier()
    dist.destroy_process_group()


class FlightRecorder(unittest.TestCase):
    maxDiff = None

    def test_entries_are_those_of_gloo(self):
        with tempfile.TemporaryDirectory() as folder:
            for backend in ("gloo", "cohort"):
                forked.check_ranks(self, 2, record_collectives, backend, folder)
            for rank in range(2):
                of_gloo, ours = (pickle.loads(pathlib.Path(folder, f"{backend}-{rank}").read_bytes()) for backend in ("gloo", "cohort"))
                self.assertEqual(*([{name: entry[name] for name in ENTRY} for entry in entries] for entries in (ours, of_gloo)))
                self.assertLessEqual(set(of_gloo[0]), set(ours[0]))

    def test_the_analyser_finds_nothing_wrong_with_what_is_right(self):
        for record, arguments in ((record_collectives, ["cohort"]), (record_all, [])):
            with tempfile.TemporaryDirectory() as folder:
                forked.check_ranks(self, 2, record, *arguments, folder)
                self.assertNotRegex(analyse(folder), "(?i)mismatch|not all ranks|error")

    def test_a_rank_that_has_not_come_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            forked.check_ranks(self, 2, stay_away, folder)
            text = analyse(folder)
        self.assertRegex(text, r"(?s)Not all ranks joining collective, sequence number: 3\b.*all_reduce.*missing ranks: \{1\}")
        self.assertRegex(text, r"(?s)collective state: started.*stay_away at .*flight_recorder_test.py")

    def test_calls_that_differ_are_told(self):
        with tempfile.TemporaryDirectory() as folder:
            forked.check_ranks(self, 2, call_otherwise, folder)
            text = analyse(folder)
        self.assertRegex(text, r"(?s)sequence number: 2 has errors.*SIZE_OR_SYNTAX_MISMATCH.*\[\[(4\]\].*\[\[5|5\]\].*\[\[4)\]\]")

    def test_states(self):
        forked.check_ranks(self, 2, see_states)

    def test_as_many_are_kept_as_was_said(self):
        forked.check_ranks(self, 2, record_more_than_fit)

    def test_nothing_is_recorded_or_written_unless_it_was_said(self):
        with tempfile.TemporaryDirectory() as folder:
            forked.check_ranks(self, 2, record_nothing, folder)

    def test_a_child_of_fork_begins_anew(self):
        forked.check_ranks(self, 2, begin_anew_in_a_child)


if __name__ == "__main__":
    unittest.main()
