"""Optimizers and schedules by name."""

import jax
import jax.numpy as jnp
import pytest

from har_jax.train.optimizer import OPTIMIZERS, SCHEDULES, make_optimizer


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_strict_promotion_changes_nothing(name, schedule):
    config = {
        "name": name,
        "momentum": None,
        "learning_rate": 0.1,
        "weight_decay": 1e-4,
        "schedule": schedule,
        "decay_epochs": (1, 2),
        "decay_factor": 0.1,
    }
    params = {"kernel": jnp.ones((2, 3))}
    made = {}
    for promotion in ("standard", "strict"):
        optimizer = make_optimizer(config, total_steps=40, steps_per_epoch=10)
        with jax.numpy_dtype_promotion(promotion):
            state = optimizer.init(params)
            update = jax.jit(lambda *arguments, rule=optimizer: rule.update(*arguments))
            made[promotion] = update.lower(params, state, params).as_text()
    assert made["strict"] == made["standard"]
