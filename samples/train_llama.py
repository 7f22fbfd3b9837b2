#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small transformer of LLaMA's kind (RMSNorm, rotary embeddings, SwiGLU) on text with DistributedDataParallel, then
runs it split over the ranks, tensor by tensor, and compares that with one process.

    ./run torch && export PYTHONPATH=$PWD/build/release/python
    build/release/bin/cohort-run -n 2 -- build/torch/bin/python samples/train_llama.py --curve loss.png
    mpirun -np 4 build/torch/bin/python samples/train_llama.py --backend gloo

The text is the licences that Debian's package base-files carries; a token is a byte. The curve needs matplotlib.
"""

import argparse
import dataclasses
import math
import pathlib
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import cohort.torch

TEXTS = pathlib.Path("/usr/share/common-licenses")


@dataclasses.dataclass
class Shape:
    """Of the model. What is split over ranks, heads and hidden, has to divide by their number."""

    dim: int = 64
    layers: int = 2
    heads: int = 4
    hidden: int = 192
    context: int = 64
    tokens: int = 256


class RMSNorm(nn.Module):
    """(..., dim) -> the same: divided by the root of the mean square of each row."""

    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def rotate(x):
    """(batch, heads, time, width) -> the same: pairs of a row turned by angles that grow with its time."""
    time_steps, half = x.shape[-2], x.shape[-1] // 2
    turns = 10_000.0 ** (-torch.arange(half) / half)
    angles = torch.arange(time_steps)[:, None] * turns
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()), -1)


def attend(x, query, key, value, heads):
    """(batch, time, dim) -> (batch, time, heads * width): of so many heads, whose weights these are."""
    def split(weight):
        return F.linear(x, weight).unflatten(-1, (heads, -1)).transpose(1, 2)

    q, k, v = rotate(split(query)), rotate(split(key)), split(value)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return (scores.masked_fill(future, float("-inf")).softmax(-1) @ v).transpose(1, 2).flatten(-2)


def swiglu(x, gate, up):
    """(..., dim) -> (..., hidden)."""
    return F.silu(F.linear(x, gate)) * F.linear(x, up)


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.heads = shape.heads
        self.before_attention, self.before_mlp = RMSNorm(shape.dim), RMSNorm(shape.dim)
        self.query, self.key, self.value, self.output = (nn.Linear(shape.dim, shape.dim, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(shape.dim, shape.hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(shape.hidden, shape.dim, bias=False)

    def forward(self, x):
        weights = (self.query.weight, self.key.weight, self.value.weight)
        x = x + self.output(attend(self.before_attention(x), *weights, self.heads))
        return x + self.down(swiglu(self.before_mlp(x), self.gate.weight, self.up.weight))


class Llama(nn.Module):
    """(batch, time) tokens -> (batch, time, tokens) logits of the next one."""

    def __init__(self, shape):
        super().__init__()
        self.embedding = nn.Embedding(shape.tokens, shape.dim)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.dim)
        self.logits = nn.Linear(shape.dim, shape.tokens, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.logits(self.norm(x))


def gather_time(x):
    """(time / ranks, dim) of each rank -> (time, dim)."""
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x)
    return torch.cat(parts)


def scatter_sum(x):
    """(time, dim) of each rank -> this rank's (time / ranks, dim) of their sum."""
    mine = torch.empty(len(x) // dist.get_world_size(), x.shape[1])
    if dist.get_backend() == "gloo":  # which has no reduce_scatter
        dist.all_reduce(x)
        mine.copy_(x.split(len(mine))[dist.get_rank()])
    else:
        dist.reduce_scatter_tensor(mine, x.contiguous())
    return mine


def run_split(model, tokens):
    """(time) tokens -> (time, tokens) logits, by all ranks together. Each has its share of the heads and of the hidden
    columns, and between them its share of the time steps: activations are gathered before a split layer, and the partial
    results summed and shared out behind it."""
    rank, size = dist.get_rank(), dist.get_world_size()

    def share(weight, dim=0):
        return weight.chunk(size, dim)[rank]

    x = model.embedding(tokens.chunk(size)[rank])
    for block in model.blocks:
        whole = gather_time(block.before_attention(x))
        query, key, value = (share(part.weight) for part in (block.query, block.key, block.value))
        heads = attend(whole[None], query, key, value, block.heads // size)[0]
        x = x + scatter_sum(F.linear(heads, share(block.output.weight, 1)))
        whole = gather_time(block.before_mlp(x))
        hidden = swiglu(whole, share(block.gate.weight), share(block.up.weight))
        x = x + scatter_sum(F.linear(hidden, share(block.down.weight, 1)))
    return gather_time(model.logits(model.norm(x)))


def read_text():
    """(bytes) of all texts, as tokens."""
    files = sorted(file for file in TEXTS.iterdir() if file.is_file() and not file.is_symlink())
    if not files:
        sys.exit(f"{TEXTS} holds no text; it is Debian's package base-files")
    return torch.frombuffer(bytearray(b"\n".join(file.read_bytes() for file in files)), dtype=torch.uint8).long()


def show_progress(step, steps, loss, began):
    """A bar on a terminal, a line every tenth of the way elsewhere."""
    text = f"step {step}/{steps}, loss {loss:.3f}, {(time.monotonic() - began) / step * 1e3:.0f} ms a step"
    if sys.stderr.isatty():
        done = 30 * step // steps
        print(f"\r[{'#' * done}{'.' * (30 - done)}] {text} ", end="\n" if step == steps else "", file=sys.stderr, flush=True)
    elif step == steps or step % max(1, steps // 10) == 0:
        print(text, file=sys.stderr, flush=True)


def train(model, text, shape, arguments):
    """The mean loss of all ranks at each step."""
    rank, losses, began = dist.get_rank(), [], time.monotonic()
    choose = torch.Generator().manual_seed(rank)  # other places on each rank
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(1, arguments.steps + 1):
        starts = torch.randint(len(text) - shape.context, (arguments.batch,), generator=choose)
        windows = torch.stack([text[start:start + shape.context + 1] for start in starts.tolist()])
        loss = F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach() / dist.get_world_size()
        dist.all_reduce(mean)
        losses.append(mean.item())
        if rank == 0:
            show_progress(step, arguments.steps, losses[-1], began)
    return losses


def draw_curve(losses, path):
    try:
        import matplotlib
    except ImportError:
        print(f"no {path}: pip install matplotlib", file=sys.stderr)
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.figure(figsize=(7, 4))
    pyplot.plot(range(1, len(losses) + 1), losses)
    pyplot.xlabel("step")
    pyplot.ylabel("cross entropy of a byte")
    pyplot.title(f"{dist.get_world_size()} ranks over {dist.get_backend()}")
    pyplot.savefig(path, dpi=100)
    print(f"loss curve: {path}")


def write_on(model, prompt, count, context):
    """The text with the bytes that are likeliest to follow, by all ranks together."""
    tokens = torch.tensor(list(prompt.encode()))
    for _ in range(count):
        seen = tokens[-context:]
        padded = F.pad(seen, (0, context - len(seen)))  # the time has to divide; what follows is not looked at
        logits = run_split(model, padded)
        tokens = torch.cat((tokens, logits[len(seen) - 1].argmax()[None]))
    return bytes(tokens.tolist()).decode("latin-1")


def main():
    parser = argparse.ArgumentParser(description="trains a small language model, on as many ranks as were started")
    parser.add_argument("--backend", default="cohort", choices=("cohort", "gloo"))
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=8, help="windows of text a step, on each rank")
    parser.add_argument("--curve", help="a PNG for the loss")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    cohort.torch.init_process_group(arguments.backend)
    shape = Shape()
    if shape.heads % dist.get_world_size():
        sys.exit(f"{shape.heads} heads cannot be split over {dist.get_world_size()} ranks: start 1, 2 or 4")

    text = read_text()
    model = Llama(shape)
    losses = train(DistributedDataParallel(model), text, shape, arguments)
    with torch.no_grad():
        window = text[:shape.context]
        difference = (run_split(model, window) - model(window[None])[0]).abs().max().item()
        sample = write_on(model, "This License ", 40, shape.context)
    assert difference < 1e-3, f"split over the ranks, logits differ by {difference}"
    if dist.get_rank() == 0:
        print(f"loss {losses[0]:.3f} at first, {losses[-1]:.3f} at last; "
              f"split over {dist.get_world_size()} ranks, logits differ by {difference:.1e} from one process")
        print(repr(sample))
        if arguments.curve:
            draw_curve(losses, arguments.curve)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
