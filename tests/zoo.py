"""Small networks that mark their normalized activations with Flax's own ``perturb``.

``perturb`` does nothing in the library under test; it is what the brute-force reference
differentiates, one example at a time.
"""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

NORMS: dict[str, Callable[[], nn.Module]] = {
    "layer": lambda: nn.LayerNorm(epsilon=1e-3),
    "group": lambda: nn.GroupNorm(num_groups=2, epsilon=1e-3),
    "frozen_batch": lambda: nn.BatchNorm(use_running_average=True),
}


class Block(nn.Module):
    """Norm, tanh, and a layer that mixes: a convolution or a product, with a skip."""

    norm: str
    convolution: bool = False

    @nn.compact
    def __call__(self, x, _=None):
        h = self.perturb("h", NORMS[self.norm]()(x))
        layer = nn.Conv(x.shape[-1], (3, 3)) if self.convolution else nn.Dense(x.shape[-1])
        return x + layer(nn.tanh(h)), None


class Network(nn.Module):
    """Two blocks under a lift: ``plain``, ``remat``, ``scan`` or ``scan_remat``."""

    norm: str = "layer"
    convolution: bool = False
    lift: str = "plain"

    @nn.compact
    def __call__(self, x):
        x = nn.Dense(4)(x)
        block = nn.remat(Block) if "remat" in self.lift else Block
        if "scan" in self.lift:
            axes = {"params": 0, "batch_stats": 0, "intermediates": 0, "perturbations": 0}
            block = nn.scan(block, variable_axes=axes, split_rngs={"params": True}, length=2)
            x, _ = block(self.norm, self.convolution, name="stack")(x, None)
        else:
            for _ in range(2):
                x, _ = block(self.norm, self.convolution)(x)
        return nn.Dense(3)(x.reshape(x.shape[0], -1, 4).mean(axis=1))


class Shared(nn.Module):
    """One norm and one layer, called three times, rematerialized or not."""

    remat: bool = False

    def setup(self):
        self.norm, self.layer, self.head = nn.LayerNorm(), nn.Dense(4), nn.Dense(3)

    def __call__(self, x):
        step = nn.remat(Shared.step) if self.remat else Shared.step
        for call in range(3):
            x = step(self, x, call)
        return self.head(x)

    def step(self, x, call):
        h = self.norm(x)
        if not self.remat:
            h = self.perturb(f"h{call}", h)
        return nn.tanh(self.layer(h)) + x


def inputs(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def labels(size, seed=0):
    return np.random.default_rng(seed).integers(0, 3, size=size)


def cross_entropy(logits, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)[:, 0]


def variables(model: nn.Module, x: Any, seed: int = 0) -> dict:
    """Random parameters, and random statistics where there are any."""
    init = jax.jit(model.init)(jax.random.key(seed), x)
    init.pop("perturbations", None)
    rng = np.random.default_rng(seed)
    noise = lambda leaf: leaf + 0.3 * rng.uniform(size=leaf.shape).astype(np.float32)
    return jax.tree.map(noise, init)


def brute_force(model: nn.Module, variables: dict, x, y) -> tuple[np.ndarray, np.ndarray]:
    """Both readings of R, by ``jax.grad`` of one example at a time."""
    zeros = jax.jit(model.init)(jax.random.key(0), x[:1])["perturbations"]
    zeros = jax.tree.map(jnp.zeros_like, zeros)

    @jax.jit
    def gradient(x, y):
        def loss(perturbations):
            logits = model.apply({**variables, "perturbations": perturbations}, x)
            return cross_entropy(logits, y)[0]

        return jax.grad(loss)(zeros)

    root_sum_square, sum_of_norms = [], []
    for row in range(len(x)):
        squares = []
        for path, leaf in jax.tree.leaves_with_path(gradient(x[row : row + 1], y[row : row + 1])):
            stacked = "stack" in jax.tree_util.keystr(path)
            layers = np.asarray(leaf, np.float64).reshape(len(leaf) if stacked else 1, -1)
            squares.extend((layers**2).sum(axis=1))
        root_sum_square.append(np.sqrt(np.sum(squares)))
        sum_of_norms.append(np.sum(np.sqrt(squares)))
    return np.array(root_sum_square), np.array(sum_of_norms)
