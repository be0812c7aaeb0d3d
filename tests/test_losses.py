"""Losses are what their authors' code computes, in float64, with its gradients."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from har_jax import losses

GOLDEN = pathlib.Path(__file__).parent / "data" / "baselines"
SHARED = GOLDEN.parents[3] / "shared" / "golden" / "baselines"


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


def golden(name):
    with np.load(GOLDEN / f"{name}.npz", allow_pickle=False) as file:
        return {key: jnp.asarray(value) for key, value in file.items()}


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


def test_generalized_cross_entropy():
    g = golden("gce")
    for number, q in enumerate(g["q_values"].tolist()):
        loss = lambda logits, q=q: losses.generalized_cross_entropy(logits, g["labels"], q)
        close(loss(g["logits"]), g[f"lq{number}/loss"])
        close(loss(g["logits"]).mean(), g[f"lq{number}/scalar"])
        close(jax.grad(lambda x, loss=loss: loss(x).mean())(g["logits"]), g[f"lq{number}/grad"])


def test_truncated_generalized_cross_entropy():
    g = golden("gce")
    q, k = float(g["q"]), float(g["k"])
    labels, logits = g["trunc/labels"], g["trunc/logits"]
    close(losses.truncated_generalized_cross_entropy(logits, labels, q, k), g["trunc/paper_loss"])
    # Its authors' step: weights by another model's probabilities, and the constant taken off.
    at_k = (1 - k**q) / q
    close(at_k, g["trunc/lq_at_k"])
    said, given = g["trunc/prune_logits"], g["trunc/all_labels"]
    kept = losses.truncated_generalized_cross_entropy(said, given, q, k) < at_k
    np.testing.assert_array_equal(kept, g["trunc/weight"])
    weights = g["trunc/weight"][g["trunc/index"]]

    def loss(logits):
        return weights * (losses.generalized_cross_entropy(logits, labels, q) - at_k)

    close(loss(logits), g["trunc/loss"])
    close(loss(logits).mean(), g["trunc/scalar"])
    close(jax.grad(lambda x: loss(x).mean())(logits), g["trunc/grad"])


def test_determinant_mutual_information():
    g = golden("dmi")
    value = jax.value_and_grad(losses.determinant_mutual_information)
    loss, gradient = value(g["logits"], g["labels"])
    close(loss, g["scalar"])
    close(gradient, g["grad"])
    loss, gradient = value(g["logits"], g["missing/labels"])  # a class is absent
    close(loss, g["missing/scalar"])
    close(gradient, g["missing/grad"])
    narrow = losses.determinant_mutual_information(g["logits"].astype(jnp.bfloat16), g["labels"])
    assert narrow.dtype == jnp.float32
    assert narrow == pytest.approx(float(g["scalar"]), abs=0.1)


def test_early_learning_regularization():
    g = golden("elr")
    lam, beta = float(g["lambda"]), float(g["beta"])
    targets = jnp.zeros_like(g["step0/targets_all"])
    for step in range(3):
        of = lambda key, step=step: g[f"step{step}/{key}"]
        index, labels = of("index"), of("labels")
        rows = losses.early_learning_targets(targets[index], of("logits"), beta)
        targets = targets.at[index].set(rows)
        close(targets, of("targets_all"))
        close(losses.cross_entropy(of("logits"), labels), of("cross_entropy"))
        close(losses.early_learning_regularization(of("logits"), rows), of("regularizer"))

        def loss(logits, labels=labels, rows=rows):
            penalty = losses.early_learning_regularization(logits, rows)
            return losses.cross_entropy(logits, labels) + lam * penalty

        close(loss(of("logits")), of("loss"))
        close(loss(of("logits")).mean(), of("scalar"))
        close(jax.grad(lambda x, loss=loss: loss(x).mean())(of("logits")), of("grad"))
    no_gradient = jax.grad(lambda x: losses.early_learning_targets(rows, x, beta).sum())
    assert not np.any(no_gradient(of("logits")))


def test_the_determinant_of_a_network_that_has_collapsed_has_a_finite_gradient():
    # Nearly everything is called class 7, as where DMI's rate is too high.
    usual = jnp.array([-96, -77, -93, -99, -95, -96, -102, 0, -70, -165], jnp.float32)
    shares = jnp.array([6, 6, 6, 1, 1, 6, 6, 6, 1, 1]) / 40
    gradient = jax.jit(jax.grad(losses.determinant_mutual_information))
    for seed in range(60):  # of seven of these it was NaN in float32
        keys = jax.random.split(jax.random.key(seed), 3)
        scale = jax.random.uniform(keys[0], (64, 1), jnp.float32, 0.5, 1.5)
        noise = 2 * jax.random.normal(keys[1], (64, 10), jnp.float32)
        labels = jax.random.choice(keys[2], 10, (64,), p=shares)
        assert np.all(np.isfinite(gradient(scale * usual + noise, labels)))


@pytest.mark.parametrize("q", [0.1, 0.7, 1.0])
def test_generalized_cross_entropy_is_safe_where_a_label_is_impossible(q):
    logits = jnp.array([[0.0, -1e4], [0.0, 1e4]], jnp.float32)
    labels = jnp.array([1, 1])
    value, gradient = jax.value_and_grad(
        lambda x: losses.generalized_cross_entropy(x, labels, q).sum()
    )(logits)
    assert value == pytest.approx(1 / q)
    assert np.all(np.isfinite(gradient))


def test_towards_no_q_it_is_the_cross_entropy():
    logits = jax.random.normal(jax.random.key(0), (5, 3))
    labels = jnp.array([0, 1, 2, 0, 1])
    near = losses.generalized_cross_entropy(logits, labels, 1e-8)
    np.testing.assert_allclose(near, losses.cross_entropy(logits, labels), rtol=1e-6)


@pytest.mark.parametrize(("q", "k"), [(0.0, 0.5), (1.5, 0.5), (0.7, 1.0), (0.7, -0.1)])
def test_what_is_outside_of_its_range(q, k):
    with pytest.raises(ValueError, match=r"[qk]=.* must be in"):
        losses.truncated_generalized_cross_entropy(jnp.zeros((1, 2)), jnp.zeros(1, int), q, k)
