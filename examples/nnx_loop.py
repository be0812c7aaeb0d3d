"""HAR in a training loop of Flax NNX, on scikit-learn's digits: python examples/nnx_loop.py.

The training set has three tenths of its 3 and 8, and 40% of these with the other's label.
"""

import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from sklearn.datasets import load_digits

import har_jax
from har_jax.nnx import loss_and_jacobian_norm

rng = np.random.default_rng(0)
images, right = load_digits(return_X_y=True)
images = (images / 16).astype(np.float32)
train = rng.permutation(len(images))
train, test = train[:1000], train[1000:]
train = train[~np.isin(right[train], (3, 8)) | (rng.random(1000) < 0.3)]
wrong = np.isin(right, (3, 8)) & (rng.random(len(right)) < 0.4)
labels = np.where(wrong, 11 - right, right)


class Net(nnx.Module):
    def __init__(self, rngs):
        self.hidden = nnx.Linear(64, 64, rngs=rngs)
        self.norm = nnx.BatchNorm(64, rngs=rngs)
        self.dropout = nnx.Dropout(0.2, rngs=rngs)
        self.head = nnx.Linear(64, 10, rngs=rngs)

    def __call__(self, x):
        return self.head(self.dropout(nnx.relu(self.norm(self.hidden(x)))))


loss_and_norm = loss_and_jacobian_norm()


@nnx.jit
def step(model, optimizer, images, labels, strength):
    def objective(model):
        cross_entropy = lambda logits: optax.softmax_cross_entropy_with_integer_labels(
            logits, labels
        )
        r = loss_and_norm(cross_entropy, model, images)  # updates statistics, once
        return jnp.mean(r.loss + strength * r.norm)

    optimizer.update(model, nnx.grad(objective)(model))


def fit(examples, strength, epochs=15):
    model = Net(nnx.Rngs(0, dropout=1))
    optimizer = nnx.Optimizer(model, optax.adam(3e-3), wrt=nnx.Param)
    for _ in range(epochs):
        order = rng.permutation(len(examples))
        for batch in np.split(order[: len(order) // 50 * 50], len(order) // 50):
            rows = examples[batch]
            step(model, optimizer, images[rows], labels[rows], strength[batch])
    model.eval()
    return lambda examples: np.argmax(model(images[examples]), axis=1)


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
