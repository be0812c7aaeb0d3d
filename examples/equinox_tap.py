"""HAR in Equinox: a convolutional network with BatchNorm, on partly mislabelled digits."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

import har_jax


def block(i, o, key):
    norm = eqx.nn.BatchNorm(o, "batch", momentum=0.9, mode="batch")
    # axis=None: the examples have the axis of the jax.vmap below, in which one is seen.
    tap_and_relu = eqx.nn.Lambda(lambda x: jax.nn.relu(har_jax.tap(x, "norm", axis=None)))
    return [eqx.nn.Conv2d(i, o, 3, 2, 1, key=key), norm, tap_and_relu]


def network(key):
    keys, pool = jax.random.split(key, 3), eqx.nn.Lambda(lambda x: x.mean((1, 2)))
    layers = [*block(1, 16, keys[0]), *block(16, 32, keys[1]), pool]
    return eqx.nn.Sequential([*layers, eqx.nn.Linear(32, 10, key=keys[2])])


def losses(model, state, images, labels):
    logits, state = jax.vmap(model, (0, None), (0, None), axis_name="batch")(images, state)
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels), (logits, state)


def objective(model, state, images, labels, strength):
    r = har_jax.loss_and_tap_norm(losses, has_aux=True)(model, state, images, labels)
    return jnp.mean(r.loss + strength * r.norm), r.aux


@eqx.filter_jit
def step(model, state, moments, *batch):
    gradient, (_, state) = eqx.filter_grad(objective, has_aux=True)(model, state, *batch)
    updates, moments = optax.adam(3e-3).update(gradient, moments)
    return eqx.apply_updates(model, updates), state, moments


def train_and_predict(others, *data):
    model, state = eqx.nn.make_with_state(network)(jax.random.key(0))
    moments = optax.adam(3e-3).init(eqx.filter(model, eqx.is_array))
    for rows in np.random.default_rng(0).integers(len(data[0]), size=(300, 50)):
        model, state, moments = step(model, state, moments, *(each[rows] for each in data))
    _, (logits, _) = losses(eqx.nn.inference_mode(model), state, others, np.zeros(len(others), int))
    return np.argmax(logits, axis=1)


x, y = load_digits(return_X_y=True)
x = x.reshape(-1, 1, 8, 8).astype(np.float32) / 16
mistaken = np.isin(y, (3, 8)) & (np.random.default_rng(0).random(len(y)) < 0.4)
labels = np.where(mistaken, 11 - y, y)[:1000]  # 3 is said to be 8, and 8 to be 3
wrong = train_and_predict(x[500:1000], x[:500], labels[:500], np.zeros(500)) != labels[500:]
statistics = har_jax.group_statistics(labels, labels[500:], wrong, smoothing=None)
strength = statistics.per_example(har_jax.scale_to_maximum(statistics.tau, 1.0), labels)
right = train_and_predict(x[1000:], x[:1000], labels, strength) == y[1000:]
print(f"test accuracy: {right.mean():.3f}")
