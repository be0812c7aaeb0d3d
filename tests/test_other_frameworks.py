"""Taps in Equinox and Haiku: R of networks with BatchNorm."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from har_jax import loss_and_tap_norm, tap

BATCH, WIDTH = 3, 4
STRENGTH = np.linspace(0.0, 0.6, BATCH)
ABSENT = "is not installed: pip install -e '.[examples]'"


def equinox_losses(training):
    """Losses of a convolutional network, a function of images and of zeros in the order of taps."""
    eqx = pytest.importorskip("equinox", reason=f"equinox {ABSENT}")

    class Network(eqx.Module):
        convolutions: list
        norms: list
        head: eqx.nn.Linear

        def __init__(self, key):
            keys = jax.random.split(key, 3)
            norm = lambda: eqx.nn.BatchNorm(WIDTH, "batch", momentum=0.9, mode="batch")
            self.convolutions = [
                eqx.nn.Conv2d(1, WIDTH, 3, 2, key=keys[0]),
                eqx.nn.Conv2d(WIDTH, WIDTH, 2, key=keys[1]),
            ]
            self.norms = [norm(), norm()]
            self.head = eqx.nn.Linear(WIDTH, 3, key=keys[2])

        def __call__(self, x, state, zeros):
            for i, (convolution, norm) in enumerate(zip(self.convolutions, self.norms)):  # noqa: B905
                x, state = norm(convolution(x), state)
                x = jax.nn.gelu(tap(x, axis=None) if zeros is None else x + zeros[i])
            return self.head(x.mean((1, 2))), state

    network, state = eqx.nn.make_with_state(Network)(jax.random.key(0))
    params, rest = eqx.partition(network, eqx.is_array)

    def losses(params, images, labels, zeros=None):
        model = eqx.nn.inference_mode(eqx.combine(params, rest), not training)
        logits, new = jax.vmap(model, (0, None, 0), (0, None), axis_name="batch")(
            images, state, zeros
        )
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels), new

    shapes = [(WIDTH, 3, 3), (WIDTH, 2, 2)]
    return losses, params, shapes, (BATCH, 1, 7, 7)


def haiku_losses(training):
    """The same of a residual network."""
    hk = pytest.importorskip("haiku", reason=f"dm-haiku {ABSENT}")

    @hk.transform_with_state
    def network(x, training, zeros):
        given = iter(zeros or ())

        def norm(x):
            x = hk.BatchNorm(True, True, 0.9)(x, training)
            return jax.nn.gelu(x + next(given) if zeros else tap(x))

        x = hk.Conv2D(WIDTH, 3, stride=2)(x)
        for _ in range(2):
            x = x + hk.Conv2D(WIDTH, 3)(norm(hk.Conv2D(WIDTH, 3)(norm(x))))
        return hk.Linear(3)(norm(x).mean((1, 2)))

    shape = (BATCH, 6, 6, 1)
    images = np.random.default_rng(1).normal(size=shape)
    init = jax.jit(lambda key: network.init(key, images, True, None))
    params, state = init(jax.random.key(0))
    _, state = jax.jit(lambda: network.apply(params, state, None, images, True, None))()

    def losses(params, images, labels, zeros=None):
        logits, new = network.apply(params, state, None, images, training, zeros)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels), new

    return losses, params, [(3, 3, WIDTH)] * 5, shape


@pytest.mark.parametrize("training", [True, False], ids=["training", "inference"])
@pytest.mark.parametrize("framework", [equinox_losses, haiku_losses], ids=["equinox", "haiku"])
@pytest.mark.usefixtures("wide")
def test_equals_gradients_of_zeros(framework, training):
    losses, params, shapes, shape = framework(training)
    rng = np.random.default_rng(0)
    images, labels = rng.normal(size=shape), np.arange(BATCH) % 3

    def at_taps(params):
        r = loss_and_tap_norm(losses, has_aux=True)(params, images, labels)
        return jnp.sum(r.loss + STRENGTH * r.norm), (r.norm, r.aux)

    def by_hand(params, rows):
        def total(zeros):
            each, new = losses(params, images[rows], labels[rows], zeros)
            return each.sum(), (each, new)

        zeros = [jnp.zeros((len(rows), *shape)) for shape in shapes]
        gradients, (each, new) = jax.grad(total, has_aux=True)(zeros)
        squares = sum((g**2).reshape(len(rows), -1).sum(axis=1) for g in gradients)
        return jnp.sum(each + STRENGTH[rows] * jnp.sqrt(squares)), (jnp.sqrt(squares), new)

    def one_by_one(params):  # in training the examples depend on each other
        parts = [np.arange(BATCH)] if training else np.arange(BATCH)[:, None]
        totals, rest = zip(*[by_hand(params, rows) for rows in parts], strict=True)
        return sum(totals), (jnp.concatenate([norm for norm, _ in rest]), rest[0][1])

    both = jax.jit(
        lambda p: [jax.value_and_grad(f, has_aux=True)(p) for f in (at_taps, one_by_one)]
    )
    found, expected = both(params)
    assert np.all(found[0][1][0] > 1e-3)
    leaves = [jax.tree.leaves(each) for each in (found, expected)]
    chex.assert_trees_all_close(*leaves, rtol=1e-10, atol=1e-13)
