"""Optimizers and schedules by name."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from har_jax.train.optimizer import OPTIMIZERS, SCHEDULES, make_optimizer, make_schedule

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
