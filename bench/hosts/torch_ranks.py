# SPDX-License-Identifier: Apache-2.0
"""As peers/torch_bench.py, with each rank on a host of its own: torch_ranks.py PREFIX RANKS_PER_HOST LIBRARY OPTION..."""

import ctypes
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
import torch_bench  # noqa: E402

CLONE_NEWNET = 0x40000000


class RankOfHost(torch_bench.Rank):
    prefix = ""
    per_host = 1

    def run(self, rendezvous):
        with open(f"/run/netns/{self.prefix}-{self._rank // self.per_host}", "rb") as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
        return super().run(rendezvous)


if __name__ == "__main__":
    RankOfHost.prefix, RankOfHost.per_host = sys.argv[1], int(sys.argv[2])
    del sys.argv[1:3]
    torch_bench.Rank = RankOfHost
    sys.exit(torch_bench.main())
