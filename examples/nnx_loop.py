"""HAR in a training loop of Flax NNX, on digits of which some are mislabelled."""

import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from sklearn.datasets import load_digits

import har_jax
from har_jax.nnx import loss_and_jacobian_norm


class Net(nnx.Module):
    def __init__(self, rngs):
        self.hidden, self.head = nnx.Linear(64, 64, rngs=rngs), nnx.Linear(64, 10, rngs=rngs)
        self.norm, self.dropout = nnx.BatchNorm(64, rngs=rngs), nnx.Dropout(0.1, rngs=rngs)

    def __call__(self, x):
        return self.head(self.dropout(nnx.relu(self.norm(self.hidden(x)))))


@nnx.jit
def step(model, optimizer, images, labels, strength):
    def objective(model):
        losses = lambda logits: optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        r = loss_and_jacobian_norm()(losses, model, images)  # updates statistics and Rngs, once
        return jnp.mean(r.loss + strength * r.norm)

    optimizer.update(model, nnx.grad(objective)(model))


def train_and_predict(others, *data):
    model = Net(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(3e-3), wrt=nnx.Param)
    for rows in np.random.default_rng(0).integers(len(data[0]), size=(300, 50)):
        step(model, optimizer, *(each[rows] for each in data))
    model.eval()
    return np.argmax(model(others), axis=1)


x, y = load_digits(return_X_y=True)
x = x.astype(np.float32) / 16
mistaken = np.isin(y, (3, 8)) & (np.random.default_rng(0).random(len(y)) < 0.4)
labels = np.where(mistaken, 11 - y, y)[:1000]  # 3 is said to be 8, and 8 to be 3
wrong = train_and_predict(x[500:1000], x[:500], labels[:500], np.zeros(500)) != labels[500:]
statistics = har_jax.group_statistics(labels, labels[500:], wrong, smoothing=None)
strength = statistics.per_example(har_jax.scale_to_maximum(statistics.tau, 1.0), labels)
for name, each in {"plain": np.zeros(1000), "HAR": strength}.items():
    right = train_and_predict(x[1000:], x[:1000], labels, each) == y[1000:]
    print(f"{name}: test accuracy {right.mean():.3f}")
