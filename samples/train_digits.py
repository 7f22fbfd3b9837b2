#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a classifier of handwritten digits: every rank on its share of the images, gradients averaged by hand.

    ./run torch && export PYTHONPATH=$PWD/build/release/python
    build/release/bin/cohort-run -n 4 -- build/torch/bin/python samples/train_digits.py
    mpirun -np 4 build/torch/bin/python samples/train_digits.py
"""

import argparse
import pathlib

import torch
from torch import nn

import cohort

DATA = pathlib.Path(__file__).parent / "data" / "digits.csv"


def read_digits():
    """(images of 64 pixels from 0 to 1, labels), in an order that is the same on every rank."""
    rows = torch.tensor([[float(word) for word in line.split(",")] for line in DATA.read_text().splitlines()])
    rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(1))]
    return rows[:, :64] / 16, rows[:, 64].long()


def average_gradients(model):
    """One call for all of them, in place: small ones travel together."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    cohort.all_reduce(gradients, op="avg", out=gradients)


def train(model, images, labels, arguments):
    rank, size = cohort.get_rank(), cohort.get_world_size()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for epoch in range(arguments.epochs):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        # As many batches on every rank: all of them call all_reduce as often.
        shares = order[:len(order) // size * size].view(-1, size)[:, rank]
        for batch in shares.split(arguments.batch // size):
            loss = criterion(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            average_gradients(model)
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch + 1}: loss {loss.item():.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description="trains on handwritten digits, on as many ranks as were started")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64, help="images a step, on all ranks together")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cohort.init()

    torch.manual_seed(0)  # the same model everywhere
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    images, labels = read_digits()
    train(model, images[:1500], labels[:1500], arguments)

    with torch.no_grad():
        right = (model(images[1500:]).argmax(1) == labels[1500:]).float().mean().item()
        sums = cohort.all_gather(torch.stack([parameter.double().sum() for parameter in model.parameters()])[None])
    assert (sums == sums[0]).all(), "the ranks' models differ"
    if cohort.get_rank() == 0:
        print(f"accuracy {right:.4f} on {len(images) - 1500} other images; {cohort.get_world_size()} ranks hold one model")


if __name__ == "__main__":
    main()
