"""The gradient of R that moved activations give, beside the exact one: by step, kind, precision.

python -m benchmarks.derivatives
python -m benchmarks.derivatives --network=convolutions --seeds=8

Of the penalty alone: the gradient of mean(loss + s R) less that of mean(loss), over s, against the
exact gradient of mean(R) in float64. "Norm alone" is the gradient of mean(R) without a loss, whose
step is the library's own (``step_alone`` in har_jax/first_order/moved.py), and which takes two
passes.
"""

import argparse
import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

import har_jax

ACTIVATIONS = {"GELU": nn.gelu, "SiLU": nn.silu, "ReLU": nn.relu}
STEPS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)


class Network(nn.Module):
    """Three layers with norms: products and LayerNorm, or convolutions and BatchNorm."""

    activation: str
    convolutions: bool
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x):
        for _ in range(3):
            if self.convolutions:
                x = nn.Conv(16, (3, 3), dtype=self.dtype)(x)
                x = nn.BatchNorm(use_running_average=False, dtype=self.dtype)(x)
            else:
                x = nn.LayerNorm(dtype=self.dtype)(nn.Dense(64, dtype=self.dtype)(x))
            x = ACTIVATIONS[self.activation](x)
        if self.convolutions:
            x = x.mean(axis=(1, 2))
        return nn.Dense(10, dtype=self.dtype)(x)


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def gradient(activation, convolutions, dtype, derivative, with_loss, strength, params, x, y):
    """Of the mean of ``loss + strength * norm``, or of the norm alone."""
    apply = Network(activation, convolutions, dtype).apply
    loss_and_norm = har_jax.loss_and_jacobian_norm(apply, derivative=derivative)
    wide = jnp.promote_types(dtype, jnp.float32)

    def objective(params):
        r = loss_and_norm(
            lambda logits: har_jax.cross_entropy(logits.astype(wide), y),
            {"params": params},
            x.astype(wide),
            mutable=["batch_stats"],
        )
        return jnp.mean(r.loss + strength.astype(wide) * r.norm if with_loss else r.norm)

    return jax.grad(objective)(jax.tree.map(lambda leaf: leaf.astype(wide), params))


def gradients(activation: str, convolutions: bool, seed: int) -> dict:
    """By precision and step: the gradient of the penalty, flat, in float64."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(32, 8, 8, 3) if convolutions else (32, 16))
    y = jnp.asarray(rng.integers(10, size=32))
    init = Network(activation, convolutions, jnp.float64).init(jax.random.key(seed), x)
    noisy = lambda leaf: np.asarray(leaf, np.float64) + 0.1 * rng.normal(size=leaf.shape)
    params = jax.tree.map(noisy, init["params"])

    def flat(dtype, derivative, with_loss, strength=0.0):
        strength = jnp.asarray(strength, jnp.float64)
        options = (activation, convolutions, dtype, derivative, with_loss, strength)
        leaves = jax.tree.leaves(gradient(*options, params, x, y))
        return np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in leaves])

    found = {"exact": flat(jnp.float64, "exact", False)}
    for dtype in (jnp.float64, jnp.float32, jnp.bfloat16):
        name = jnp.dtype(dtype).name
        plain = flat(dtype, "first_order", True)
        for s in STEPS:
            found[name, s] = (flat(dtype, "first_order", True, s) - plain) / s
        found[name, "norm alone"] = flat(dtype, "first_order", False)
        found[name, "second derivative"] = flat(dtype, "exact", False)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", choices=("products", "convolutions"), default="products")
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    print(f"{args.network}, medians of seeds 0 to {args.seeds - 1}: relative error, cosine\n")
    print("| activation | s | float64 | float32 | bfloat16 |")
    print("| --- | --- | --- | --- | --- |")
    for activation in ACTIVATIONS:
        convolutions = args.network == "convolutions"
        runs = [gradients(activation, convolutions, seed) for seed in range(args.seeds)]
        for s in (*STEPS, "norm alone", "second derivative"):
            cells = []
            for dtype in ("float64", "float32", "bfloat16"):
                pairs = [(run[dtype, s], run["exact"]) for run in runs]
                error = np.median([np.linalg.norm(x - y) / np.linalg.norm(y) for x, y in pairs])
                lengths = [np.linalg.norm(x) * np.linalg.norm(y) for x, y in pairs]
                cosines = [x @ y / max(n, 1e-300) for (x, y), n in zip(pairs, lengths, strict=True)]
                cells.append(f"{error:.1e}, {np.median(cosines):.4f}")
            print(
                f"| {activation} | {s if isinstance(s, str) else f'{s:g}'} | "
                + " | ".join(cells)
                + " |"
            )


if __name__ == "__main__":
    main()
