"""What it costs to take R at every second step only, in a network of plain convolutions.

python -m benchmarks.alternation [--rounds=9]

On CPU the training loop picks one of two compiled steps, "picked"; elsewhere one step chooses by a
``lax.cond``. Both beside the mean of a plain step and one with R, which is what they should take.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

from benchmarks.timing import Run, alternate, ratio
from har_jax import methods


class Plain(nn.Module):
    """Flax's own convolutions."""

    @nn.compact
    def __call__(self, x, *, train):
        for width in (32, 64, 64):
            x = nn.Conv(width, (3, 3))(x)
            x = nn.relu(nn.BatchNorm(not train, use_scale=False, use_bias=False)(x))
        return nn.Dense(10)(jnp.mean(x, axis=(1, 2)))


def runs(batch_size: int) -> dict[str, Run]:
    """Makes pairs of steps of each kind."""
    rng = np.random.default_rng(0)
    batch = {
        "inputs": jnp.asarray(rng.normal(size=(batch_size, 32, 32, 3)), jnp.float32),
        "labels": jnp.asarray(rng.integers(0, 10, batch_size)),
        "strength": jnp.full(batch_size, 0.1),
    }
    optimizer, key = optax.sgd(0.1), jax.random.key(0)
    sometimes = methods.har(Plain(), optimizer, every=2)
    assert sometimes.phases is not None
    regularized, plain = map(jax.jit, sometimes.phases.steps)
    chosen = jax.jit(sometimes.step)
    start = jax.jit(sometimes.init)(key, batch)

    def pairs(*steps):
        def run(times: int) -> None:
            state = start
            for _ in range(times):
                for step in steps:
                    state, _ = step(state, batch, key)
            jax.block_until_ready(state)

        return run

    return {
        "ERM": pairs(plain, plain),
        "HAR": pairs(regularized, regularized),
        "picked": pairs(regularized, plain),
        "lax.cond": pairs(chosen, chosen),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    seconds = alternate(runs(options.batch_size), options.rounds)
    mean = (seconds["ERM"] + seconds["HAR"]) / 2
    print("| step | median, s | of the mean of ERM and HAR (quartiles) |\n| --- | --- | --- |")
    for name, times in seconds.items():
        middle, low, high = ratio(times, mean)
        print(f"| {name} | {np.median(times) / 2:.4f} | {middle:.2f} ({low:.2f}-{high:.2f}) |")


if __name__ == "__main__":
    main()
