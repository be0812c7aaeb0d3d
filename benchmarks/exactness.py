"""Whether the library and the PyTorch peer compute the same, from the same weights and batches.

python -m benchmarks.exactness

Prints the largest difference, over batches' rows or a network's arrays, of each quantity: the
norm of the difference over the norm of the peer's array.
"""

import argparse
import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from flax import traverse_util

import har_jax
from benchmarks import peer
from benchmarks.candidates import sgd
from har_jax.models import CifarResNet

STEPS = 10


def differences(
    dtype: str, *, depth: int = 32, batch_size: int = 32, reduction: str, steps: int = STEPS
) -> dict[str, float]:
    """Relative differences after the first step, and of the parameters after the last.

    Args:
      dtype: ``"float32"`` or ``"float64"``.
      depth: Of the ResNet.
      batch_size: Rows of each batch.
      reduction: How R sums over layers.
      steps: Updates by SGD with momentum and weight decay.
    """
    with jax.enable_x64(dtype == "float64"), jax.default_matmul_precision("highest"):
        return _differences(dtype, depth, batch_size, reduction, steps)


def _differences(dtype, depth, batch_size, reduction, steps):
    rng = np.random.default_rng(0)
    batches = [
        (
            rng.normal(size=(batch_size, 32, 32, 3)).astype(dtype),
            rng.integers(10, size=batch_size),
            rng.uniform(0, 0.1, size=batch_size).astype(dtype),
        )
        for _ in range(steps)
    ]
    model = CifarResNet(10, depth)
    initial = model.init(jax.random.key(0), jnp.asarray(batches[0][0]), train=False)
    variables = {
        path: np.asarray(value, dtype)
        for path, value in traverse_util.flatten_dict(dict(initial)).items()
    }
    ours = _ours(model, variables, batches, reduction)
    theirs = _theirs(depth, variables, batches, dtype, reduction)
    return {name: max(map(_relative, ours[name], theirs[name])) for name in ours}


def _relative(ours: np.ndarray, theirs: np.ndarray) -> float:
    assert ours.shape == theirs.shape
    return float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))


def _ours(model, variables, batches, reduction) -> Mapping[str, list[np.ndarray]]:
    loss_and_norm = har_jax.loss_and_jacobian_norm(
        model.apply, har_jax.normalization_layers_but_stem, reduction=reduction
    )

    @functools.partial(jax.value_and_grad, has_aux=True)
    def gradient_of_objective(params, stats, images, labels, strength):
        r = loss_and_norm(
            lambda logits: optax.softmax_cross_entropy_with_integer_labels(logits, labels),
            {"params": params, "batch_stats": stats},
            images,
            train=True,
            mutable=["batch_stats"],
        )
        return jnp.mean(r.loss + strength * r.norm), r

    optimizer = sgd()

    @jax.jit
    def step(params, stats, opt_state, batch):
        (_, r), gradients = gradient_of_objective(params, stats, *batch)
        updates, opt_state = optimizer.update(gradients, opt_state, params)
        return (
            optax.apply_updates(params, updates),
            r.mutated["batch_stats"],
            opt_state,
            r,
            gradients,
        )

    tree = traverse_util.unflatten_dict(jax.tree.map(jnp.asarray, variables))
    params, stats = tree["params"], tree["batch_stats"]
    opt_state, first = optimizer.init(params), None
    for batch in batches:
        params, stats, opt_state, r, gradients = step(params, stats, opt_state, batch)
        first = first or (r, gradients)
    r, gradients = first
    return {
        "logits": [np.asarray(r.outputs)],
        "losses": [np.asarray(r.loss)],
        "R": [np.asarray(r.norm)],
        "gradients": _leaves(gradients),
        "running statistics": _leaves(r.mutated["batch_stats"]),
        f"parameters after {len(batches)} steps": _leaves(params),
    }


def _leaves(tree) -> list[np.ndarray]:
    return [np.asarray(leaf) for _, leaf in sorted(traverse_util.flatten_dict(tree).items())]


def _theirs(depth, variables, batches, dtype, reduction) -> Mapping[str, list[np.ndarray]]:
    model = peer.ResNet(10, depth).to(getattr(torch, dtype))
    peer.load(model, variables)
    params = sorted(path for path in variables if path[0] == "params")
    stats = sorted(path for path in variables if path[0] == "batch_stats")
    optimizer, first = peer.sgd(model), {}
    for images, labels, strength in batches:
        nchw = torch.tensor(images.transpose(0, 3, 1, 2))
        batch = nchw, torch.tensor(labels), torch.tensor(strength)
        results = peer.step(model, optimizer, *batch, reduction=reduction)
        first = first or {
            "logits": [results.logits.detach().numpy()],
            "losses": [results.losses.detach().numpy()],
            "R": [results.norms.detach().numpy()],
            "gradients": [peer.like_flax(_gradients(model), path).copy() for path in params],
            "running statistics": [
                _biased(peer.like_flax(dict(model.named_buffers()), path), path, len(images))
                for path in stats
            ],
        }
    after = [peer.like_flax(dict(model.named_parameters()), path) for path in params]
    return {**first, f"parameters after {len(batches)} steps": after}


def _gradients(model) -> dict[str, torch.Tensor]:
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def _biased(value: np.ndarray, path: tuple[str, ...], batch_size: int) -> np.ndarray:
    """PyTorch's running variance after one step divides by n - 1, Flax's by n."""
    if path[-1] == "mean":
        return value.copy()
    side = {"stage2": 16, "stage3": 8}.get(path[1].split("_")[0], 32)
    n = batch_size * side**2
    return 0.9 + (value - 0.9) * (n - 1) / n


def measure(depth: int, batch_size: int, steps: int) -> dict[str, dict[str, float]]:
    """:func:`differences` for every reduction and dtype."""
    return {
        f"{reduction}, {dtype}": differences(
            dtype, depth=depth, batch_size=batch_size, reduction=reduction, steps=steps
        )
        for reduction in har_jax.jacobian.REDUCTIONS
        for dtype in ("float64", "float32")
    }


def show(results: dict[str, dict[str, float]]) -> None:
    """Prints a Markdown table."""
    print("| largest relative difference | " + " | ".join(results) + " |")
    print("| --- |" + " --- |" * len(results))
    for name in next(iter(results.values())):
        print(f"| {name} | " + " | ".join(f"{c[name]:.1e}" for c in results.values()) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--depth", type=int, default=32)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=STEPS)
    show(measure(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
