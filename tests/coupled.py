"""Networks whose examples depend on each other, and their regularized objectives."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

import har_jax
from tests import zoo

SIZE = 8
STRENGTH = np.linspace(0.2, 1.0, SIZE)
WEIGHTS = np.array([0.0, 1.0, 2.0, 0.5, 3.0, 1.0, 0.0, 2.0])


class Network(nn.Module):
    """Two norms that make the examples of a batch depend on each other."""

    activation: object = nn.gelu
    dropout: float = 0.0

    @nn.compact
    def __call__(self, x, train=True):
        for _ in range(2):
            x = nn.BatchNorm(not train, epsilon=0.1)(nn.Dense(6)(x))
            x = nn.Dropout(self.dropout, deterministic=not train)(self.activation(x))
        return nn.Dense(3)(x)


@functools.cache
def setting(seed=0, model=None, shape=(SIZE, 4)):
    """A model's variables and a batch, in float64; a failing test shows the seed."""
    model = model or Network()
    x, y = zoo.inputs(shape, seed), zoo.labels(shape[0], seed)
    rngs = {"params": jax.random.key(seed), "dropout": jax.random.key(seed)}
    variables = jax.jit(model.init)(rngs, x)
    rng = np.random.default_rng(seed)
    noisy = lambda leaf: np.asarray(leaf, np.float64) + 0.1 * rng.uniform(size=leaf.shape)
    return jax.tree.map(noisy, variables), np.asarray(x, np.float64), y


def call(derivative, variables, x, y, weights=1.0, model=None, **options):
    loss_and_norm = har_jax.loss_and_jacobian_norm(
        (model or Network()).apply, derivative=derivative, **options
    )
    return loss_and_norm(
        lambda z: weights * zoo.cross_entropy(z, y),
        variables,
        x,
        mutable=["batch_stats"],
        rngs={"dropout": jax.random.key(7)},
    )


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def distance(tree, reference):
    one, other = flat(tree), flat(reference)
    return np.linalg.norm(one - other) / np.linalg.norm(other)


def by_hand(seed, rows=SIZE):
    """Two layers that are coupled by their batch's mean; the loss depends on the parameters too."""
    rng = np.random.default_rng(seed)
    params = {name: jnp.asarray(rng.normal(size=(4, 4))) for name in ("one", "two")}
    batch = jnp.asarray(rng.normal(size=(rows, 4))), jnp.asarray(rng.integers(0, 4, rows))

    def losses(params, batch, perturbations, axis=None):
        x, labels = batch
        h = jnp.tanh(x @ params["one"] + perturbations["one"])
        mean = h.mean(axis=0)
        if axis is not None:
            mean = jax.lax.pmean(mean, axis)
        h = jnp.sin((h - mean) @ params["two"] + perturbations["two"])
        picked = jnp.take_along_axis(jax.nn.log_softmax(h), labels[:, None], axis=1)[:, 0]
        return 0.1 * jnp.sum(params["one"] ** 2) - picked

    zeros = {name: jnp.zeros((SIZE, 4)) for name in params}
    return params, batch, zeros, losses


def regularized(losses, derivative, params, batch, zeros, strength, axis=None, **options):
    """``[B]``, loss and penalty."""
    r = har_jax.loss_and_perturbation_norm(
        lambda z: (losses(params, batch, z, axis), None), zeros, derivative=derivative, **options
    )
    return r.loss + strength * r.norm
