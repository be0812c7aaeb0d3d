"""The framework-free core, on functions written out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from har_jax import Axes, loss_and_perturbation_norm


def two_layers(x, weights):
    """Perturbed layers [B, 3] and [L, B, 4]; the loss is linear in both."""

    def fun(perturbations):
        one = x + perturbations["one"]
        many = perturbations["many"]
        return one @ weights["one"] + jnp.einsum("lbd,ld->b", many, weights["many"]), one

    return fun


@pytest.fixture
def setting():
    rng = np.random.default_rng(0)
    weights = {"one": rng.normal(size=3), "many": rng.normal(size=(2, 4))}
    weights = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), weights)
    x = jnp.asarray(rng.normal(size=(5, 3)), jnp.float32)
    zeros = {"one": jnp.zeros((5, 3)), "many": jnp.zeros((2, 5, 4))}
    return two_layers(x, weights), zeros, weights, x


def test_both_readings(setting):
    fun, zeros, weights, x = setting
    axes = {"one": 0, "many": Axes(1, layers=(0,))}
    norms = [np.linalg.norm(weights["one"]), *np.linalg.norm(weights["many"], axis=1)]
    for reduction, expected in [
        ("root_sum_square", np.linalg.norm(norms)),
        ("sum_of_norms", np.sum(norms)),
    ]:
        r = loss_and_perturbation_norm(fun, zeros, axes, reduction=reduction)
        np.testing.assert_allclose(r.norm, np.full(5, expected), rtol=1e-6)
        np.testing.assert_allclose(r.loss, x @ weights["one"], rtol=1e-6)
        np.testing.assert_array_equal(r.aux, x)
        assert r.layer_norms["many"].shape == (2, 5)


def test_axes_are_a_prefix_and_may_be_negative(setting):
    fun, zeros, _, _ = setting
    swapped = lambda z: fun({**z, "many": jnp.moveaxis(z["many"], -1, 1)})
    moved = {**zeros, "many": jnp.zeros((2, 4, 5))}
    one = loss_and_perturbation_norm(fun, zeros, {"one": 0, "many": 1}).norm
    two = loss_and_perturbation_norm(swapped, moved, {"one": -2, "many": -1}).norm
    np.testing.assert_allclose(one, two, rtol=1e-6)
    only = lambda z: fun({"one": z, "many": zeros["many"]})
    assert loss_and_perturbation_norm(only, zeros["one"]).norm.shape == (5,)


def test_norms_of_scalars_per_example():
    r = loss_and_perturbation_norm(lambda z: (3 * z, None), jnp.zeros(4))
    np.testing.assert_allclose(r.norm, np.full(4, 3.0))


def test_float64_stays_float64():
    with jax.enable_x64(True):
        r = loss_and_perturbation_norm(lambda z: (3 * z, None), jnp.zeros(4, jnp.float64))
        assert r.norm.dtype == jnp.float64


def test_errors_say_what_is_wrong(setting):
    fun, zeros, _, _ = setting
    with pytest.raises(ValueError, match="'mean' is unknown: take one of root_sum_square, sum_of"):
        loss_and_perturbation_norm(fun, zeros, reduction="mean")
    with pytest.raises(
        ValueError,
        match=r"the loss has 5 entries, and axis 0 of the tap many",
    ):
        loss_and_perturbation_norm(fun, zeros)
    with pytest.raises(ValueError, match="no perturbations"):
        loss_and_perturbation_norm(lambda z: (jnp.ones(3), None), {})
    with pytest.raises(ValueError, match=r"shape \[4\], and no axes \[3\]"):
        loss_and_perturbation_norm(lambda z: (z, None), jnp.zeros(4), 3)
