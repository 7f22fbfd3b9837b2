# SPDX-License-Identifier: Apache-2.0
"""A training script as users of hcomm write it, on the CPU. Made up here: torchvision, with a few images."""

import sys
import types

import torch


class FewImages(torch.utils.data.Dataset):
    """Patterns of their label, with noise; as many as two batches of eight ranks."""

    def __init__(self, root, train, download, transform):
        noise = torch.Generator().manual_seed(1)
        self.labels = torch.arange(1024) % 10
        patterns = torch.rand(10, 1, 28, 28, generator=noise)
        self.images = patterns[self.labels] + 0.1 * torch.rand(1024, 1, 28, 28, generator=noise)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], int(self.labels[index])


sys.modules["torchvision"] = types.SimpleNamespace(
    datasets=types.SimpleNamespace(MNIST=FewImages), transforms=types.SimpleNamespace(ToTensor=lambda: None))

import hcomm
import torch.nn as nn
import torch.optim as optim
from torchvision import datasets, transforms

hcomm.init()
rank = hcomm.get_rank()
world_size = hcomm.get_world_size()

model = nn.Sequential(
    nn.Linear(784, 512),
    nn.ReLU(),
    nn.Linear(512, 256),
    nn.ReLU(),
    nn.Linear(256, 10)
)
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(model.parameters(), lr=0.01)

# What the users' script leaves to chance: all ranks begin with one model.
for param in model.parameters():
    hcomm.broadcast(param.data, 0)

train_dataset = datasets.MNIST(root="./data", train=True, download=True, transform=transforms.ToTensor())
train_sampler = torch.utils.data.distributed.DistributedSampler(train_dataset, num_replicas=world_size, rank=rank)
train_loader = torch.utils.data.DataLoader(train_dataset, batch_size=64, sampler=train_sampler)

for epoch in range(10):
    train_sampler.set_epoch(epoch)
    for batch_idx, (data, target) in enumerate(train_loader):
        data, target = data.view(-1, 784), target
        output = model(data)
        loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        for param in model.parameters():
            if param.grad is not None:
                param.grad.data = torch.from_numpy(
                    hcomm.all_reduce(
                        tensor=param.grad.data.cpu().numpy(),
                        op="sum"
                    )
                ) / world_size
        optimizer.step()
    print(f"rank {rank} epoch {epoch} done\n", end="", flush=True)

mine = torch.cat([param.data.flatten() for param in model.parameters()])
first = mine.clone()
hcomm.broadcast(first, 0)
if torch.equal(mine, first):
    print(f"rank {rank} holds the model of rank 0\n", end="", flush=True)
