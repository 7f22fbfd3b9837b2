# SPDX-License-Identifier: Apache-2.0
"""Pictures of ten kinds, made by chance, and a network that learns to tell them apart on all ranks: for what compression costs."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from cohort.graph import GEDistributedOptimizer, Replanning

SIDE, KINDS = 28, 10
TRAINED, KEPT = 4000, 4000  # pictures, of all ranks together
EPOCHS, BATCH = 3, 50


def pictures(count, chance, kinds):
    """(count, SIDE * SIDE) and their kinds: smooth patterns, moved by a few pixels and blurred by noise."""
    labels = torch.randint(KINDS, (count,), generator=chance)
    shifts = torch.randint(-3, 4, (count, 2), generator=chance).tolist()
    moved = torch.stack([torch.roll(kinds[label], shift, (0, 1)) for label, shift in zip(labels.tolist(), shifts)])
    noise = torch.randn(count, SIDE, SIDE, generator=chance)
    return (moved + 0.9 * noise).flatten(1), labels


def kinds_of(chance):
    coarse = torch.randn(KINDS, 1, 7, 7, generator=chance)
    return F.interpolate(coarse, size=(SIDE, SIDE), mode="bilinear")[:, 0]


def accuracy(seed, compression):
    """Of pictures that were kept apart; the same on all ranks."""
    chance = torch.Generator().manual_seed(seed)
    kinds = kinds_of(chance)
    trained, labels = pictures(TRAINED, chance, kinds)
    kept, expected = pictures(KEPT, chance, kinds)
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(SIDE * SIDE, 128), nn.ReLU(), nn.Linear(128, KINDS))
    optimizer = GEDistributedOptimizer(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
                                       enable_compression=compression, replanning=Replanning(patience=10**6))
    rank, size = dist.get_rank(), dist.get_world_size()
    for _ in range(EPOCHS):
        order = torch.randperm(TRAINED, generator=chance)[rank::size]
        for places in order.split(BATCH):
            optimizer.zero_grad()
            F.cross_entropy(model(trained[places]), labels[places]).backward()
            optimizer.step()
    optimizer.close()
    with torch.no_grad():
        return float((model(kept).argmax(1) == expected).float().mean())
