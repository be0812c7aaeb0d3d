"""HAR in Haiku: a residual network with BatchNorm, on partly mislabelled digits."""

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

import har_jax


def tap_norms(next_function, args, kwargs, context):
    output = next_function(*args, **kwargs)
    is_norm = isinstance(context.module, hk.BatchNorm) and context.method_name == "__call__"
    return har_jax.tap(output, context.module.module_name) if is_norm else output


@hk.transform_with_state
def network(images, training):
    norm_and_relu = lambda x: jax.nn.relu(hk.BatchNorm(True, True, 0.9)(x, training))
    with hk.intercept_methods(tap_norms):
        x = hk.Conv2D(16, 3, stride=2)(images)
        for _ in range(2):
            x += hk.Conv2D(16, 3)(norm_and_relu(hk.Conv2D(16, 3)(norm_and_relu(x))))
        return hk.Linear(10)(norm_and_relu(x).mean((1, 2)))


def losses(params, state, images, labels):
    logits, state = network.apply(params, state, None, images, True)
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels), state


def objective(params, state, images, labels, strength):
    r = har_jax.loss_and_tap_norm(losses, has_aux=True)(params, state, images, labels)
    return jnp.mean(r.loss + strength * r.norm), r.aux


@jax.jit
def step(params, state, moments, *batch):
    gradient, state = jax.grad(objective, has_aux=True)(params, state, *batch)
    updates, moments = optax.adam(3e-3).update(gradient, moments)
    return optax.apply_updates(params, updates), state, moments


def train_and_predict(others, *data):
    params, state = jax.jit(network.init, static_argnums=2)(jax.random.key(0), others[:50], True)
    moments = optax.adam(3e-3).init(params)
    for rows in np.random.default_rng(0).integers(len(data[0]), size=(300, 50)):
        params, state, moments = step(params, state, moments, *(each[rows] for each in data))
    return np.argmax(network.apply(params, state, None, others, False)[0], axis=1)


x, y = load_digits(return_X_y=True)
x = x.reshape(-1, 8, 8, 1).astype(np.float32) / 16
mistaken = np.isin(y, (3, 8)) & (np.random.default_rng(0).random(len(y)) < 0.4)
labels = np.where(mistaken, 11 - y, y)[:1000]  # 3 is said to be 8, and 8 to be 3
wrong = train_and_predict(x[500:1000], x[:500], labels[:500], np.zeros(500)) != labels[500:]
statistics = har_jax.group_statistics(labels, labels[500:], wrong, smoothing=None)
strength = statistics.per_example(har_jax.scale_to_maximum(statistics.tau, 1.0), labels)
right = train_and_predict(x[1000:], x[:1000], labels, strength) == y[1000:]
print(f"test accuracy: {right.mean():.3f}")
