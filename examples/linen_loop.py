"""HAR in a training loop of Flax Linen, on digits of which some are mislabelled."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from sklearn.datasets import load_digits

import har_jax


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.BatchNorm(use_running_average=not train)(nn.Dense(64)(x))
        return nn.Dense(10)(nn.relu(x))


model, optimizer = Net(), optax.adam(3e-3)
loss_and_norm = har_jax.loss_and_jacobian_norm(model.apply)


@jax.jit
def step(params, batch_stats, moments, images, labels, strength):
    def objective(params):
        losses = lambda logits: optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        variables = {"params": params, "batch_stats": batch_stats}
        r = loss_and_norm(losses, variables, images, train=True, mutable=["batch_stats"])
        return jnp.mean(r.loss + strength * r.norm), r.mutated["batch_stats"]

    gradient, batch_stats = jax.grad(objective, has_aux=True)(params)
    updates, moments = optimizer.update(gradient, moments)
    return optax.apply_updates(params, updates), batch_stats, moments


def train_and_predict(others, *data):
    params, batch_stats = model.init(jax.random.key(0), others[:1], train=False).values()
    moments = optimizer.init(params)
    for rows in np.random.default_rng(0).integers(len(data[0]), size=(300, 50)):
        batch = (each[rows] for each in data)
        params, batch_stats, moments = step(params, batch_stats, moments, *batch)
    variables = {"params": params, "batch_stats": batch_stats}
    return np.argmax(model.apply(variables, others, train=False), axis=1)


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
