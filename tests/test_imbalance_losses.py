"""The losses for imbalance are what their authors' code computes, in float64, with gradients."""

import math

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn

import har_jax
from har_jax import losses, methods
from har_jax.losses import LOSSES

COUNTS = np.array([100, 10, 1])
EXTREME = [0.0, 1.0, -1.0, 89.0, -89.0, 200.0, -200.0, 1e4, -1e4]


@pytest.fixture
def read(golden, wide):
    return golden


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


def assert_as_theirs(loss, logits, of, mean=jnp.mean):
    """Losses, their mean and its gradient, by the keys of the authors' values."""
    close(loss(logits), of("loss"))
    close(mean(loss(logits)), of("scalar"))
    close(jax.grad(lambda x: mean(loss(x)))(logits), of("grad"))


def test_focal(read):
    g = read("focal_softmax")
    weights = g["class_weights"][g["labels"]]
    close(losses.class_balanced_weights(g["class_counts"], float(g["beta"])), g["class_weights"])
    for number, gamma in enumerate(g["gammas"].tolist()):
        loss = lambda logits, gamma=gamma: losses.focal(logits, g["labels"], gamma)
        assert_as_theirs(
            loss, g["logits"], lambda key, number=number: g[f"gamma{number}/plain/{key}"]
        )
        close(weights * loss(g["logits"]), g[f"gamma{number}/weight_outside/loss"])


def test_class_balanced_focal(read):
    g = read("class_balanced")
    weights = [losses.class_balanced_weights(g["class_counts"], float(b)) for b in g["betas"]]
    close(np.stack(weights), g["class_weights"])
    balanced = losses.class_balanced_weights(g["class_counts"], float(g["beta_used"]))
    for kind, table in (("plain", np.ones(10)), ("balanced", balanced)):
        cases = {f"focal{j}": gamma for j, gamma in enumerate(g["gammas"].tolist())}
        for case, gamma in {**cases, "sigmoid": 0.0}.items():
            loss = lambda logits, gamma=gamma, table=table: losses.class_balanced_focal(
                logits, g["labels"], table, gamma
            )
            of = lambda key, case=case, kind=kind: g[f"{case}/{kind}/{key}"]
            assert_as_theirs(loss, g["logits"], of)
    choice = losses.ClassBalancedFocal(g["class_counts"], gamma=1.0, beta=float(g["beta_used"]))
    begun = losses.class_balanced_focal(
        g["logits"] + g["initial_bias"], g["labels"], balanced, gamma=1.0
    )
    close(choice(g["logits"], g["labels"]), begun)


def test_label_distribution_aware_margin(read):
    g = read("ldam_drw")
    margins = losses.class_margins(g["class_counts"], float(g["max_m"]))
    close(margins, g["margins"])
    scale = float(g["s"])
    loss = lambda logits: losses.label_distribution_aware_margin(
        logits, g["labels"], margins, scale
    )
    assert_as_theirs(loss, g["logits"], lambda key: g[f"plain/{key}"])
    start = int(g["drw/start_epoch"])
    for epoch, expected in zip(g["drw/epochs"].tolist(), g["drw/class_weights"], strict=True):
        weights = losses.class_balanced_weights(g["class_counts"], float(g["drw/beta"]))
        weigh = methods.deferred_weights(weights, start_step=start)
        found = weigh(jnp.arange(10), jnp.asarray(epoch))
        np.testing.assert_allclose(found, expected, rtol=1e-6)  # a table in float32
    late = jnp.asarray(g["drw/class_weights"][-1])[g["labels"]]
    mean = lambda values: har_jax.weighted_sum(late * values, None).total / late.sum()
    assert_as_theirs(loss, g["logits"], lambda key: g[f"drw/{key}"], mean)
    choice = losses.LabelDistributionAwareMargin(
        g["class_counts"], max_margin=float(g["max_m"]), scale=scale
    )
    close(choice(scale * g["logits"], g["labels"]), g["plain/loss"])
    assert choice.cosine == scale


def test_balanced_softmax(read):
    g = read("balanced_softmax")
    loss = lambda logits: losses.balanced_softmax(logits, g["labels"], g["class_counts"])
    assert_as_theirs(loss, g["logits"], lambda key: g[key])
    prior = g["class_counts"] / g["class_counts"].sum()
    adjusted = losses.logit_adjusted(g["logits"], g["labels"], prior)  # with a floor, of 1e-12
    np.testing.assert_allclose(loss(g["logits"]), adjusted, rtol=0, atol=1e-9)


def test_logit_adjustment(read):
    g = read("logit_adjustment")
    for number, tau in enumerate(g["taus"].tolist()):
        of = lambda key, number=number: g[f"tau{number}/{key}"]
        loss = lambda logits, tau=tau: losses.logit_adjusted(
            logits, g["labels"], g["base_probs"], tau
        )
        assert_as_theirs(loss, g["logits"], of)
        afterwards = losses.LogitAdjusted(g["class_counts"], temperature=tau, post_hoc=True)
        close(afterwards.predict(g["logits"]), of("posthoc_logits"))
        np.testing.assert_array_equal(
            afterwards.predict(g["logits"]).argmax(axis=-1), of("posthoc_prediction")
        )
        plain = losses.cross_entropy(g["logits"], g["labels"])
        close(afterwards(g["logits"], g["labels"]), plain)
        before = losses.LogitAdjusted(g["class_counts"], temperature=tau)
        close(before(g["logits"], g["labels"]), of("loss"))
        close(before.predict(g["logits"]), g["logits"])  # never both


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_losses_and_gradients_are_finite_whatever_the_logits(name, dtype):
    options = {} if name in ("cross_entropy", "focal", "generalized_cross_entropy") else {
        "counts": np.array([5, 0, 1])  # a class without examples
    }  # fmt: skip
    loss = LOSSES[name](**options)
    logits = jnp.array([[a, b, 0.0] for a in EXTREME for b in EXTREME], dtype)
    for label in (0, 2):
        labels = jnp.full(len(logits), label)
        value, gradient = jax.value_and_grad(lambda x, y=labels: loss(x, y).sum())(logits)
        assert loss(logits, labels).dtype == jnp.float32
        assert np.isfinite(value)
        assert np.all(np.isfinite(gradient.astype(jnp.float32)))
        assert np.all(np.isfinite(loss.predict(logits).astype(jnp.float32)))


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_gradients_are_those_of_finite_differences(gamma, wide):
    logits = jax.random.normal(jax.random.key(0), (4, 3), jnp.float64)
    labels = jnp.array([0, 1, 2, 2])
    for loss in (losses.Focal(gamma), losses.ClassBalancedFocal(COUNTS, gamma)):
        value = lambda x, loss=loss: loss(x, labels).sum()
        gradient = jax.grad(value)(logits)
        step = 1e-6
        for place in np.ndindex(*logits.shape):
            moved = [value(logits.at[place].add(by)) for by in (step, -step)]
            slope = float(moved[0] - moved[1]) / (2 * step)
            assert float(gradient[place]) == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_what_is_outside_of_its_range():
    logits, labels = jnp.zeros((1, 2)), jnp.zeros(1, int)
    with pytest.raises(ValueError, match="gamma=-1 must not be negative"):
        losses.focal(logits, labels, -1)
    with pytest.raises(ValueError, match="gamma=-1 must not be negative"):
        losses.class_balanced_focal(logits, labels, np.ones(2), -1)
    with pytest.raises(ValueError, match="not be negative, and not all 0"):
        losses.class_margins([0, 0])
    with pytest.raises(TypeError, match=r"called as \(logits, labels\); got a float"):
        methods.plain(Network(), optax.sgd(0.1), loss=0.5)


class Network(nn.Module):
    """Which has a field for cosines, and does with it what can be seen."""

    cosine: float | None = None

    @nn.compact
    def __call__(self, inputs, *, train):
        x = nn.LayerNorm(use_bias=False, use_scale=False)(nn.Dense(8)(inputs))
        return nn.Dense(3)(nn.tanh(x)) * (self.cosine or 1.0)


def batch(size=6):
    rng = np.random.default_rng(0)
    return {
        "inputs": jnp.asarray(rng.normal(size=(size, 4)), jnp.float32),
        "labels": jnp.asarray(rng.integers(0, 3, size)),
        "strength": jnp.asarray(rng.uniform(size=size), jnp.float32),
    }


@pytest.mark.parametrize("name", [pytest.param("ldam", marks=pytest.mark.slow), "logit_adjusted"])
def test_a_step_is_a_gradient_step_on_the_loss_and_on_its_own_r(name):
    loss, data = LOSSES[name](COUNTS), batch()
    network = Network(cosine=30.0) if name == "ldam" else Network()
    loss_and_norm = har_jax.loss_and_jacobian_norm(network.apply)

    def objective(params, strength):
        r = loss_and_norm(
            lambda logits: loss(logits, data["labels"]),
            {"params": params},
            data["inputs"],
            train=True,
        )
        return jnp.mean(r.loss + strength * r.norm), r

    for make, strength in ((methods.plain, 0.0), (methods.har, data["strength"])):
        method = make(Network(), optax.sgd(0.1), loss=loss)
        state = method.init(jax.random.key(0), data)
        after, metrics = jax.jit(method.step)(state, data, jax.random.key(1))
        gradient, r = jax.grad(objective, has_aux=True)(state.params, strength)
        expected = jax.tree.map(lambda p, g: p - 0.1 * g, state.params, gradient)
        chex.assert_trees_all_close(after.params, expected, rtol=1e-4, atol=1e-6)
        assert metrics["loss"].mean() == pytest.approx(float(r.loss.mean()), rel=1e-5)


def test_a_function_will_do_as_a_loss():
    mean_error = lambda logits, labels: 1 - jax.nn.softmax(logits)[jnp.arange(6), labels]
    after = []
    for loss in (mean_error, losses.GeneralizedCrossEntropy(q=1.0)):
        method = methods.har(Network(), optax.sgd(0.1), loss=loss)
        state = method.init(jax.random.key(0), batch())
        after.append(method.step(state, batch(), jax.random.key(1))[0].params)
    chex.assert_trees_all_close(*after, rtol=1e-5, atol=1e-7)


def test_predictions_are_adjusted_afterwards():
    data = batch()
    shift = np.log(COUNTS / COUNTS.sum())
    logits = []
    for post_hoc in (False, True):
        loss = losses.LogitAdjusted(COUNTS, post_hoc=post_hoc)
        method = methods.har(Network(), optax.sgd(0.1), loss=loss)
        variables = method.init(jax.random.key(0), data).variables
        logits.append(method.predict(variables, data["inputs"]))
    np.testing.assert_allclose(logits[0] - logits[1], np.tile(shift, (6, 1)), atol=1e-5)


@pytest.mark.parametrize("post_hoc", [None, False, True])
def test_a_class_without_examples_is_not_raised_by_that(post_hoc):
    counts = np.array([20, 0, 5])
    loss = losses.BalancedSoftmax(counts)
    if post_hoc is not None:
        loss = losses.LogitAdjusted(counts, post_hoc=post_hoc)
    logits = jax.random.normal(jax.random.key(0), (50, 3))
    predicted = loss.predict(logits)
    assert set(predicted.argmax(axis=-1).tolist()) == {0, 2}
    shift = np.log(25 / np.array([20, 5])) if post_hoc else np.zeros(2)
    np.testing.assert_allclose((predicted - logits)[:, [0, 2]], np.tile(shift, (50, 1)), atol=1e-5)


def test_every_class_begins_as_likely_where_classes_are_told_one_by_one():
    loss = losses.ClassBalancedFocal(COUNTS, gamma=0.0, beta=0.0)
    value = loss(jnp.zeros((1, 3)), jnp.zeros(1, int))
    assert value[0] == pytest.approx(math.log(3) + 2 * math.log(3 / 2), rel=1e-5)
