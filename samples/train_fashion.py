#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a classifier of pieces of clothing (Fashion-MNIST, Debian's package dataset-fashion-mnist) with
DistributedDataParallel, over "cohort" or over gloo.

    ./run torch && export PYTHONPATH=$PWD/build/release/python
    build/release/bin/cohort-run -n 2 -- build/torch/bin/python samples/train_fashion.py
    build/torch/bin/torchrun --standalone --nproc-per-node 2 samples/train_fashion.py --backend gloo
"""

import argparse
import gzip
import pathlib
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import cohort.torch

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")


def read_idx(name):
    """An array of bytes in the IDX format: two zeros, the type 8, the number of dimensions, each as four bytes, the data."""
    content = gzip.decompress((DATA / name).read_bytes())
    assert content[:3] == b"\0\0\x08", f"{name} is no IDX file of bytes"
    sizes = np.frombuffer(content, ">u4", count=content[3], offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * len(sizes)).reshape(sizes)


def read_images(part, count):
    images = torch.from_numpy(read_idx(f"{part}-images-idx3-ubyte.gz")[:count].copy()).float().flatten(1) / 255
    return TensorDataset(images, torch.from_numpy(read_idx(f"{part}-labels-idx1-ubyte.gz")[:count].astype(np.int64)))


def train(model, loader, epochs):
    """Prints, on rank 0, a line for each epoch."""
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
        began = time.monotonic()
        for data, target in loader:
            loss = criterion(model(data), target)
            optimizer.zero_grad()
            loss.backward()  # gradients are reduced meanwhile
            optimizer.step()
        if dist.get_rank() == 0:
            print(f"epoch {epoch + 1}: loss {loss.item():.4f}, {time.monotonic() - began:.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description="trains on Fashion-MNIST, on as many ranks as were started")
    parser.add_argument("--backend", default="cohort", choices=("cohort", "gloo"))
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--images", type=int, default=60_000)
    parser.add_argument("--batch", type=int, default=64, help="images a step, on each rank")
    arguments = parser.parse_args()
    if not DATA.exists():
        sys.exit(f"{DATA} is missing: apt-get install dataset-fashion-mnist")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    cohort.torch.init_process_group(arguments.backend)

    images = read_images("train", arguments.images)
    loader = DataLoader(images, arguments.batch, sampler=DistributedSampler(images))
    layers = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
    model = DistributedDataParallel(layers)
    train(model, loader, arguments.epochs)

    # Each rank looks at its share of the other images.
    data, target = read_images("t10k", 10_000)[dist.get_rank()::dist.get_world_size()]
    with torch.no_grad():
        counts = torch.tensor([(model(data).argmax(1) == target).sum(), len(target)], dtype=torch.float64)
    dist.all_reduce(counts)
    if dist.get_rank() == 0:
        print(f"accuracy {counts[0] / counts[1]:.4f} on {int(counts[1])} other images; "
              f"{dist.get_world_size()} ranks over {arguments.backend}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
