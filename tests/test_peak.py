"""An example whose R is far outside of its batch's is named, and can be bounded."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from har_jax import methods
from har_jax.methods.shared.axis import in_slot
from har_jax.methods.shared.peak import Peak, higher, rows_of, split, with_peaks
from har_jax.train.peaks import Peaks
from tests import zoo

BLACK = 5


class Net(nn.Module):
    """Of a constant input the second norm divides by nearly nothing."""

    @nn.compact
    def __call__(self, x, train):
        for _ in range(2):
            x = nn.GroupNorm(2)(nn.Conv(4, (3, 3), use_bias=False)(x))
        return nn.Dense(2)(nn.tanh(x).mean(axis=(1, 2)))


@pytest.fixture(scope="module")
def batch():
    x, y = zoo.inputs((16, 5, 5, 3)), zoo.labels(16) % 2
    x[BLACK] = 0
    return {
        "inputs": jnp.asarray(x),
        "labels": jnp.asarray(y),
        "strength": jnp.full(16, 0.1),
        "index": jnp.arange(100, 116),
    }


def step(batch, **options):
    method = methods.har(Net(), optax.sgd(0.1), **options)
    state = jax.jit(method.init)(jax.random.key(0), batch)
    return *jax.jit(method.step)(state, batch, jax.random.key(1)), state


def test_an_example_on_which_a_norm_divides_by_nothing_is_named(batch):
    _, metrics, _ = step(batch)
    sums, peaks = split(metrics)
    assert set(sums) == {"loss", "accuracy", "norm"}
    peak = peaks["peak"]
    assert peak.example == 100 + BLACK
    assert peak.ratio > 100
    with pytest.warns(UserWarning, match=r"run: up to step 7, R of training example 105, d, was"):
        record = Peaks("run", "abcdef" * 20).told(peak, 7)
    assert record["peak_example"] == 105
    several = split(step(batch, microbatches=4)[1])[1]["peak"]
    np.testing.assert_allclose(several, peak, rtol=1e-5)


@pytest.mark.slow
def test_a_bound_takes_its_gradient_away(batch):
    low = 1e-6  # below all: what is left is plain training
    plain = methods.erm(Net(), optax.sgd(0.1))
    bounded, metrics, state = step(batch, max_norm=low)
    assert "peak" not in metrics
    erm, _ = jax.jit(plain.step)(state, batch, jax.random.key(1))
    high, _, _ = step(batch, max_norm=1e6)
    free, _, _ = step(batch)
    for one, other in ((bounded, erm), (high, free)):
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7),
            one.params,
            other.params,
        )
    moved = lambda new: optax.tree.norm(optax.tree.sub(new.params, state.params))
    assert moved(free) > 5 * moved(step(batch, max_norm=1.0)[0])


def test_what_a_network_has_fitted_is_no_peak():
    # R spans ten decades, as it does at the end of a training, and is nowhere out of proportion.
    loss = 10.0 ** -np.arange(0, 10, dtype=np.float32)
    peak = with_peaks(in_slot({"peak": rows_of(0.5 * loss, loss, np.arange(10))}, 0, 1))["peak"]
    assert peak.ratio < 10
    all_fitted = rows_of(np.full(10, 1e-4), np.full(10, 1e-4), np.arange(10))
    assert with_peaks(in_slot({"peak": all_fitted}, 0, 1))["peak"].ratio == 0


def test_of_two_peaks_the_higher_one_counts():
    one, other = (Peak(*np.full(4, value, np.float32)) for value in (1.0, 2.0))
    assert higher({"peak": one}, {"peak": other})["peak"].norm == 2
    assert higher({"peak": other}, {"peak": one})["peak"].norm == 2
