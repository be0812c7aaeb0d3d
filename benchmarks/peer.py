"""The peer: HAR's training step in eager PyTorch, written from the paper's equations.

Cao et al. 2021, section 2.3 and appendices B and C: a residual network for 32x32 images, whose
normalized activations, before scale and bias, are what the losses are differentiated by. Where
nothing is differentiated by them, scale and bias go into PyTorch's own batch normalization, which
is faster.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Norm(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("var", torch.ones(channels))

    def forward(self, x: Tensor, taps: list[Tensor] | None) -> Tensor:
        statistics = self.mean, self.var
        options = dict(training=self.training, momentum=0.1, eps=1e-5)
        if taps is None:
            return F.batch_norm(x, *statistics, self.scale, self.bias, **options)
        normalized = F.batch_norm(x, *statistics, **options)
        taps.append(normalized)
        return normalized * self.scale[:, None, None] + self.bias[:, None, None]


class Block(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.stride, self.pad = stride, (width - inputs) // 2
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, padding=1, bias=False)
        self.norm1 = Norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = Norm(width)

    def forward(self, x: Tensor, taps: list[Tensor] | None) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x), taps))
        y = self.norm2(self.conv2(y), taps)
        if self.pad:
            shortcut = x[:, :, :: self.stride, :: self.stride]
            x = F.pad(shortcut, (0, 0, 0, 0, self.pad, self.pad))
        return F.relu(y + x)


class ResNet(nn.Module):
    """Named as :class:`har_jax.models.CifarResNet`, with images as ``[B, 3, H, W]``."""

    def __init__(self, num_classes: int, depth: int = 32, widths=(16, 32, 64)) -> None:
        super().__init__()
        self.stem_conv = nn.Conv2d(3, widths[0], 3, padding=1, bias=False)
        self.stem_norm = Norm(widths[0])
        self.blocks = nn.ModuleDict()
        inputs = widths[0]
        for stage, width in enumerate(widths, start=1):
            for block in range(1, (depth - 2) // 6 + 1):
                stride = 2 if stage > 1 and block == 1 else 1
                self.blocks[f"stage{stage}_block{block}"] = Block(inputs, width, stride)
                inputs = width
        self.classifier = nn.Linear(inputs, num_classes)

    def forward(self, images: Tensor, taps: list[Tensor] | None = None) -> Tensor:
        x = F.relu(self.stem_norm(self.stem_conv(images), None))  # the stem is not regularized
        for block in self.blocks.values():
            x = block(x, taps)
        return self.classifier(x.mean((2, 3)))


class Results(NamedTuple):
    logits: Tensor
    losses: Tensor
    norms: Tensor | None
    objective: Tensor


def objective(
    model: ResNet, images: Tensor, labels: Tensor, strength: Tensor | None, reduction: str
) -> Results:
    """The mean of the losses, and with a strength that of ``strength * R`` beside it."""
    if strength is None:
        logits = model(images)
        losses = F.cross_entropy(logits, labels, reduction="none")
        return Results(logits, losses, None, losses.mean())
    taps: list[Tensor] = []
    logits = model(images, taps)
    losses = F.cross_entropy(logits, labels, reduction="none")
    gradients = torch.autograd.grad(losses.sum(), taps, create_graph=True)
    squares = torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients])
    norms = squares.sum(0).sqrt() if reduction == "root_sum_square" else squares.sqrt().sum(0)
    return Results(logits, losses, norms, (losses + strength * norms).mean())


def sgd(model: ResNet) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)


def step(model: ResNet, optimizer: torch.optim.SGD, *batch, reduction: str) -> Results:
    """One update of the model, in place."""
    results = objective(model, *batch, reduction)
    optimizer.zero_grad()
    results.objective.backward()
    optimizer.step()
    return results


def load(model: ResNet, variables: dict[tuple[str, ...], np.ndarray]) -> None:
    """Copies the flattened variables of a Flax network of this library."""
    state = {}
    for path, value in variables.items():
        state[_name(path)] = torch.tensor(value.transpose(_ORDER[value.ndim]))
    model.load_state_dict(state)


def like_flax(tensors: dict[str, Tensor], path: tuple[str, ...]) -> np.ndarray:
    """The array that a Flax network calls ``path``, of parameters, gradients or buffers."""
    value = tensors[_name(path)].detach().cpu().numpy()
    return value.transpose(np.argsort(_ORDER[value.ndim]))


_ORDER = {1: (0,), 2: (1, 0), 4: (3, 2, 0, 1)}


def _name(path: tuple[str, ...]) -> str:
    *modules, leaf = (part for part in path if part not in ("params", "batch_stats", "BatchNorm_0"))
    prefix = ["blocks"] if modules[0].startswith("stage") else []
    return ".".join([*prefix, *modules, {"kernel": "weight"}.get(leaf, leaf)])
