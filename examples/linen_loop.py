"""HAR in a training loop of Flax Linen, on scikit-learn's digits: python examples/linen_loop.py.

The training set has three tenths of its 3 and 8, and 40% of these with the other's label.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from sklearn.datasets import load_digits

import har_jax

rng = np.random.default_rng(0)
images, right = load_digits(return_X_y=True)
images = (images / 16).astype(np.float32)
train = rng.permutation(len(images))
train, test = train[:1000], train[1000:]
train = train[~np.isin(right[train], (3, 8)) | (rng.random(1000) < 0.3)]
wrong = np.isin(right, (3, 8)) & (rng.random(len(right)) < 0.4)
labels = np.where(wrong, 11 - right, right)


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.relu(nn.BatchNorm(use_running_average=not train)(nn.Dense(64)(x)))
        return nn.Dense(10)(nn.Dropout(0.2, deterministic=not train)(x))


model, optimizer = Net(), optax.adam(3e-3)
loss_and_norm = har_jax.loss_and_jacobian_norm(model.apply)


@jax.jit
def step(params, batch_stats, state, key, images, labels, strength):
    def objective(params):
        cross_entropy = lambda logits: optax.softmax_cross_entropy_with_integer_labels(
            logits, labels
        )
        variables, rngs = {"params": params, "batch_stats": batch_stats}, {"dropout": key}
        r = loss_and_norm(
            cross_entropy, variables, images, train=True, mutable=["batch_stats"], rngs=rngs
        )
        return jnp.mean(r.loss + strength * r.norm), r.mutated["batch_stats"]

    gradients, batch_stats = jax.grad(objective, has_aux=True)(params)
    updates, state = optimizer.update(gradients, state)
    return optax.apply_updates(params, updates), batch_stats, state


def fit(examples, strength, epochs=15):
    variables = jax.jit(model.init, static_argnames="train")(
        jax.random.key(0), images[:1], train=False
    )
    params, batch_stats = variables["params"], variables["batch_stats"]
    state, key = optimizer.init(params), jax.random.key(1)
    for _ in range(epochs):
        order = rng.permutation(len(examples))
        for batch in np.split(order[: len(order) // 50 * 50], len(order) // 50):
            key, dropout = jax.random.split(key)
            rows = examples[batch]
            params, batch_stats, state = step(
                params, batch_stats, state, dropout, images[rows], labels[rows], strength[batch]
            )
    variables = {"params": params, "batch_stats": batch_stats}
    return lambda examples: np.argmax(model.apply(variables, images[examples], train=False), axis=1)


half, other = train[::2], train[1::2]
predictions = fit(half, np.zeros(len(half), np.float32))(other)
statistics = har_jax.group_statistics(
    labels[train], labels[other], predictions != labels[other], smoothing=None
)
strength = statistics.per_example(har_jax.scale_to_maximum(statistics.tau, 1.0), labels[train])
for name, factor in (("plain", 0.0), ("HAR", 1.0)):
    right_ones = fit(train, (factor * strength).astype(np.float32))(test) == right[test]
    noisy = np.isin(right[test], (3, 8))
    print(
        f"{name}: {right_ones[noisy].mean():.3f} on 3 and 8, {right_ones[~noisy].mean():.3f} else"
    )
