"""The gradient of R that moved activations give, beside the exact one: by step, kind, precision.

python -m benchmarks.derivatives
python -m benchmarks.derivatives --network=convolutions --seeds=8

Of the penalty alone: the gradient of mean(loss + s R) less that of mean(loss), over s, against the
exact gradient of mean(R) in float64. "Scaled back" is the gradient of mean(R) without a loss, whose
step is the library's own (:data:`har_jax.first_order.STEP`), and which takes two passes.
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


def gradients(activation: str, convolutions: bool, seed: int) -> dict:
    """By precision and step: the gradient of the penalty, flat, in float64."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(32, 8, 8, 3) if convolutions else (32, 16))
    y = jnp.asarray(rng.integers(10, size=32))
    init = Network(activation, convolutions, jnp.float64).init(jax.random.key(seed), x)
    scaled = lambda leaf: np.asarray(leaf, np.float64) + 0.1 * rng.normal(size=leaf.shape)
    params = jax.tree.map(scaled, init["params"])

    @functools.partial(jax.jit, static_argnums=(0, 1, 2))
    def gradient(dtype, derivative, with_loss, strength):
        apply = Network(activation, convolutions, dtype).apply
        loss_and_norm = har_jax.loss_and_jacobian_norm(apply, derivative=derivative)
        wide = jnp.promote_types(dtype, jnp.float32)

        def objective(params):
            r = loss_and_norm(
                lambda logits: har_jax.cross_entropy(logits.astype(wide), y),
                {"params": params},
                jnp.asarray(x, wide),
                mutable=["batch_stats"],
            )
            return jnp.mean(r.loss + strength * r.norm) if with_loss else jnp.mean(r.norm)

        return jax.grad(objective)(jax.tree.map(lambda leaf: leaf.astype(wide), params))

    flat = lambda *args: np.concatenate(
        [np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(gradient(*args))]
    )
    found = {"exact": flat(jnp.float64, "exact", False, 0.0)}
    for dtype in (jnp.float64, jnp.float32, jnp.bfloat16):
        name, wide = jnp.dtype(dtype).name, jnp.promote_types(dtype, jnp.float32)
        plain = flat(dtype, "first_order", True, jnp.zeros((), wide))
        for s in STEPS:
            moved = flat(dtype, "first_order", True, jnp.asarray(s, wide))
            found[name, s] = (moved - plain) / s
        found[name, "scaled back"] = flat(dtype, "first_order", False, jnp.zeros((), wide))
        found[name, "second derivative"] = flat(dtype, "exact", False, jnp.zeros((), wide))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", choices=("products", "convolutions"), default="products")
    parser.add_argument("--seeds", type=int, default=4)
    args = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    print(f"{args.network}, medians of seeds 0 to {args.seeds - 1}: relative error, cosine\n")
    print("| activation | s | float64 | float32 | bfloat16 |")
    print("| --- | --- | --- | --- | --- |")
    for activation in ACTIVATIONS:
        convolutions = args.network == "convolutions"
        runs = [gradients(activation, convolutions, seed) for seed in range(args.seeds)]
        for s in (*STEPS, "scaled back", "second derivative"):
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
