"""Optimizers and schedules by name."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from har_jax.config import published, recipes
from har_jax.data.corruption import exponential_imbalance
from har_jax.experiment.build import num_steps
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
    ("name", "chosen"),
    [
        *((name, {}) for name in OPTIMIZERS),
        ("adam", {"late_b1": (2.0, 0.1)}),
        ("sgd", {"warmup_epochs": 1.0, "nesterov": True}),
        ("adam", {"warmup_epochs": 1.0, "warmup_by": "epoch"}),
    ],
)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_strict_promotion_changes_nothing(name, chosen, schedule):
    config = {**CONFIG, "name": name, "schedule": schedule, **chosen}
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


def rates(steps, steps_per_epoch=1.0, **chosen):
    """The learning rate at each step."""
    schedule = make_schedule({**CONFIG, **chosen}, steps, steps_per_epoch)
    return np.stack([jnp.asarray(schedule(step)) for step in range(steps)])


@pytest.mark.parametrize(
    ("name", "method", "per_epoch"),
    [
        ("ldam_drw", "ldam", 1),
        ("ldam_drw", "focal", 1),
        ("bbn", "bbn", 1),
        ("class_balanced", "cb_focal", 2),
    ],
)
def test_rates_of_the_authors(wide, golden, name, method, per_epoch):
    config = recipes.long_tailed(10, 100)
    getattr(published, method)(config)
    expected = golden(name)["schedule/learning_rate"]
    found = rates(len(expected), per_epoch, **config.optimizer)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-17)
    if config.optimizer.warmup_by == "epoch":  # all steps of an epoch are alike
        whole = rates(3 * len(expected), 3.0, **config.optimizer)
        np.testing.assert_array_equal(whole, np.repeat(found, 3))


def test_balanced_softmax_goes_by_steps():
    for classes, size in ((10, 11_203), (100, 9_502)):
        labels = np.repeat(np.arange(classes), 50_000 // classes)
        assert len(exponential_imbalance(labels, classes, 200, seed=0)) == size
        config = recipes.long_tailed(classes, 200)
        published.balanced_softmax(config)
        total = num_steps(config.train.epochs, size, config.batch_size)
        assert total == 13_000
        rate = make_schedule(config.optimizer, total, size / config.batch_size)
        steps = np.array([0, 400, 800, 6_900, 13_000])
        expected = [0.05, 0.075, 0.1, 0.05, 0]
        np.testing.assert_allclose([rate(s) for s in steps], expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("by", ["step", "epoch"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_warm_up_ends_in_the_schedule(schedule, by):
    warm_up = {"warmup_epochs": 3.0, "warmup_from": 0.25, "warmup_by": by}
    late = {"schedule": schedule, "decay_epochs": (4.0, 6.0), "decay_from": 4.0}
    plain, warm = rates(20, 2.5, **late), rates(20, 2.5, **late, **warm_up)
    before = warm[:8]  # a part of a step is left of it
    assert np.all(np.diff(before) >= 0)
    np.testing.assert_allclose(before[0], 0.025, rtol=1e-6)
    shares = np.arange(8) / 2.5
    shares = 0.25 + 0.25 * np.minimum(np.floor(shares) if by == "epoch" else shares, 3)
    np.testing.assert_allclose(before, 0.1 * shares, rtol=1e-6)
    if schedule == "cosine":  # as long as what is left
        plain = np.concatenate([plain[:8], rates(12, **late)])
    np.testing.assert_array_equal(warm[8:], plain[8:])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_warm_up_is_no_change(schedule):
    chosen = {**CONFIG, "name": "sgd", "schedule": schedule}
    params, texts = {"kernel": jnp.ones(3)}, []
    for warm_up in ({}, {"warmup_epochs": 0.0, "warmup_from": 0.5, "warmup_by": "epoch"}):
        optimizer = make_optimizer({**chosen, **warm_up}, total_steps=40, steps_per_epoch=10)
        update = jax.jit(optimizer.update)
        texts.append(update.lower(params, optimizer.init(params), params).as_text())
    assert texts[0] == texts[1]


@pytest.mark.parametrize("nesterov", [None, False, True])
def test_momentum_is_that_of_pytorch(wide, nesterov):
    chosen = {**CONFIG, "name": "sgd", "schedule": "step", "nesterov": nesterov, "momentum": 0.9}
    optimizer = make_optimizer(chosen, total_steps=4, steps_per_epoch=1)
    found, expected, velocity = jnp.ones(3), np.ones(3), np.zeros(3)
    state = optimizer.init(found)
    gradients = np.random.default_rng(0).normal(size=(4, 3))
    for gradient, rate in zip(gradients, rates(4, schedule="step"), strict=True):
        decayed = gradient + 1e-4 * expected
        velocity = 0.9 * velocity + decayed
        expected = expected - rate * (decayed + 0.9 * velocity if nesterov else velocity)
        updates, state = optimizer.update(jnp.asarray(gradient), state, found)
        found = optax.apply_updates(found, updates)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_weight_decay_leaves_biases_and_norms_out():
    names = {"kernel": True, "embedding": True, "bias": False, "scale": False}
    params = {"block": {"bias": dict.fromkeys(names, jnp.ones(2))}}  # the last name counts
    chosen = {**CONFIG, "learning_rate": 1.0, "name": "sgd", "schedule": "constant"}
    for which, decays in (("all", dict.fromkeys(names, True)), ("kernels", names)):
        optimizer = make_optimizer({**chosen, "weight_decay_of": which}, 40, 10)
        none = jax.tree.map(jnp.zeros_like, params)
        updates, _ = optimizer.update(none, optimizer.init(params), params)
        for name, decayed in decays.items():
            np.testing.assert_allclose(updates["block"]["bias"][name], -1e-4 * decayed)


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
