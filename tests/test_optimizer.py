"""Optimizers and schedules by name."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from har_jax.config import published, recipes
from har_jax.train.optimizer import OPTIMIZERS, SCHEDULES, make_optimizer, make_schedule
from tests.test_baselines import golden, wide  # noqa: F401

CONFIG = {
    "momentum": None,
    "learning_rate": 0.1,
    "weight_decay": 1e-4,
    "decay_epochs": (1, 2),
    "decay_factor": 0.1,
    "decay_from": 2,
}


@pytest.mark.parametrize(
    ("name", "late_b1"), [*((name, None) for name in OPTIMIZERS), ("adam", (2.0, 0.1))]
)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_strict_promotion_changes_nothing(name, late_b1, schedule):
    config = {**CONFIG, "name": name, "late_b1": late_b1, "schedule": schedule}
    params = {"kernel": jnp.ones((2, 3))}
    made = {}
    for promotion in ("standard", "strict"):
        optimizer = make_optimizer(config, total_steps=40, steps_per_epoch=10)
        with jax.numpy_dtype_promotion(promotion):
            state = optimizer.init(params)
            update = jax.jit(lambda *arguments, rule=optimizer: rule.update(*arguments))
            made[promotion] = update.lower(params, state, params).as_text()
    assert made["strict"] == made["standard"]


def test_linear_schedules():
    of = lambda decay_from, steps: make_schedule(
        {**CONFIG, "schedule": "linear", "decay_from": decay_from}, steps, steps_per_epoch=2.5
    )
    # Epochs begin at steps 0, 3, 5, 8 and 10: the first ones that are in them.
    rates = [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.2 / 3, 0.2 / 3, 0.1 / 3, 0.1 / 3, 0.1 / 3]
    np.testing.assert_allclose([of(2.0, 13)(step) for step in range(13)], rates, rtol=1e-6)
    np.testing.assert_allclose(of(2.0, 13)(13), 0)
    for late in (5.0, 7.0):  # after the last step
        np.testing.assert_allclose([of(late, 13)(step) for step in (0, 12)], 0.1, rtol=1e-6)
    np.testing.assert_allclose([of(0.0, 1)(0), of(0.0, 3)(1)], 0.1, rtol=1e-6)


def test_the_schedules_of_co_teaching(wide, golden):  # noqa: F811
    g = golden("co_teaching")
    rates, decays = g["schedule/learning_rate"], g["schedule/beta1"]
    config = recipes.heteroskedastic(10)
    published.co_teaching(config)
    gradients = np.random.default_rng(0).normal(size=(200, 3))

    # Their code begins with the second of its 200 epochs.
    for first, chosen in ((1, {}), (0, {"decay_from": 80.0, "late_b1": (80.0, 0.1)})):
        options = {**config.optimizer, **chosen}
        epochs = range(200 - first)
        schedule = make_schedule(options, 3 * len(epochs), steps_per_epoch=3.0)
        for of_epoch in (0, 2):
            found = [schedule(3 * epoch + of_epoch) for epoch in epochs]
            np.testing.assert_allclose(found, rates[first:], rtol=1e-12)

        optimizer = make_optimizer(options, len(epochs), steps_per_epoch=1.0)
        params, state = jnp.zeros(3), optimizer.init(jnp.zeros(3))
        update = jax.jit(optimizer.update)
        expected, mean, square = np.zeros((3, 3))
        for epoch in epochs:
            gradient, b1, count = gradients[epoch], decays[first + epoch], epoch + 1
            mean = b1 * mean + (1 - b1) * gradient
            square = 0.999 * square + 0.001 * gradient**2
            root = np.sqrt(square / (1 - 0.999**count)) + 1e-8
            expected = expected - rates[first + epoch] * mean / (1 - b1**count) / root
            updates, state = update(gradient, state, params)
            params = optax.apply_updates(params, updates)
        np.testing.assert_allclose(params, expected, rtol=1e-9)


def test_a_late_decay_needs_no_other_state():
    config = {**CONFIG, "name": "adam", "schedule": "constant"}
    params = jnp.ones(3)
    late, plain = (
        make_optimizer({**config, "late_b1": value}, 40, 10).init(params)
        for value in ((2.0, 0.1), None)
    )
    assert jax.tree.structure(late) == jax.tree.structure(plain)


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_a_constant_decay_of_adam(decay):
    optimizer = make_optimizer(
        {**CONFIG, "name": "adam", "schedule": "constant", "b1": decay, "weight_decay": 0.0}, 40, 10
    )
    params = jnp.ones(3)
    _, state = optimizer.update(jnp.ones(3), optimizer.init(params), params)
    (moments,) = [each for each in jax.tree.leaves(state, is_leaf=_is_adam) if _is_adam(each)]
    np.testing.assert_allclose(moments.mu, 1 - decay)


def _is_adam(state):
    return isinstance(state, optax.ScaleByAdamState)
