"""The answer of a report: the numbers against brute force, and what is said of them."""

import dataclasses
import itertools

import numpy as np
import pytest
from scipy import stats

from har_jax.report.answer import answer_of, gains, sentence
from har_jax.report.paired import EXAMPLES, SEEDS, Difference, over_examples, over_seeds
from har_jax.report.results import summarize
from tests.test_report import many


def examples(pairs, group=0):
    """``(before, after, groups)`` of so many test examples of each pair of right and wrong."""
    before, after = np.repeat(np.array(list(pairs), bool), list(pairs.values()), axis=0).T
    return before, after, np.full(len(before), group)


def test_of_one_group_it_is_mcnemars_error_with_one_more_example_that_differs():
    before, after, groups = examples({(0, 0): 3, (1, 1): 80, (0, 1): 12, (1, 0): 5})
    found = over_examples(before, after, groups, [0])
    assert found.mean == pytest.approx(7 / 100)
    assert found.standard_error == pytest.approx(np.sqrt(17 + 1) / 100)
    assert (found.high - found.low) / 2 == pytest.approx(1.959964 * found.standard_error)
    assert (found.over, found.n) == (EXAMPLES, 100)


def test_groups_count_alike_whatever_their_size_and_order():
    seed = 3
    rng = np.random.default_rng(seed)
    groups = rng.choice(4, 300, p=[0.7, 0.2, 0.05, 0.05])
    before, after = rng.random(300) < 0.6, rng.random(300) < 0.8
    found = over_examples(before, after, groups, [0, 1, 3, 9])  # 9 has no examples
    of = lambda right: np.mean([np.mean(right[groups == group]) for group in (0, 1, 3)])
    assert found.mean == pytest.approx(of(after) - of(before)), seed
    order = rng.permutation(300)
    again = over_examples(before[order], after[order], groups[order], [3, 0, 1])
    np.testing.assert_allclose(again[:4], found[:4], err_msg=str(seed))
    reverse = over_examples(after, before, groups, [0, 1, 3])
    np.testing.assert_allclose(
        [-reverse.mean, -reverse.high, -reverse.low], [found.mean, found.low, found.high]
    )


@pytest.mark.parametrize("sizes", [(200,), (60, 25), (5,) * 40, (1,) * 100])
def test_where_there_is_no_difference_one_shows_in_no_more_than_five_of_a_hundred(sizes):
    seed = 0
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    shows = 0
    for _ in range(1000):
        right = rng.random((2, len(groups))) < rng.uniform(0.85, 0.97)
        shows += over_examples(*right, groups, range(len(sizes))).shows
    assert shows <= 70, seed  # five of a hundred, and three standard errors


@pytest.mark.parametrize(("gained", "shows"), [(0, False), (4, False), (6, True)])
def test_a_few_examples_are_not_enough(gained, shows):
    """Six that differ, all one way, are one of 32 by chance; four are one of eight."""
    found = over_examples(*examples({(1, 1): 50, (0, 1): gained}), [0])
    assert found.shows == shows
    assert found.low < found.high
    assert stats.binomtest(gained, max(gained, 1)).pvalue < 0.05 or not shows


def test_over_seeds_it_is_students_interval_of_pairs():
    before, after = [0.80, 0.82, 0.79], [0.84, 0.85, 0.86]
    found = over_seeds(before, after)
    expected = stats.ttest_rel(after, before).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert (found.over, found.n) == (SEEDS, 3)
    assert over_seeds([], []) is None
    alone = over_seeds([0.5], [0.75])
    assert (alone.mean, alone.low, alone.shows) == (0.25, None, False)


def difference(mean, reach, over=EXAMPLES, count=200):
    return Difference(mean, reach / 2, mean - reach, mean + reach, over, count)


NOTHING = {"all": difference(0.003, 0.013), "noisy": difference(0.02, 0.04)}
MUCH = {
    "all": difference(0.042, 0.021),
    "noisy": difference(0.08, 0.038),
    "rare": difference(-0.03, 0.01),
    "clean": difference(0.004, 0.012),
}


def test_no_difference_that_shows():
    assert sentence("erm", "har", NOTHING) == (
        "No difference between har and erm shows: it is +0.3 points of accuracy on average over "
        "all groups (95% interval -1.0 to +1.6 over the test examples of one seed)."
    )


def test_nothing_to_be_gained():
    assert sentence("erm", "har", NOTHING, is_needed=False) == (
        "Nothing was to be gained by adapting, since the groups' noise and frequency differ by no "
        "more than chance, and no difference between har and erm shows: it is +0.3 points of "
        "accuracy on average over all groups (95% interval -1.0 to +1.6 over the test examples of "
        "one seed)."
    )


def test_what_was_gained_and_lost_and_where_nothing_shows():
    assert sentence("erm", "har", MUCH, is_needed=True) == (
        "har gained 4.2 points of accuracy over erm on average over all groups (95% interval +2.1 "
        "to +6.3 over the test examples of one seed), 8.0 on noisy groups (95% interval +4.2 to "
        "+11.8) and lost 3.0 on rare groups (95% interval -4.0 to -2.0); no difference shows on "
        "clean groups (+0.4 points)."
    )
    lost = {"all": difference(-0.02, 0.01, SEEDS, 5)}
    assert sentence("erm", "har", lost) == (
        "har lost 2.0 points of accuracy against erm on average over all groups (95% interval "
        "-3.0 to -1.0 over 5 seeds)."
    )


def test_where_there_is_nothing_to_compare():
    assert sentence("erm", "erm", {}) == (
        "One method was trained, erm: there is nothing to compare it with."
    )
    assert "no test examples" in sentence("erm", "har", {})
    alone = {"all": Difference(0.1, None, None, None, SEEDS, 1)}
    assert sentence("erm", "har", alone) == (
        "har gained 10.0 points of accuracy over erm on average over all groups, at one seed, "
        "which does not say how sure that is."
    )


def test_every_combination_is_one_sentence():
    kinds = (difference(0.1, 0.05), difference(-0.1, 0.05), difference(0.01, 0.05))
    for chosen in itertools.product(kinds, repeat=3):
        parts = dict(zip(("all", "noisy", "few-shot"), chosen, strict=True))
        told = sentence("erm", "har", parts)
        assert told.endswith(".")
        assert told.count(". ") == 0
        assert all(word in told for word in ("har", "erm", "95% interval"))
        assert ("No difference" in told) == (not any(found.shows for found in chosen))


def test_parts_of_the_same_groups_are_told_of_together():
    right = {"erm": np.array([True, False]), "har": np.array([True, True])}
    parts = {"all": (0, 1), "noisy": (1,), "rare": (1,), "clean": (0, 1)}
    found = gains(right, np.array([0, 1]), parts)["har"]
    assert list(found) == ["all", "noisy", "rare"]
    both = {
        "all": difference(0.04, 0.02),
        **dict.fromkeys(("noisy", "rare"), difference(0.1, 0.05)),
    }
    assert "10.0 on noisy and rare groups (" in sentence("erm", "har", both)
    shots = {"all": difference(0.04, 0.02), "few-shot": difference(0.1, 0.05)}
    assert "10.0 on few-shot classes (" in sentence("erm", "har", shots)


def test_a_report_begins_with_it():
    inputs = many(10, test=40)
    results = summarize(inputs)
    assert next(iter(results)) == "answer"
    assert results["answer"] == answer_of(results)
    found, means = results["gains"]["har"], results["means"]
    for part, gain in found.items():
        step = means["har"][part]["test_accuracy"] - means["erm"][part]["test_accuracy"]
        assert gain["mean"] == pytest.approx(step)
    held_out = dataclasses.replace(
        inputs, config={**inputs.config, "data.evaluate_on": "validation"}
    )
    assert "over the held-out training examples of one seed" in summarize(held_out)["answer"]


def test_what_one_method_could_not_read_counts_for_none():
    inputs = many(2)
    inputs.evaluations["har"]["test_prediction"][:3] = -1
    assert summarize(inputs)["gains"]["har"]["all"]["n"] == 7
