"""Groups are kept whole where one asks for it, in every split, and told of where they are torn."""

import numpy as np
import pytest

from har_jax import config as har_config
from har_jax.data import load, sources, stratified_folds, stratified_split
from har_jax.data.apart import Parts
from har_jax.data.examples import DataError
from har_jax.data.hold_out import HoldOut
from har_jax.experiment.algorithm import Experiment
from har_jax.experiment.pretraining import held_out_of


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [0.1, 0.2, 0.3, 0.5, 0.75])
def test_groups_come_whole_into_one_of_two_parts(seed, share):
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.repeat(np.arange(60), 4))
    labels = (groups % 3).astype(np.int32)
    first, second = stratified_split(labels, round((1 - share) * 240), seed, groups)
    assert sorted([*first, *second]) == list(range(240))
    assert not set(groups[first]) & set(groups[second])
    np.testing.assert_allclose(len(second) / 240, share, atol=0.05)
    shares = np.bincount(labels[second], minlength=3) / len(second)
    np.testing.assert_allclose(shares, 1 / 3, atol=0.12)
    again = stratified_split(labels, round((1 - share) * 240), seed, groups)
    np.testing.assert_array_equal(first, again[0])
    other = stratified_split(labels, round((1 - share) * 240), seed + 100, groups)
    assert first.tolist() != other[0].tolist()


def test_folds_keep_groups_whole():
    groups = np.repeat(np.arange(30), 4)
    labels = groups % 2
    folds = stratified_folds(labels, 5, 0, groups)
    assert sorted(np.concatenate(folds)) == list(range(120))
    assert sum(len(set(groups[fold])) for fold in folds) == 30
    with pytest.raises(DataError, match="3 groups that are kept whole do not make 5 parts"):
        stratified_folds(np.arange(60) % 2, 5, 0, np.repeat(np.arange(3), 20))


def test_too_few_groups_are_an_error():
    with pytest.raises(DataError, match="1 groups and 9 examples are too few for two parts"):
        stratified_split(np.zeros(9, int), 5, 0, np.zeros(9, int))
    labels = np.repeat([0, 1], 10)
    with pytest.warns(UserWarning, match=r"classes \[0, 1\] are in one part of the split only"):
        first, second = stratified_split(labels, 10, 0, labels)
    assert len(set(labels[first])) == len(set(labels[second])) == 1


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Of thirty patients with four texts each."""
    path = tmp_path_factory.mktemp("groups") / "t.csv"
    rows = [f"w{n} common,{'ab'[n // 4 % 2]},patient {n // 4}" for n in range(120)]
    path.write_text("\n".join(("text,label,group", *rows)))
    return path


def config_of(table, **options):
    config = har_config.base()
    config.data.source, config.data.table, config.data.length = "csv", str(table), 4
    config.model.name, config.model.widths = "bilstm", (4,)
    config.regularizer.layers = "embeddings_and_recurrent"
    config.update_from_flattened_dict(options)
    har_config.validate(config)
    return config


@pytest.mark.parametrize("folds", [None, 3])
def test_no_group_of_a_table_is_in_two_parts(table, folds):
    config = config_of(table, **{"data.keep_groups_whole": True, "pretrain.folds": folds})
    data = load(
        sources.table(table=table, hold_out=HoldOut(parts=Parts(True))),
        None,
        None,
        0,
        validation_fraction=0.25,
        keep_groups_whole=True,
    )
    assert not set(data.train.groups) & set(data.test.groups)
    assert len(set(data.test.groups)) == 6  # a quarter of the four fifths that are not tested on
    for part in held_out_of(config, data.train):
        rest = np.delete(data.train.groups, part)
        assert not set(data.train.groups[part]) & set(rest)


@pytest.mark.parametrize("whole", [None, False, True])
def test_torn_groups_are_told_of_once(table, tmp_path, whole, recwarn, monkeypatch):
    config = config_of(table, **{"data.keep_groups_whole": whole})
    monkeypatch.setattr(Experiment, "_run_entry", lambda self, entry: None)
    if whole is not None:
        Experiment(config, tmp_path).run()
    else:
        message = (
            r"^(1\d|2\d) of \1 groups are trained on and tested on and (1\d|2\d|30) of 30 groups "
            "are in several parts of what the noise is estimated from: .*keep_groups_whole=True"
        )
        with pytest.warns(UserWarning, match=message):
            Experiment(config, tmp_path).run()
    assert not [w for w in recwarn if "groups" in str(w.message)]


def test_groups_that_a_table_tears_are_refused(tmp_path):
    rows = [f"w{n},{'ab'[n % 2]},g{n % 5},{('train', 'test')[n // 15]}" for n in range(20)]
    (tmp_path / "t.csv").write_text("\n".join(("text,label,group,split", *rows)))
    opened = lambda: sources.table(table=tmp_path / "t.csv")
    with pytest.raises(DataError, match="5 groups are in train and in test, as the source splits"):
        load(opened(), None, None, 0, keep_groups_whole=True)
    (tmp_path / "t.csv").write_text("text,label\n" + "\n".join(f"w{n},{n % 2}" for n in range(20)))
    with pytest.raises(DataError, match="there are no groups: name them in a column group"):
        load(opened(), None, None, 0, keep_groups_whole=True)
