"""tau by cases worked by hand, and what is said of groups with little data."""

import numpy as np
import pytest

import har_jax
from har_jax import group_statistics, noise_frequency_tau, scale_to_maximum
from har_jax.methods import METHODS, Setting
from har_jax.options import make
from har_jax.strength import inverse_strength, random_strength


def test_by_hand():
    # 6 of 8 training examples are of group 3, 2 of group -1.
    s = group_statistics(
        groups=np.array([3, 3, 3, -1, 3, 3, 3, -1]),
        validation_groups=np.array([3, 3, 3, 3, -1, -1]),
        validation_errors=np.array([True, False, False, False, True, True]),
    )
    assert s.groups.tolist() == [-1, 3]
    assert s.count.tolist() == [2, 6]
    assert s.validation_count.tolist() == [2, 4]
    assert s.error.tolist() == [1.0, 0.25]
    assert s.frequency.tolist() == [0.25, 0.75]
    np.testing.assert_allclose(s.tau, [4**0.4, 0.25**0.6 * (4 / 3) ** 0.4], rtol=1e-12)
    strength = scale_to_maximum(s.tau, 0.1)
    assert strength.max() == pytest.approx(0.1, rel=1e-12)
    np.testing.assert_allclose(strength[1] / strength[0], s.tau[1] / s.tau[0])
    np.testing.assert_array_equal(
        s.per_example(strength, np.array([3, -1, 3])), strength[[1, 0, 1]]
    )


def test_tau_rises_with_noise_and_falls_with_frequency():
    noise, frequency = np.linspace(0, 1, 5), np.linspace(0.1, 1, 5)
    assert np.all(np.diff(noise_frequency_tau(noise, 0.5)) > 0)
    assert np.all(np.diff(noise_frequency_tau(0.5, frequency)) < 0)


def test_a_group_without_validation_example_takes_the_pooled_error():
    with pytest.warns(UserWarning, match=r"groups \[7\] have no validation.*pooled error, 0.333"):
        s = group_statistics(np.array([1, 2, 7]), np.array([1, 1, 2]), np.array([0.0, 1.0, 0.0]))
    np.testing.assert_allclose(s.error, [0.5, 0.0, 1 / 3])


def test_a_group_without_training_example_has_tau_zero():
    with pytest.warns(UserWarning, match=r"groups \[2\] have no training example"):
        s = group_statistics(np.array([0, 1]), np.array([0, 1]), np.array([0.0, 1.0]), ids=range(3))
    assert s.tau.shape == (3,)
    assert s.tau[2] == 0
    assert np.all(np.isfinite(s.tau))
    assert np.all(np.isfinite(scale_to_maximum(s.tau, 0.1)))


def of_counts(*wrong_of):
    """Groups with these numbers of wrong ones of so many validation examples."""
    groups = np.repeat(np.arange(len(wrong_of)), [count for _, count in wrong_of])
    errors = np.concatenate([np.arange(count) < wrong for wrong, count in wrong_of])
    return group_statistics(groups, groups, errors, smoothing=None)


def test_errors_are_shrunk_as_far_as_they_are_uncertain():
    s = of_counts((10, 100), (60, 100), (1, 1), (5, 10))
    np.testing.assert_allclose(s.observed_error, [0.1, 0.6, 1.0, 0.5])
    pooled = 76 / 211
    kept = (s.error - pooled) / (s.observed_error - pooled)
    assert np.all(np.diff(kept[[0, 3, 2]]) < 0)  # the fewer examples, the less
    np.testing.assert_allclose(kept[0], kept[1])
    assert kept[0] > 0.95
    # As many imaginary examples as every group has in common say the same.
    imaginary = 100 * (1 / kept[0] - 1)
    np.testing.assert_allclose(1 / kept - 1, imaginary / np.array([100, 100, 1, 10]))
    groups = np.repeat(np.arange(4), [100, 100, 1, 10])
    errors = np.concatenate([np.arange(n) < w for w, n in ((10, 100), (60, 100), (1, 1), (5, 10))])
    same = group_statistics(groups, groups, errors, smoothing=imaginary)
    np.testing.assert_allclose(same.error, s.error)
    np.testing.assert_allclose(same.standard_error, s.standard_error)


def test_groups_that_differ_by_chance_are_taken_to_be_alike():
    s = of_counts((2, 10), (1, 10), (2, 10), (1, 1))
    np.testing.assert_allclose(s.error, 6 / 31)
    assert of_counts((0, 5), (0, 1)).error.tolist() == [0, 0]
    assert of_counts((5, 5), (1, 1)).error.tolist() == [1, 1]
    assert of_counts((3, 5)).error.tolist() == [0.6]


def test_shrinkage_finds_the_errors_that_groups_have():
    rng = np.random.default_rng(0)
    better = []
    for _ in range(50):
        true = rng.beta(2, 6, size=30)
        counts = rng.integers(1, 30, size=30)
        s = of_counts(*zip(rng.binomial(counts, true), counts, strict=True))
        worse, own = (np.mean((error - true) ** 2) for error in (s.observed_error, s.error))
        better.append(own / worse)
    assert np.mean(better) < 0.6


def test_smoothing_adds_imaginary_examples_with_the_pooled_error():
    groups, errors = np.array([0, 0, 0, 1]), np.array([1.0, 0.0, 0.0, 1.0])
    s = group_statistics(groups, groups, errors, smoothing=2)
    np.testing.assert_allclose(s.error, [(1 + 2 * 0.5) / 5, (1 + 2 * 0.5) / 3])


def test_a_model_without_errors_regularizes_nothing_and_says_so():
    s = group_statistics(np.array([0, 1]), np.array([0, 1]), np.zeros(2))
    with pytest.warns(UserWarning, match="every tau is 0"):
        assert scale_to_maximum(s.tau, 0.1).tolist() == [0, 0]


def test_only_ratios_of_tau_matter():
    tau = np.array([1e-300, 3e-300])
    np.testing.assert_allclose(scale_to_maximum(tau, 0.1), [0.1 / 3, 0.1])


ONE = np.array([0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: group_statistics(np.array([0.5]), ONE, ONE), r"shape \[n\]; got float64"),
        (lambda: group_statistics(np.array([True]), ONE, ONE), "got bool"),
        (lambda: group_statistics(ONE, ONE, np.array([0, 1])), "2 validation errors for 1 groups"),
        (lambda: group_statistics(ONE, ONE[:0], ONE[:0]), "no validation examples"),
        (lambda: group_statistics(ONE, ONE, np.array([1.5])), "error 1.5 of example 0 is not in"),
        (lambda: group_statistics(ONE, ONE, np.array([np.nan])), "error nan of example 0"),
        (lambda: group_statistics(ONE, ONE, ONE, smoothing=-1), "smoothing=-1 must be finite"),
        (lambda: group_statistics(ONE, ONE + 4, ONE, ids=ONE), r"groups \[4\] occur"),
        (lambda: scale_to_maximum(np.array([1.0, -1.0]), 0.1), "tau must be finite and not neg"),
        (lambda: scale_to_maximum(np.ones((2, 2)), 0.1), r"shape \[n\]; got \[2, 2\]"),
        (lambda: group_statistics(ONE, ONE, ONE, smoothing=np.inf), "smoothing=inf must be finite"),
        (lambda: group_statistics(ONE, np.array([2**63], np.uint64), ONE), "must fit into int64"),
        (
            lambda: group_statistics(ONE, ONE, ONE).per_example(np.ones(2), ONE),
            r"\(2,\) values are not one for each of 1 groups",
        ),
        (lambda: scale_to_maximum(np.array([1.0]), np.inf), "strength inf must be finite"),
        (
            lambda: group_statistics(ONE, ONE, ONE).per_example(np.ones(1), np.array([0, 5])),
            "example 1 is of group 5, which has no statistics",
        ),
    ],
)  # fmt: skip
def test_errors_name_the_value(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_integers_of_any_width_keep_their_value():
    groups = np.array([0, 299, 299], np.uint16)
    assert group_statistics(groups, groups, np.ones(3)).groups.tolist() == [0, 299]


def test_ablations_keep_the_mean_strength():
    strength = np.repeat([0.1, 0.02, 0.05], (100, 800, 300))
    inverse = inverse_strength(strength)
    assert inverse.mean() == pytest.approx(strength.mean())
    np.testing.assert_allclose(inverse * strength, inverse[0] * strength[0])
    drawn = random_strength(np.tile(strength, 100), seed=0)
    assert drawn.mean() == pytest.approx(strength.mean(), rel=0.01)
    assert 0 <= drawn.min() < 0.01 * strength.mean()
    assert 1.99 * strength.mean() < drawn.max() <= 2 * strength.mean()
    np.testing.assert_array_equal(drawn, random_strength(np.tile(strength, 100), seed=0))
    with pytest.raises(ValueError, match="needs it to be positive, and 1 of 2 are not"):
        inverse_strength(np.array([0.0, 1.0]))


def test_strengths_of_the_methods_that_a_config_can_name():
    labels = np.array([0, 0, 0, 1])
    statistics = group_statistics(labels, np.array([0, 0, 1]), np.array([0, 1, 1]))
    regularizer = {"strength": 0.2, "uniform_strength": 0.03}
    tau = statistics.per_example(statistics.tau, labels)
    setting = Setting(labels, labels, probabilities=None, seed=0, tau=tau)
    strengths = {
        name: entry.strength and make(entry.strength, setting, chosen=regularizer)
        for name, entry in METHODS.items()
    }
    plain = [name for name, entry in METHODS.items() if entry.section != "regularizer"]
    for name in plain:
        assert strengths.pop(name) is None
    assert strengths.pop("uniform").tolist() == [0.03] * 4
    adaptive = strengths.pop("har")
    assert adaptive[3] == 0.2
    np.testing.assert_allclose(adaptive[:3], 0.2 * statistics.tau[0] / statistics.tau[1])
    assert strengths.pop("har_inverse").mean() == pytest.approx(adaptive.mean())
    assert np.all(strengths.pop("har_random") < 2 * adaptive.mean())
    assert not strengths


def test_public_names():
    assert set(har_jax.__all__) <= set(dir(har_jax))
