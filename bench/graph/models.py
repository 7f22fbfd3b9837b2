# SPDX-License-Identifier: Apache-2.0
"""Models of different kinds for bars.py: a language model, few wide layers, and many narrow ones."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

import train_llama


def _chance():
    return torch.Generator().manual_seed(dist.get_rank())


def llama(batch, dim=128, layers=4):
    """The model and what gives a loss of it, for so many windows of 64 bytes."""
    torch.manual_seed(0)
    shape = train_llama.Shape(dim=dim, layers=layers, hidden=3 * dim)
    chance = _chance()

    def loss_of(model):
        tokens = torch.randint(256, (batch, shape.context + 1), generator=chance)
        return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    return train_llama.Llama(shape), loss_of


def _of_layers(widths, batch):
    torch.manual_seed(0)
    layers = []
    for into, out in zip(widths, widths[1:]):
        layers += [nn.Linear(into, out), nn.ReLU()]
    chance = _chance()

    def loss_of(model):
        return model(torch.rand(batch, widths[0], generator=chance)).pow(2).mean()

    return nn.Sequential(*layers[:-1]), loss_of


def wide(batch):
    return _of_layers([512, 1024, 1024, 10], 16 * batch)


def deep(batch):
    return _of_layers([96] * 60 + [10], 64 * batch)


MODELS = {"language model": llama, "few wide layers": wide, "many narrow layers": deep}
