"""Sums and normalizers add up over parts, and refuse shapes that would broadcast."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from har_jax import cross_entropy, regularized_sum, weighted_sum


def test_parts_add_up_to_the_whole():
    rng = np.random.default_rng(0)
    loss, norm, strength, weights = rng.uniform(size=(4, 7)).astype(np.float32)
    arrays = (weights * loss, weights * norm, strength, weights)
    whole = regularized_sum(*arrays)
    parts = [regularized_sum(*(a[rows] for a in arrays)) for rows in (slice(0, 3), slice(3, 7))]
    added = jax.tree.map(jnp.add, *parts)
    np.testing.assert_allclose(added.mean(), whole.mean(), rtol=1e-6)
    expected = np.sum(weights * loss + strength * weights * norm) / np.sum(weights)
    np.testing.assert_allclose(whole.mean(), expected, rtol=1e-6)


def test_one_strength_for_all_and_sums_in_float32():
    half = jnp.full(5000, 0.5, jnp.float16)
    total = regularized_sum(half, half, 2.0)
    assert total.total.dtype == total.weight.dtype == jnp.float32
    assert float(total.total) == 7500
    assert float(weighted_sum(jnp.ones(100_000, jnp.float16)).weight) == 100_000


def test_nothing_has_mean_zero():
    assert weighted_sum(jnp.ones(3), jnp.zeros(3)).mean() == 0
    assert weighted_sum(jnp.ones(4)).mean() == 1


def test_shapes_that_would_broadcast_are_refused():
    with pytest.raises(ValueError, match=r"strength \[3, 1\]"):
        regularized_sum(jnp.ones(3), jnp.ones(3), jnp.ones((3, 1)))
    with pytest.raises(ValueError, match=r"weights \[1\]"):
        weighted_sum(jnp.ones(3), jnp.ones(1))


def test_cross_entropy_is_taken_in_float32():
    logits = jnp.array([[1000.0, 0.0], [0.0, 0.0]], jnp.bfloat16)
    loss = cross_entropy(logits, jnp.array([1, 0]))
    assert loss.dtype == jnp.float32
    np.testing.assert_allclose(loss, [1000, np.log(2)], rtol=1e-6)
