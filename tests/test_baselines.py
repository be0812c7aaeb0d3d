"""Steps of the baselines make the updates that their authors' code makes, in float64."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn

from har_jax import losses, methods
from har_jax.config import published, recipes
from har_jax.methods.co_teaching import forget_rate, number_kept
from har_jax.methods.shared.memory import Remembered, recall, remember
from har_jax.methods.shared.pair import smallest
from har_jax.train.feed import Beside
from har_jax.train.loop import fit
from har_jax.train.mesh import AXIS, ROWS, WHOLE, data_mesh, map_over
from har_jax.train.optimizer import make_optimizer, make_schedule

WITHOUT_STEPS = optax.sgd(1.0)  # whose update is the gradient


class Table(nn.Module):
    """Logits are inputs plus a parameter of each, so that its gradient is that of the logits."""

    @nn.compact
    def __call__(self, inputs, *, train):
        return inputs + self.param("shift", nn.initializers.zeros, inputs.shape, inputs.dtype)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


def update(method, state, batch):
    after, metrics = jax.jit(method.step)(state, batch, jax.random.key(1))
    gradient = jax.tree.map(lambda new, old: old - new, after.params, state.params)
    return gradient, after, metrics


def test_dmi(wide, golden):
    g = golden("dmi")
    for labels, expected in ((g["labels"], g["grad"]), (g["missing/labels"], g["missing/grad"])):
        batch = {"inputs": g["logits"], "labels": labels}
        weights = lambda labels, step: 1.0 + labels  # of classes
        for options in ({}, {"loss_weights": weights}):
            method = methods.dmi(Table(), WITHOUT_STEPS, rate=1.0, **options)
            state = method.init(jax.random.key(0), batch)
            gradient, _, metrics = update(method, state, batch)
            if options and np.any(expected):  # the floor counts for less
                np.testing.assert_allclose(gradient["shift"], expected, rtol=1e-2)
            else:
                close(gradient["shift"], expected)
        assert metrics["absent"].mean() == (not np.any(expected))


def test_co_teaching(wide, golden):
    g = golden("co_teaching")
    batch = {"inputs": jnp.zeros_like(g["logits1"]), "labels": g["labels"]}
    start = {
        "params": {
            "first": {"shift": g["logits1"]},
            "second": {"shift": g["logits2"]},
        }
    }
    for number, rate in enumerate(g["forget_rates"].tolist()):
        of = lambda key, number=number: g[f"rate{number}/{key}"]
        kept = int(of("num_remember"))
        for one in ("1", "2"):
            losses = g[f"loss{one}"]
            mask = smallest(losses, number_kept(1 - rate, len(losses)))
            assert sorted(of(f"kept_by_{one}").tolist()) == np.flatnonzero(mask).tolist()
            clean = g["is_clean"][g["index"]][mask]
            close(clean.mean(), of(f"pure_ratio{one}"))
        method = methods.co_teaching(
            Table(),
            WITHOUT_STEPS,
            noise_rate=rate,
            gradual_epochs=1,
            steps_per_epoch=3.0,
            start=start,
        )
        state = method.init(jax.random.key(0), batch)
        gradient, after, metrics = update(method, state, batch)
        # Their code divides by the number that is kept twice.
        close(gradient["first"]["shift"] / kept, of("grad1"))
        close(gradient["second"]["shift"] / kept, of("grad2"))
        assert metrics["kept"].total == kept
        chex.assert_trees_all_equal(
            method.predict(after.variables, batch["inputs"]), after.params["first"]["shift"]
        )


def test_the_schedule_of_co_teaching(wide, golden):
    g = golden("co_teaching")
    rate, gradual = float(g["schedule/noise_rate"]), int(g["schedule/num_gradual"])
    for exponent, expected in zip(
        g["schedule/exponents"].tolist(), g["schedule/forget_rate"], strict=True
    ):
        epochs = np.arange(len(expected))
        close([forget_rate(epoch, rate, gradual, exponent) for epoch in epochs], expected)


def test_the_optimizer_of_co_teaching(wide, golden):
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


def test_elr(wide, golden):
    g = golden("elr")
    options = {"beta": float(g["beta"]), "factor": float(g["lambda"])}
    count = int(g["num_examples"])
    method = methods.elr(Table(), WITHOUT_STEPS, num_examples=count, **options)
    of = lambda key: {
        "inputs": g[f"{key}/logits"],
        "labels": g[f"{key}/labels"],
        "index": g[f"{key}/index"],
    }
    state = method.init(jax.random.key(0), of("step0"))
    for step in ("step0", "step1", "step2"):
        unmoved = state.replace(params=jax.tree.map(jnp.zeros_like, state.params))
        gradient, state, metrics = update(method, unmoved, of(step))
        close(gradient["shift"], g[f"{step}/grad"])
        close(state.memory["target"], g[f"{step}/targets_all"])
        close(metrics["loss"].mean(), g[f"{step}/cross_entropy"].mean())
        close(metrics["regularization"].mean(), g[f"{step}/regularizer"].mean())


class Network(nn.Module):
    @nn.compact
    def __call__(self, inputs, *, train):
        return nn.Dense(3)(nn.tanh(nn.Dense(8)(inputs)))


MAKE = {
    "dmi": functools.partial(methods.dmi, rate=0.5),
    "co_teaching": functools.partial(methods.co_teaching, noise_rate=0.3, steps_per_epoch=1.0),
    "elr": functools.partial(methods.elr, num_examples=20),
    "l2rw": methods.l2rw,
    "mw_net": functools.partial(methods.mw_net, learning_rate=lambda step: 0.1),
}
SEES_META = ("l2rw", "mw_net")


def batch(size=16):
    rng = np.random.default_rng(0)
    return {
        "inputs": jnp.asarray(rng.normal(size=(size, 4)), jnp.float32),
        "labels": jnp.asarray(rng.integers(0, 3, size)),
        "index": jnp.asarray(rng.integers(0, 20, size)),  # some of them twice
        "meta_inputs": jnp.asarray(rng.normal(size=(size, 4)), jnp.float32),
        "meta_labels": jnp.arange(size) % 3,
    }


def two_steps(method, data, mesh=None):
    step = method.step if mesh is None else map_over(mesh, method.step, (WHOLE, ROWS, WHOLE), WHOLE)
    step = jax.jit(step)
    state = jax.jit(method.init)(jax.random.key(0), data)
    for key in (1, 2):
        state, metrics = step(state, data, jax.random.key(key))
    return state, metrics


@pytest.mark.parametrize("name", MAKE)
def test_devices_make_the_same_steps(name):
    mesh = data_mesh(jax.devices()[:4])
    one = two_steps(MAKE[name](Network(), optax.adam(0.1)), batch())
    several = two_steps(MAKE[name](Network(), optax.adam(0.1), axis=AXIS), batch(), mesh)
    chex.assert_trees_all_close(several, one, rtol=2e-4, atol=1e-5)


def test_microbatches_on_several_devices():
    mesh = data_mesh(jax.devices()[:2])
    data = {**batch(), "index": jnp.arange(16)}
    one = two_steps(MAKE["elr"](Network(), optax.sgd(0.1)), data)
    several = MAKE["elr"](Network(), optax.sgd(0.1), axis=AXIS, microbatches=4)
    chex.assert_trees_all_close(two_steps(several, data, mesh), one, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        "dmi",
        "mw_net",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("co_teaching", "elr", "l2rw")),
    ],
)
def test_pmap_makes_the_same_steps(name):
    method = MAKE[name](Network(), optax.sgd(0.1), axis="data")
    data = batch()
    split = jax.tree.map(lambda x: x.reshape(2, -1, *x.shape[1:]), data)
    state = method.init(jax.random.key(0), data)
    step = jax.pmap(
        method.step, axis_name="data", in_axes=(None, 0, None), devices=jax.devices()[:2]
    )
    after, _ = step(state, split, jax.random.key(1))
    one = MAKE[name](Network(), optax.sgd(0.1))
    expected, _ = jax.jit(one.step)(state, data, jax.random.key(1))
    chex.assert_trees_all_close(jax.tree.map(lambda x: x[0], after), expected, rtol=2e-4, atol=1e-5)


def test_elr_goes_through_a_batch_in_parts_and_keeps_the_last_of_equal_examples():
    data = {**batch(), "index": jnp.arange(16)}
    whole = two_steps(MAKE["elr"](Network(), optax.sgd(0.1)), data)
    parts = two_steps(MAKE["elr"](Network(), optax.sgd(0.1), microbatches=4), data)
    chex.assert_trees_all_close(parts[0].params, whole[0].params, rtol=1e-5, atol=1e-6)
    method = MAKE["elr"](Network(), optax.sgd(0.0))
    state, _ = two_steps(method, {**data, "index": jnp.full(16, 7)})
    logits = method.predict(state.variables, data["inputs"][-1:])
    target = jnp.zeros((1, 3))
    for _ in range(2):
        target = losses.early_learning_targets(target, logits, 0.7)
    np.testing.assert_allclose(state.memory["target"][7], target[0], rtol=1e-5)
    assert not np.any(np.delete(state.memory["target"], 7, axis=0))


@pytest.mark.parametrize("name", ["dmi", "co_teaching", "l2rw", "mw_net"])
def test_what_is_of_a_whole_batch_is_not_cut(name):
    with pytest.raises(
        ValueError, match=rf"{name}: a batch's loss cannot be cut into microbatches=2"
    ):
        MAKE[name](Network(), optax.sgd(0.1), microbatches=2)


def test_co_teaching_needs_a_noise_rate_and_begins_with_two_networks():
    with pytest.raises(ValueError, match="noise_rate is needed"):
        methods.co_teaching(Network(), optax.sgd(0.1), steps_per_epoch=1.0)
    state = MAKE["co_teaching"](Network(), optax.sgd(0.1)).init(jax.random.key(0), batch())
    plain = methods.erm(Network(), optax.sgd(0.1)).init(jax.random.key(0), batch())
    chex.assert_trees_all_equal(state.variables, plain.variables)
    kernels = [state.params[name]["Dense_0"]["kernel"] for name in ("first", "second")]
    assert not np.allclose(*kernels)


@pytest.mark.parametrize(
    "name",
    [
        "elr",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("co_teaching", "gce", "dmi", "l2rw", "mw_net")
        ),
    ],
)
def test_a_run_that_is_cut_twice_at_random_comes_to_the_same_bits(
    tmp_path, assert_cut_twice_is_the_same, name
):
    make = MAKE.get(name, functools.partial(methods.plain, loss=losses.GeneralizedCrossEntropy()))
    whole_set = {key: np.asarray(value) for key, value in batch(20).items()}
    data = {key: whole_set[key] for key in ("inputs", "labels")}
    meta = {key: whole_set[f"meta_{key}"] for key in data}
    beside = {"meta": Beside(meta, 6)} if name in SEES_META else None

    def train(folder):
        method = make(Network(), optax.adam(0.1))
        options = dict(steps=12, batch_size=8, seed=0, log_every=5, checkpoint_every=1)
        return fit(method, data, tmp_path / folder, title=name, beside=beside, **options)

    assert_cut_twice_is_the_same(train, steps=12)


class Wrapped(nn.Module):
    inner: nn.Module

    @nn.compact
    def __call__(self, inputs, *, train):
        return nn.Dense(3)(nn.tanh(self.inner(inputs)))


def test_co_teachings_networks_share_nothing_and_learn_from_one_example_at_least():
    make = functools.partial(methods.co_teaching, steps_per_epoch=1.0, gradual_epochs=1)
    method = make(Wrapped(nn.Dense(4)), optax.sgd(0.1), noise_rate=0.95)
    state = method.init(jax.random.key(0), batch(6))
    after, metrics = jax.jit(method.step)(state, batch(6), jax.random.key(1))
    changed = jax.tree.map(lambda a, b: bool(jnp.any(a != b)), after.params, state.params)
    assert jax.tree.all(changed)
    assert metrics["kept"].total == 1
    with pytest.raises(ValueError, match=r"noise_rate=1.0 must be in \[0, 1\)"):
        make(Network(), optax.sgd(0.1), noise_rate=1.0)


def test_what_is_remembered_has_to_fit():
    memory = {"target": jnp.zeros((3, 2))}
    assert np.all(np.isnan(recall(memory, jnp.array([1, 3]))["target"][1]))
    with pytest.raises(ValueError, match=r"memory is of target, and what it leaves .* of targets"):
        remember(memory, Remembered(jnp.array([0]), {"targets": jnp.zeros((1, 2))}))


def test_a_method_starts_from_another_ones_variables():
    plain, _ = two_steps(methods.erm(Network(), optax.sgd(0.1)), batch())
    begun = methods.erm(Network(), optax.sgd(0.1), start=plain.variables).init(
        jax.random.key(3), batch()
    )
    chex.assert_trees_all_equal(begun.params, plain.params)
    assert begun.step == 0
    jax.tree.map(lambda leaf: leaf.delete(), begun.params)  # as where the state is donated
    assert np.all(np.isfinite(plain.params["Dense_0"]["kernel"]))
