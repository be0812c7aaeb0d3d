"""Protocols do what they say, from the clean labels, and depend on the seed alone."""

import contextlib
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from har_jax import data
from har_jax.data.classes import class_ids
from har_jax.data.corruption import Asymmetric, Exponential, Groups, Step, Symmetric
from har_jax.data.examples import DataError, check_labels
from har_jax.data.images import crop_and_flip, normalizer, random_flip, random_shift
from har_jax.data.labels import warn_of_near_names
from har_jax.data.sources import digits

DIGITS = digits()
NOISE = Groups(groups=((3, 8), (4, 9)), rate=0.4)
IMBALANCE = Step(classes=(3, 4, 8, 9), ratio=4.0)


def random_labels(size=5000, classes=10, seed=0):
    return np.random.default_rng(seed).integers(0, classes, size).astype(np.int32)


def test_exchange_flips_each_class_at_the_rate_once():
    clean = random_labels()
    noisy = data.exchange_within_groups(clean, ((3, 8), (4, 9)), 0.4, seed=1)
    for label, other in ((3, 8), (8, 3), (4, 9), (9, 4)):
        members = clean == label
        assert np.sum(noisy[members] == other) == round(0.4 * np.sum(members))
        assert set(noisy[members].tolist()) == {label, other}
    untouched = ~np.isin(clean, (3, 4, 8, 9))
    np.testing.assert_array_equal(noisy[untouched], clean[untouched])
    np.testing.assert_array_equal(
        noisy, data.exchange_within_groups(clean, ((3, 8), (4, 9)), 0.4, seed=1)
    )
    assert np.any(noisy != data.exchange_within_groups(clean, ((3, 8), (4, 9)), 0.4, seed=2))


@pytest.mark.parametrize("rate", [0.2, 0.5, 1.0])
def test_symmetric_noise_mislabels_the_rate_of_each_class_and_spreads_it_evenly(rate):
    clean = np.repeat(np.arange(10, dtype=np.int32), 5000)
    noisy = data.exchange_within_groups(clean, (range(10),), rate, seed=0)
    assert noisy.dtype == clean.dtype
    moved = np.zeros((10, 10))
    np.add.at(moved, (clean, noisy), 1 / 5000)
    np.testing.assert_allclose(np.diag(moved), 1 - rate, atol=1e-9)
    elsewhere = moved[~np.eye(10, dtype=bool)]
    np.testing.assert_allclose(elsewhere, rate / 9, atol=5 * (rate / 9 / 5000) ** 0.5)


def test_noise_stays_within_superclasses():
    clean = np.repeat(np.arange(100, dtype=np.int32), 500)
    groups = ((8, 13, 48, 58, 90), (41, 69, 81, 85, 89))
    noisy = data.exchange_within_groups(clean, groups, 0.4, seed=0)
    for group in groups:
        for label in group:
            there = np.bincount(noisy[clean == label], minlength=100)
            assert there[label] == 300
            assert there[list(group)].sum() == 500
            assert np.all(np.abs(there[[k for k in group if k != label]] - 50) < 35)
    np.testing.assert_array_equal(noisy[~np.isin(clean, groups)], clean[~np.isin(clean, groups)])


def test_exchange_refuses_a_class_in_two_pairs_and_a_rate_that_is_none():
    with pytest.raises(ValueError, match="name a class twice"):
        data.exchange_within_groups(random_labels(), ((3, 8), (8, 9)), 0.4, seed=0)
    with pytest.raises(ValueError, match="must have two classes or more each"):
        data.exchange_within_groups(random_labels(), ((3,),), 0.4, seed=0)
    with pytest.raises(ValueError, match=r"noise rate 1\.1 must be in"):
        data.exchange_within_groups(random_labels(), ((3, 8),), 1.1, seed=0)


def test_flips_go_from_one_class_to_another_at_a_rate_each():
    clean = np.repeat(np.arange(4), 200)
    flips = ((0, 1, 0.05), (1, 0, 0.4), (2, 3, 0.25), (2, 0, 0.75))
    noisy = data.flip_classes(clean, flips, seed=1)
    moved = np.array([[np.sum((clean == a) & (noisy == b)) for b in range(4)] for a in range(4)])
    expected = [[190, 10, 0, 0], [80, 120, 0, 0], [150, 0, 0, 50], [0, 0, 0, 200]]
    np.testing.assert_array_equal(moved, expected)
    np.testing.assert_array_equal(noisy, data.flip_classes(clean, flips, seed=1))
    assert np.any(noisy != data.flip_classes(clean, flips, seed=2))


@pytest.mark.parametrize("flips", [((0, 0, 0.5),), ((0, 1, -0.1),), ((0, 1, 0.6), (0, 2, 0.6))])
def test_flips_that_are_none(flips):
    with pytest.raises(ValueError, match="class 0 cannot be flipped to"):
        data.flip_classes(np.array([0, 1, 2]), flips, seed=0)


def test_flips_of_one_class_by_name_and_by_id_add_up():
    flips = Asymmetric((("3", "8", 0.6), (3, 9, 0.6)))
    with pytest.raises(data.DataError, match=r"config\.data\.noise\.flips=.*class 3 cannot be"):
        data.load(DIGITS, flips, None, 0)


def test_step_imbalance_keeps_the_ratio():
    labels = random_labels()
    kept = data.step_imbalance(labels, rare=(0, 9), ratio=10, seed=0)
    counts = np.bincount(labels[kept])
    largest = np.bincount(labels)[1:9].max()
    assert counts[[0, 9]].tolist() == [round(largest / 10)] * 2
    np.testing.assert_array_equal(counts[1:9], np.bincount(labels)[1:9])
    assert np.all(np.diff(kept) > 0)


def test_step_imbalance_keeps_one_example_at_least():
    labels = np.array([0] * 20 + [1] * 3, np.int32)
    assert np.bincount(labels[data.step_imbalance(labels, (1,), 1000, seed=0)]).tolist() == [20, 1]
    assert len(data.step_imbalance(labels, (1,), 1, seed=0)) == 23
    with pytest.raises(ValueError, match="leave no class that is frequent"):
        data.step_imbalance(labels, (0, 1), 4, seed=0)
    with pytest.raises(ValueError, match=r"ratio 0\.5 must be at least 1"):
        data.step_imbalance(labels, (1,), 0.5, seed=0)


@pytest.mark.parametrize(
    ("classes", "ratio", "total"),
    # The sizes of the long-tailed CIFAR of Cui et al. 2019 and Cao et al. 2019.
    [(10, 100, 12406), (10, 10, 20431), (100, 100, 10847), (100, 10, 19573)],
)
def test_a_long_tail_falls_exponentially(classes, ratio, total):
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(classes), 50000 // classes))
    kept = data.exponential_imbalance(labels, classes, ratio, seed=0)
    counts = np.bincount(labels[kept])
    shares = 50000 / classes * ratio ** (-np.arange(classes) / (classes - 1))
    assert np.all((shares - counts > -1e-6) & (shares - counts < 1))
    assert len(kept) == total
    assert np.all(np.diff(kept) > 0)


@pytest.mark.parametrize("first_size", [1, 250, 499])
def test_split_is_stratified_exact_and_disjoint(first_size):
    labels = np.repeat(np.arange(4), (5, 95, 150, 250))
    one_sided = first_size != 250
    with (
        pytest.warns(UserWarning, match="in one part of the split")
        if one_sided
        else contextlib.nullcontext()
    ):
        first, second = data.stratified_split(labels, first_size, seed=3)
    assert len(first) == first_size
    np.testing.assert_array_equal(np.sort(np.concatenate([first, second])), np.arange(500))
    shares = np.bincount(labels) * first_size / 500
    assert np.all(np.abs(np.bincount(labels[first], minlength=4) - shares) < 1)


def test_a_class_of_one_example_is_split_with_a_warning():
    with pytest.warns(UserWarning, match=r"classes \[7\] are in one part of the split only"):
        first, second = data.stratified_split(np.array([1, 1, 1, 1, 7]), 2, seed=0)
    assert not set(first.tolist()) & set(second.tolist())
    with pytest.raises(DataError, match="cannot have 5 in its first part"):
        data.stratified_split(np.zeros(5, int), 5, seed=0)


def test_an_epoch_of_batches_holds_every_example_once():
    batches = data.Batches(size=10, batch_size=4, seed=0)
    stream = np.concatenate([batches(step) for step in range(5)])
    assert sorted(stream[:10].tolist()) == sorted(stream[10:].tolist()) == list(range(10))
    assert stream[:10].tolist() != stream[10:].tolist()
    np.testing.assert_array_equal(data.Batches(10, 4, seed=0)(3), batches(3))
    large = data.Batches(size=3, batch_size=7, seed=0)
    assert [len(large(step)) for step in range(3)] == [7, 7, 7]


def test_digits_protocol():
    sets = [data.load(DIGITS, NOISE, IMBALANCE, seed) for seed in (0, 0, 1)]
    one, again, other = sets
    np.testing.assert_array_equal(one.train.labels, again.train.labels)
    np.testing.assert_array_equal(one.train.inputs, again.train.inputs)
    assert not np.array_equal(one.test.labels, other.test.labels)
    for each in sets:
        summary = each.summary()
        counts = np.array(summary["train_count"])
        assert len(each.test) == 600
        assert np.all(counts[[3, 4, 8, 9]] == round(counts.max() / 4))
        mislabelled = np.array(summary["mislabelled_count"])
        assert np.all(mislabelled[[0, 1, 2, 5, 6, 7]] == 0)
        assert abs(mislabelled.sum() / counts[[3, 4, 8, 9]].sum() - 0.4) < 0.15
        assert each.train.inputs.min() == 0
        assert each.train.inputs.max() == 1


def test_test_labels_and_images_are_untouched():
    noisy = data.load(DIGITS, NOISE, IMBALANCE, seed=0)
    plain = data.load(DIGITS, None, None, seed=0)
    np.testing.assert_array_equal(noisy.test.labels, plain.test.labels)
    np.testing.assert_array_equal(noisy.test.inputs, plain.test.inputs)
    assert len(plain.train) == 1197
    assert not plain.flipped.any()


def test_a_validation_part_comes_out_of_the_training_set():
    whole = data.load(DIGITS, NOISE, IMBALANCE, seed=0)
    part = data.load(DIGITS, NOISE, IMBALANCE, seed=0, validation_fraction=0.25)
    assert len(part.train) + len(part.test) == len(whole.train)
    images = lambda examples: {image.tobytes() for image in examples.inputs}
    assert not images(part.test) & images(whole.test)
    assert images(part.train) | images(part.test) == images(whole.train)


def test_the_reference_is_the_most_frequent_class_that_stays():
    labels = np.repeat(np.arange(3), (400, 100, 100)).astype(np.int32)
    kept = data.step_imbalance(labels, rare=(0, 1), ratio=4, seed=0)
    assert np.bincount(labels[kept]).tolist() == [25, 25, 100]


def test_classes_go_by_id_or_by_name():
    noise = Groups(groups=(("3", 8), ("4", "9")), rate=0.4)
    named = data.load(DIGITS, noise, Step(classes=("3", "4", 8, 9), ratio=4.0), seed=0)
    numbered = data.load(DIGITS, NOISE, IMBALANCE, seed=0)
    np.testing.assert_array_equal(named.train.labels, numbered.train.labels)
    assert named.rare_classes == (3, 4, 8, 9)


@pytest.mark.parametrize(
    ("noise", "imbalance", "message"),
    [
        ({"groups": ((3, 12),)}, {}, r"noise\.groups names class 12, which is none of the 10"),
        ({"groups": (("3", "ten"),)}, {}, r"names class 'ten', .* of digits: they are 0 '0', 1"),
        ({"groups": ((3, "3"),)}, {}, r"names class 3 \('3'\) twice"),
        ({}, {"classes": (-1,)}, r"imbalance\.classes names class -1, which is none"),
        ({}, {"classes": tuple(range(10))}, r"names all 10 classes of digits: leave some"),
    ],
)
def test_classes_that_do_not_exist_are_refused(noise, imbalance, message):
    noise = dataclasses.replace(NOISE, **noise)
    imbalance = dataclasses.replace(IMBALANCE, **imbalance)
    with pytest.raises(DataError, match=message):
        data.load(DIGITS, noise, imbalance, seed=0)


def test_a_part_of_the_training_set_keeps_the_classes_shares():
    part = data.load(DIGITS, None, None, seed=0, train_size=500)
    whole = data.load(DIGITS, None, None, seed=0)
    counts, all_counts = (np.array(each.summary()["train_count"]) for each in (part, whole))
    assert np.all(np.abs(counts - all_counts * 500 / len(whole.train)) < 1)
    np.testing.assert_array_equal(part.test.inputs, whole.test.inputs)
    with pytest.raises(DataError, match="train_size=1198 is more than the 1197"):
        data.load(DIGITS, None, None, seed=0, train_size=1198)


def test_too_little_data_for_what_is_asked_is_one_error():
    with (
        pytest.raises(DataError, match=r"digits, \d training examples: .* leave no class"),
        pytest.warns(UserWarning, match="in one part of the split"),
    ):
        data.load(DIGITS, None, IMBALANCE, 0, train_size=1)
    with pytest.raises(DataError, match="validation_fraction=1e-09 of 1197 training examples"):
        data.load(DIGITS, None, None, 0, validation_fraction=1e-9)


def test_realized_flip_rates_are_told():
    symmetric = data.load(DIGITS, Symmetric(rate=0.2), None, seed=0)
    summary = symmetric.summary()
    np.testing.assert_allclose(summary["flip_rate"], 0.2, atol=0.005)
    assert symmetric.noisy_classes == tuple(range(10))
    tail = data.load(DIGITS, None, Exponential(ratio=10), seed=0)
    assert tail.rare_classes == (5, 6, 7, 8, 9)
    counts = tail.summary()["train_count"]
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.1)


def test_labels_are_checked_when_loaded():
    with pytest.raises(DataError, match=r"train: label 3 of example 1 is not one of the 3 classes"):
        check_labels(np.array([0, 3]), 3, "train")
    with pytest.raises(DataError, match=r"got float64"):
        check_labels(np.array([0.0]), 3, "train")
    with pytest.raises(DataError, match=r"label -1 .* classes 0 to 2, and often stands for no lab"):
        check_labels(np.array([-1]), 3, "test")
    examples = lambda inputs, labels: data.Examples(np.zeros((inputs, 3)), np.zeros(labels, int))
    with pytest.raises(DataError, match="train: 2 inputs for 1 labels"):
        data.Dataset(examples(2, 1), examples(1, 1), ("a", "b"))
    with pytest.raises(DataError, match="test: there are no examples"):
        data.Dataset(examples(1, 1), examples(0, 0), ("a", "b"))
    with pytest.raises(DataError, match="the classes are a: two are needed at least"):
        data.Dataset(examples(1, 1), examples(1, 1), ("a",))


def test_shifts_move_images_by_up_to_the_margin():
    images = jnp.arange(1.0, 17).reshape(1, 4, 4, 1).repeat(200, axis=0)
    shift = lambda key, image: random_shift(key, image, pixels=1)
    keys = jax.random.split(jax.random.key(0), len(images))
    shifted = np.asarray(jax.vmap(shift)(keys, images))
    seen = {image.tobytes() for image in shifted}
    padded = np.pad(np.asarray(images[0]), ((1, 1), (1, 1), (0, 0)))
    possible = {padded[i : i + 4, j : j + 4].tobytes() for i in range(3) for j in range(3)}
    assert seen == possible


def test_crops_pad_with_zeros_by_four_and_half_the_images_are_mirrored():
    rng = np.random.default_rng(0)
    image = rng.integers(1, 255, (8, 8, 3), np.uint8)
    images = jnp.asarray(np.repeat(image[np.newaxis], 4000, axis=0))
    keys = jax.random.split(jax.random.key(0), len(images))
    augmented = jax.vmap(crop_and_flip)(keys, images)
    assert augmented.dtype == jnp.uint8
    padded = np.pad(image, ((4, 4), (4, 4), (0, 0)))
    crops = [padded[i : i + 8, j : j + 8] for i in range(9) for j in range(9)]
    mirrored = {crop[:, ::-1].tobytes() for crop in crops}
    seen = [each.tobytes() for each in np.asarray(augmented)]
    assert set(seen) == mirrored | {crop.tobytes() for crop in crops}
    share = np.mean([each in mirrored for each in seen])
    assert abs(share - 0.5) < 0.04
    flipped = np.asarray(jax.vmap(random_flip)(keys[:8], images[:8]))
    assert {each.tobytes() for each in flipped} <= {image.tobytes(), image[:, ::-1].tobytes()}


def test_normalization_scales_integers_and_leaves_floats():
    images = jnp.array([0, 51, 255], jnp.uint8).reshape(1, 1, 1, 3)
    np.testing.assert_allclose(normalizer(None, None)(images).ravel(), [0, 0.2, 1])
    normalized = normalizer((0.5, 0.2, 0.0), (0.5, 1.0, 2.0))(images)
    np.testing.assert_allclose(normalized.ravel(), [-1, 0, 0.5], atol=1e-7)
    floats = jnp.array([[3.0]])
    assert normalizer(None, None)(floats) is floats


@pytest.mark.parametrize(
    ("names", "alike"),
    [
        (("pos", "Pos", "neg", "POS"), "'pos' and 'Pos' and 'POS'"),
        (("0", "1", "0.0"), "'0' and '0.0'"),
        (("C0", "c0"), "'C0' and 'c0'"),
        (("a b", "a  b", "c"), "'a b' and 'a  b'"),
        (("caf\u00e9", "cafe\u0301"), "'caf\u00e9' and 'cafe\u0301'"),
        (("01", "1", "+1"), r"'01' and '1' and '\+1'"),
        (("hot dog", "hot_dog", "hotdog"), "'hot dog' and 'hot_dog' and 'hotdog'"),
        (("a", "a\u200b"), r"'a' and 'a\\u200b'"),
    ],
)
def test_names_that_are_nearly_the_same_are_told_of(names, alike):
    with pytest.warns(UserWarning, match=f"nearly the same: {alike}: if they are one"):
        warn_of_near_names(names, "classes")
    different = ("0", "00a", "10", "-1", "1", "1.5", "a", "ab", "a_1", "a1", "ss", "\u00f1")
    warn_of_near_names(different, "classes")


def test_a_number_that_is_an_id_and_another_name_is_refused():
    names = ("1", "10", "2")
    of = functools.partial(class_ids, class_names=names, key="data.noise.groups", source="folder")
    with pytest.raises(DataError, match=r"1, which is the id of class '10' .* write '1' or '10',"):
        of((1, 2))
    assert of(("1", "2")) == (0, 2)
    assert of((2,)) == (2,)
    assert class_ids((3, 8), tuple("0123456789"), key="k", source="digits") == (3, 8)


def test_inputs_that_are_not_finite_are_named():
    inputs = np.zeros((4, 2), np.float32)
    inputs[2, 1] = np.inf
    good = data.Examples(np.zeros((2, 2), np.float32), np.array([0, 1], np.int32))
    bad = data.Examples(inputs, np.array([0, 1, 0, 1], np.int32))
    with pytest.raises(DataError, match=r"test: the inputs of 1 examples are not .* example 2: le"):
        data.Dataset(good, bad, ("a", "b"))
