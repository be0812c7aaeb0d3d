"""HAR for regression, where some measurements are noisier and rarer: synthetic data and diabetes.

python examples/regression.py [--seeds=4]
"""

import argparse
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from sklearn.datasets import load_diabetes

import har_jax

MAXIMUM = {"synthetic": 0.1, "diabetes": 1.0}  # the largest strength


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        for _ in range(2):
            x = nn.relu(nn.LayerNorm()(nn.Dense(32)(x)))
        return nn.Dense(1)(x)[:, 0]


model = Net()
optimizer = optax.adam(optax.cosine_decay_schedule(1e-2, 1000))
loss_and_norm = har_jax.loss_and_jacobian_norm(model.apply)


@jax.jit
@functools.partial(jax.vmap, in_axes=(0, 0, 0, 0, 0))  # over seeds
def train_and_predict(seed, x, y, strength, others):
    """Trains on x, y with a strength for each example; predicts the others."""

    def step(carry, rows):
        params, moments = carry

        def objective(params):
            # Of the prediction itself, since the rule is of f'(x)^2: where there is one output its
            # derivative costs no more than the loss's.
            r = loss_and_norm(lambda outputs: outputs, {"params": params}, x[rows])
            return jnp.mean((r.loss - y[rows]) ** 2 / 2 + strength[rows] * r.norm**2)

        updates, moments = optimizer.update(jax.grad(objective)(params), moments)
        return (optax.apply_updates(params, updates), moments), None

    start, order = jax.random.split(jax.random.key(seed))
    params = model.init(start, x[:1])["params"]
    batches = jax.random.randint(order, (1000, 50), 0, len(x))
    (params, _), _ = jax.lax.scan(step, (params, optimizer.init(params)), batches)
    return model.apply({"params": params}, others)


def synthetic(seed):
    """Waves over four stripes: frequent or rare, quiet or noisy. Test points are in all alike."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(4), (160, 160, 40, 40))
    every = np.concatenate([groups, np.repeat(np.arange(4), 250)])
    x = np.stack([every + rng.random(len(every)), 4 * rng.random(len(every))], axis=1) - 2
    truth = np.sin(np.pi * x[:, 0]) * np.cos(np.pi / 4 * x[:, 1])
    noise = np.array([0.2, 1.0, 0.2, 1.0])[groups] * rng.normal(size=len(groups))
    train, test = slice(len(groups)), slice(len(groups), None)
    return x[train], truth[train] + noise, groups, x[test], truth[test], every[test]


def diabetes(seed):
    """How far diabetes has come a year later; groups are thirds by the body mass index."""
    x, y = load_diabetes(return_X_y=True)
    x, y = x / x.std(axis=0), (y - y.mean()) / y.std()
    order = np.random.default_rng(seed).permutation(len(x))
    groups = np.searchsorted(np.quantile(x[:, 2], (1 / 3, 2 / 3)), x[:, 2])
    train, test = order[:300], order[300:]
    return x[train], y[train], groups[train], x[test], y[test], groups[test]


def held_out_residuals(seeds, x, y):
    """Of each half, by a model that was trained on the other one."""
    order = np.random.default_rng(0).permutation(x.shape[1])
    residuals = np.empty_like(y)
    for half, other in np.split(order, 2), np.split(order, 2)[::-1]:
        none = np.zeros_like(y[:, half])
        found = train_and_predict(seeds, x[:, half], y[:, half], none, x[:, other])
        residuals[:, other] = found - y[:, other]
    return residuals


def taus(groups, residuals):
    """The tau of every example, by rule."""
    s = har_jax.residual_statistics(groups, groups, residuals, smoothing=None)
    frequency = s.per_example(s.frequency, groups)
    return {
        "plain": np.zeros(len(groups)),
        "uniform": np.ones(len(groups)),
        "HAR, I = 1": har_jax.noise_frequency_tau(1.0, frequency),
        "HAR": s.per_example(s.tau, groups),
    }


def errors(predictions, y, groups):
    """The mean squared error of each group; [seeds, groups]."""
    ids = np.unique(groups)
    squares = (np.asarray(predictions) - y) ** 2
    return np.stack([np.mean(squares, axis=1, where=groups == each) for each in ids], axis=1)


def main(seeds):
    for data in synthetic, diabetes:
        drawn = [data(seed) for seed in seeds]
        x, y, groups, *test = (np.stack(each) for each in zip(*drawn, strict=True))
        residuals = held_out_residuals(seeds, x, y)
        rules = [taus(*each) for each in zip(groups, residuals, strict=True)]
        print(f"{data.__name__}: mean squared test error, of groups, and their mean")
        for name in rules[0]:
            largest = MAXIMUM[data.__name__] if name != "plain" else 0
            tau = np.stack([rule[name] for rule in rules])
            strength = np.stack([each / max(each.max(), 1e-9) * largest for each in tau])
            found = errors(train_and_predict(seeds, x, y, strength, test[0]), *test[1:])
            of_groups = " ".join(f"{each:.3f}" for each in found.mean(axis=0))
            print(f"  {name}: {of_groups}; mean {found.mean():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=4, help="how many seeds (4)")
    main(np.arange(parser.parse_args().seeds))
