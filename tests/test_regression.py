"""Noise of residuals by group, against loops, and what is done about few of them."""

import re

import numpy as np
import pytest
from scipy import special

import har_jax
from har_jax import regression_tau, residual_statistics
from har_jax.strength.regression import _inverse_trigamma


def drawn(seed, noises=(1.0, 2.0, 0.5), sizes=(40, 10, 25)):
    rng = np.random.default_rng(seed)
    held_out = np.repeat(np.arange(len(sizes)), sizes)
    residuals = np.asarray(noises)[held_out] * rng.normal(size=len(held_out))
    order = rng.permutation(len(held_out))
    return rng.integers(0, len(sizes), 200), held_out[order], residuals[order]


@pytest.mark.parametrize("smoothing", [0.0, 3.0])
def test_noise_and_frequency_are_those_of_a_loop(smoothing):
    groups, held_out, residuals = drawn(0)
    s = residual_statistics(groups, held_out, residuals, smoothing=smoothing)
    pooled = sum(r * r for r in residuals) / len(residuals)
    for index, group in enumerate(s.groups):
        own = [r * r for r, g in zip(residuals, held_out, strict=True) if g == group]
        noise = (sum(own) + smoothing * pooled) / (len(own) + smoothing)
        frequency = sum(g == group for g in groups) / len(groups)
        assert s.observed_noise[index] == pytest.approx(sum(own) / len(own))
        assert s.noise[index] == pytest.approx(noise)
        assert s.frequency[index] == frequency
        assert s.tau[index] == pytest.approx(noise**0.4 / frequency**0.4)
        assert s.validation_count[index] == len(own)
    strength = s.per_example(har_jax.scale_to_maximum(s.tau, 0.1), groups)
    assert strength.max() == pytest.approx(0.1)
    assert all(strength[groups == 1] == strength[groups == 1][0])


def test_scale_and_order_of_residuals_do_not_count_beyond_a_factor():
    groups, held_out, residuals = drawn(1)
    s = residual_statistics(groups, held_out, residuals, smoothing=None)
    order = np.random.default_rng(0).permutation(len(residuals))
    again = residual_statistics(groups, held_out[order], -3 * residuals[order], smoothing=None)
    np.testing.assert_allclose(again.noise, 9 * s.noise)
    np.testing.assert_allclose(again.standard_error, 9 * s.standard_error)
    np.testing.assert_allclose(again.tau / again.tau.max(), s.tau / s.tau.max())


def test_standard_errors_are_those_of_many_draws():
    many = [drawn(seed) for seed in range(300)]
    found = [residual_statistics(*each) for each in many]
    noise = np.array([s.observed_noise for s in found])
    said = np.mean([s.standard_error for s in found], axis=0)
    np.testing.assert_allclose(said, noise.std(axis=0), rtol=0.15)


def test_groups_that_are_alike_are_shrunk_to_the_pooled_noise_and_others_are_kept():
    alike = [residual_statistics(*drawn(s, (1.0,) * 8, (12,) * 8), smoothing=None)
             for s in range(10)]  # fmt: skip
    spreads = [np.std(np.log(s.noise)) / np.std(np.log(s.observed_noise)) for s in alike]
    assert np.median(spreads) < 0.3
    apart = residual_statistics(*drawn(0, (0.1, 1.0, 10.0), (60,) * 3), smoothing=None)
    assert np.max(np.abs(np.log(apart.noise / apart.observed_noise))[1:]) < 0.2
    assert apart.noise[0] < apart.noise[1] < apart.noise[2]


def test_shrinking_helps_where_residuals_are_few():
    noises = np.exp(np.linspace(-0.5, 0.5, 12))
    errors = {0.0: [], None: []}
    for seed in range(40):
        for smoothing, found in errors.items():
            s = residual_statistics(*drawn(seed, noises, (6,) * 12), smoothing=smoothing)
            found.append(np.mean((np.log(s.noise) - 2 * np.log(noises)) ** 2))
    assert np.mean(errors[None]) < 0.8 * np.mean(errors[0.0])


@pytest.mark.parametrize("value", [1e-3, 0.5, 10.0, 1e4])
def test_trigamma_is_inverted(value):
    assert special.polygamma(1, _inverse_trigamma(value)) == pytest.approx(value)


def test_groups_without_examples_are_told_of():
    groups, held_out, residuals = np.array([0, 0, 1]), np.array([0, 2]), np.array([1.0, 3.0])
    with (
        pytest.warns(UserWarning, match=re.escape("[1] have no validation example")),
        pytest.warns(UserWarning, match=re.escape("[2] have no training example")),
    ):
        s = residual_statistics(groups, held_out, residuals)
    assert s.noise.tolist() == [1, 5, 9]
    assert s.tau[2] == 0
    assert np.isnan(s.observed_noise[1])
    assert np.isnan(s.standard_error[1])


def test_residuals_of_nothing_are_no_noise():
    s = residual_statistics(np.array([0, 1]), np.array([0, 1]), np.zeros(2), smoothing=None)
    assert s.noise.tolist() == [0, 0]
    assert s.tau.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"residuals": np.zeros(3)}, "there are 3 residuals for 2 groups"),
        ({"residuals": np.array([0, np.inf])}, "residual inf of example 1 is not finite"),
        ({"smoothing": -1.0}, "smoothing=-1.0 must be finite and not negative"),
        ({"groups": np.array([0.5])}, "groups must be integers"),
        ({"ids": np.array([0])}, "groups [1] occur among the examples but not in ids"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, message):
    given = {"groups": np.array([0, 1]), "validation_groups": np.array([0, 1])}
    given |= {"residuals": np.ones(2), "smoothing": 0.0} | changes
    with pytest.raises(ValueError, match=re.escape(message)):
        residual_statistics(
            given.pop("groups"), given.pop("validation_groups"), given.pop("residuals"), **given
        )


def test_the_rule_takes_arrays_of_jax():
    import jax.numpy as jnp

    found = regression_tau(jnp.array([4.0]), jnp.array([0.25]), jnp.array([1.0]))
    assert found[0] == pytest.approx(16**0.4, rel=1e-5)
