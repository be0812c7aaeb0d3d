"""Whatever the input: a right result, or an error that says what is wrong. Drawn by hypothesis."""

import json
import warnings

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import har_jax
from har_jax import config as har_config
from har_jax import data
from har_jax.data.examples import DataError
from tests.test_config import digits

hypothesis.settings.register_profile(
    "quick", max_examples=100, deadline=None, derandomize=True, database=None
)
hypothesis.settings.load_profile("quick")

KEYS = sorted(har_config.flatten(har_config.base()))
numbers = st.one_of(
    st.integers(), st.floats(), st.sampled_from([0, -1, 1, 0.5, 1e-320, 1e308, 10**400])
)
scalars = st.one_of(numbers, st.text(max_size=5), st.booleans(), st.none())
values = st.one_of(
    scalars,
    st.lists(scalars, max_size=3).map(tuple),
    st.lists(st.lists(scalars, max_size=3).map(tuple), max_size=2).map(tuple),
    st.sampled_from(["none", "groups", "symmetric", "step", "exponential", "adam", "cosine"]),
    st.sampled_from(["cifar_resnet", "group", "validation", "har", "skip", "bfloat16"]),
)
labels = hnp.arrays(np.int32, st.integers(1, 60), elements=st.integers(0, 4))
seeds = st.integers(0, 2**32 - 1)


@hypothesis.settings(max_examples=200)
@hypothesis.given(st.dictionaries(st.sampled_from(KEYS), values, min_size=1, max_size=3))
def test_a_config_is_valid_or_refused_by_a_key_of_it(changes):
    config = digits()
    config.unlock()
    for key, value in changes.items():
        *path, last = key.split(".")
        section = config
        for name in path:
            section = section[name]
        # As a file can that sets keys with the types that it likes.
        object.__getattribute__(section, "_fields")[last] = value
    message = None
    try:
        har_config.validate(config)
    except har_config.ConfigError as error:
        message = str(error)
    hypothesis.event("valid" if message is None else "refused")
    if message is None:
        json.dumps(har_config.flatten(config), allow_nan=False)
    else:
        assert "config." in message
        assert "\n" not in message


@hypothesis.given(labels, st.floats(0, 1), seeds)
def test_noise_moves_the_rate_of_each_class_and_stays_in_its_group(labels, rate, seed):
    groups = ((0, 1), (2, 3))
    noisy = data.exchange_within_groups(labels, groups, rate, seed)
    np.testing.assert_array_equal(noisy, data.exchange_within_groups(labels, groups, rate, seed))
    assert noisy.dtype == labels.dtype
    for label, other in ((0, 1), (1, 0), (2, 3), (3, 2), (4, 4)):
        of_class = noisy[labels == label]
        assert set(of_class.tolist()) <= {label, other}
        if label != other:
            assert np.sum(of_class == other) == round(rate * len(of_class))


@hypothesis.given(labels, st.floats(1, 1e6), seeds)
def test_step_imbalance_keeps_its_share_of_every_rare_class(labels, ratio, seed):
    frequent = np.bincount(labels, minlength=5)[2:].max()
    if not frequent:
        with pytest.raises(ValueError, match="leave no class that is frequent"):
            data.step_imbalance(labels, (0, 1), ratio, seed)
        return
    kept = data.step_imbalance(labels, (0, 1), ratio, seed)
    assert np.all(np.diff(kept) > 0)
    before, after = (np.bincount(x, minlength=5) for x in (labels, labels[kept]))
    share = max(1, round(frequent / ratio))
    np.testing.assert_array_equal(after, [*np.minimum(before[:2], share), *before[2:]])


@hypothesis.given(labels, st.floats(1, 1e6), seeds)
def test_a_long_tail_loses_no_class(labels, ratio, seed):
    kept = data.exponential_imbalance(labels, 5, ratio, seed)
    assert np.all(np.diff(kept) > 0)
    before, after = (np.bincount(x, minlength=5) for x in (labels, labels[kept]))
    shares = before.max() * ratio ** (-np.arange(5) / 4)
    assert np.all(after <= np.maximum(1, shares + 1e-6))
    assert np.all(after >= np.minimum(before, np.maximum(1, shares - 1)))


@hypothesis.given(labels, st.integers(-5, 70), seeds)
def test_a_split_is_a_partition_with_the_shares_of_each_class(labels, size, seed):
    if not 0 < size < len(labels):
        with pytest.raises(DataError, match=f"cannot have {size} in its first part"):
            data.stratified_split(labels, size, seed)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, second = data.stratified_split(labels, size, seed)
    assert len(first) == size
    assert sorted([*first.tolist(), *second.tolist()]) == list(range(len(labels)))
    shares = np.bincount(labels, minlength=5) * size / len(labels)
    assert np.all(np.abs(np.bincount(labels[first], minlength=5) - shares) < 1)


@hypothesis.given(st.integers(1, 50), st.integers(1, 80), st.integers(0, 200), seeds)
def test_batches_are_full_and_a_function_of_seed_and_step(size, batch_size, step, seed):
    batch = data.Batches(size, batch_size, seed)(step)
    np.testing.assert_array_equal(batch, data.Batches(size, batch_size, seed)(step))
    assert len(batch) == batch_size
    assert set(batch.tolist()) <= set(range(size))
    counts = np.bincount(batch, minlength=size)
    assert counts.max() - counts.min() <= 2


@hypothesis.given(
    st.data(),
    st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=5, unique=True),
    st.floats(0, 1e3),
)
def test_tau_is_finite_and_does_not_depend_on_what_groups_are_called(draw, ids, smoothing):
    ids = np.array(sorted(ids), np.int64)
    member = st.integers(0, len(ids) - 1)
    groups = np.array(draw.draw(st.lists(member, max_size=30)), np.int64)
    validation = np.array(draw.draw(st.lists(member, min_size=1, max_size=30)), np.int64)
    errors = np.array([draw.draw(st.floats(0, 1)) for _ in validation])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # groups of no example
        found = har_jax.group_statistics(
            ids[groups], ids[validation], errors, ids=ids, smoothing=smoothing
        )
        plain = har_jax.group_statistics(
            groups, validation, errors, ids=np.arange(len(ids)), smoothing=smoothing
        )
        strength = har_jax.scale_to_maximum(found.tau, 0.1)
    np.testing.assert_array_equal(found.tau, plain.tau)
    np.testing.assert_array_equal(found.groups, ids)
    assert np.all(np.isfinite(found.tau))
    assert np.all(found.tau >= 0)
    assert np.all((found.error >= 0) & (found.error <= 1 + 1e-12))
    assert np.all((strength >= 0) & (strength <= 0.1))
    spread = found.per_example(strength, ids[groups])
    np.testing.assert_array_equal(spread, strength[groups])
