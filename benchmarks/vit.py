"""What a HAR step of a vision transformer costs beside one of plain training.

python -m benchmarks.vit
python -m benchmarks.vit --size=32 --width=128 --depth=6 --batch_size=32 --rounds=11

Random images; R is taken at the LayerNorms. FLOPs are those of the program as it is lowered for
CUDA, time is the median of the rounds, in which all take turns.
"""

import argparse

import numpy as np
import optax
from flax import linen as nn
from jaxtyping import Array, Float

from benchmarks.candidates import Candidate, beside, compiled
from har_jax import methods


class ViT(nn.Module):
    """Patches, blocks with norms before attention and before a perceptron, mean over patches.

    Dosovitskiy et al. 2021 (arXiv 2010.11929), without their class token.

    Attributes:
      num_classes: K.
      patch: The side of a patch, in pixels.
      width: The features of a patch.
      depth: The number of blocks.
      heads: Those of the attention; they divide the width.
    """

    num_classes: int = 10
    patch: int = 4
    width: int = 64
    depth: int = 4
    heads: int = 4

    @nn.compact
    def __call__(self, images: Float[Array, "B H W C"], *, train: bool) -> Float[Array, "B K"]:
        sides = (self.patch, self.patch)
        x = nn.Conv(self.width, sides, sides, name="embedding")(images)
        x = x.reshape(len(x), -1, self.width)
        x = x + self.param("positions", nn.initializers.normal(0.02), x.shape[1:])
        for _ in range(self.depth):
            h = nn.LayerNorm()(x)
            x = x + nn.MultiHeadDotProductAttention(self.heads, deterministic=not train)(h)
            h = nn.Dense(4 * self.width)(nn.LayerNorm()(x))
            x = x + nn.Dense(self.width)(nn.gelu(h))
        return nn.Dense(self.num_classes)(nn.LayerNorm()(x).mean(axis=1))


def candidates(model: nn.Module, size: int, batch_size: int) -> dict[str, Candidate]:
    """Steps of plain training and of HAR, exact and of first order, at each step or each second."""
    rng = np.random.default_rng(0)
    batch = {
        "inputs": rng.normal(size=(batch_size, size, size, 3)).astype(np.float32),
        "labels": rng.integers(10, size=batch_size).astype(np.int32),
        "strength": rng.uniform(0, 0.1, size=batch_size).astype(np.float32),
    }
    optimizer = optax.adamw(1e-3)
    found = {"ERM": compiled(methods.erm(model, optimizer), batch)}
    for every in (1, 2):
        for name, derivative in (("HAR", "exact"), ("HAR, first order", "first_order")):
            made = methods.har(model, optimizer, derivative=derivative, every=every)
            at = f"{name}, every {every}" if every > 1 else name
            found[at] = compiled(made, batch, every=every)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=32, help="the side of an image, in pixels")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    model = ViT(width=options.width, depth=options.depth)
    steps = candidates(model, options.size, options.batch_size)
    head, *rows = beside(steps, options.rounds)
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
