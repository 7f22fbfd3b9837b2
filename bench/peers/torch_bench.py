# SPDX-License-Identifier: Apache-2.0
"""PyTorch's gloo under the method of measure.h, which it gets from libpeer_method.so.

    build/torch/bin/python torch_bench.py LIBRARY OPTION...

Options and output are those of the other programs. Starts its own ranks.
"""

import ctypes
import os
import sys
import tempfile

import torch
import torch.distributed as dist

FAILED = 3
OUT_OF_PLACE, IN_PLACE, NONE = range(3)
CALLBACK = ctypes.CFUNCTYPE(None)
PREPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p,
                           ctypes.c_size_t)


def guarded(function):
    """An exception must not vanish in a callback: the rank ends."""
    def call(*arguments):
        try:
            return function(*arguments)
        except BaseException as error:  # noqa: B902
            print(f"torch: {error}", file=sys.stderr, flush=True)
            os._exit(FAILED)

    return call


def tensor_at(address, count):
    memory = (ctypes.c_float * count).from_address(address)
    return torch.frombuffer(memory, dtype=torch.float32)


def ping_pong(rank, source, target):
    if rank == 0:
        dist.send(source, 1)
        dist.recv(target, 1)
    elif rank == 1:
        dist.recv(target, 0)
        dist.send(target, 0)


class Rank:
    def __init__(self, library, rank, ranks):
        self._library = library
        self._rank = rank
        self._ranks = ranks
        self._operation = None

    def _ways(self, source, target):
        """For each collective the operation, and whether its result replaces its input."""
        parts = list(target.chunk(self._ranks)) if target is not None else []
        return {
            b"broadcast": (lambda: dist.broadcast(source, 0), IN_PLACE),
            b"all_reduce": (lambda: dist.all_reduce(source), IN_PLACE),
            b"reduce": (lambda: dist.reduce(source, 0), IN_PLACE),
            b"all_gather": (lambda: dist.all_gather(parts, source), OUT_OF_PLACE),
            b"all_to_all": (lambda: dist.all_to_all_single(target, source), OUT_OF_PLACE),
            b"send_recv": (lambda: ping_pong(self._rank, source, target), OUT_OF_PLACE),
        }

    def prepare(self, collective, in_address, in_count, out_address, out_count):
        if collective == b"barrier":
            self._operation = dist.barrier
            return OUT_OF_PLACE
        ways = self._ways(tensor_at(in_address, in_count), tensor_at(out_address, out_count))
        self._operation, way = ways.get(collective, (None, NONE))
        return way

    def operate(self):
        self._operation()

    def run(self, rendezvous):
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method="file://" + rendezvous, rank=self._rank, world_size=self._ranks)
        barrier = CALLBACK(guarded(lambda: dist.barrier()))
        status = self._library.peer_join(b"torch", self._rank, barrier)
        if status == 0:
            prepare, operate = PREPARE(guarded(self.prepare)), CALLBACK(guarded(self.operate))
            status = self._library.peer_measure(prepare, operate)
        return status


def run_ranks(library, ranks):
    with tempfile.TemporaryDirectory(prefix="peer_torch_") as folder:
        for rank in range(ranks):
            if os.fork() == 0:
                os._exit(guarded(Rank(library, rank, ranks).run)(os.path.join(folder, "rendezvous")))
        worst = 0
        for _ in range(ranks):
            _, status = os.wait()
            if status != 0:
                library.peer_fail()
                worst = worst or FAILED
        return worst


def main():
    library = ctypes.CDLL(sys.argv[1])
    words = [word.encode() for word in ["torch_bench", *sys.argv[2:]]]
    ranks = library.peer_parse(len(words), (ctypes.c_char_p * len(words))(*words))
    return run_ranks(library, ranks) if ranks > 0 else FAILED


if __name__ == "__main__":
    sys.exit(main())
