"""A config that cannot be run is refused with its key, its value and the remedy."""

import pathlib

import pytest
from ml_collections import config_dict

from har_jax import config as har_config
from har_jax.config import document, published, recipes
from har_jax.config import files as config_files
from har_jax.config.errors import unknown_key
from har_jax.config.files import load
from har_jax.config.schema import SECTIONS, options_of_entry
from har_jax.experiment.build import make_model
from har_jax.methods import METHODS

DIGITS = pathlib.Path(__file__).parent.parent / "configs" / "digits.py"


def digits():
    return load(DIGITS)


@pytest.mark.parametrize("path", sorted(DIGITS.parent.glob("*.py")), ids=lambda path: path.stem)
def test_every_config_file_is_valid(path):
    config = load(path)
    if path.stem in ("folder", "texts"):
        key = {"folder": "root", "texts": "table"}[path.stem]
        with pytest.raises(har_config.ConfigError, match=rf"config\.data\.{key} is not set"):
            har_config.validate(config)
        config.data[key] = "place"
    har_config.validate(config)


OF_NOISE = ("gce", "dmi", "co_teaching", "elr", "incv", "mentornet", "l2rw", "mw_net")
OF_IMBALANCE = ("focal", "cb_focal", "ldam", "bbn", "balanced_softmax", "logit_adjustment")


@pytest.mark.parametrize("classes", [10, 100])
@pytest.mark.parametrize("name", [*OF_NOISE, *OF_IMBALANCE])
def test_published_choices_are_valid_and_leave_the_data(name, classes):
    of_noise = name in OF_NOISE
    config, before = (
        recipes.heteroskedastic(classes) if of_noise else recipes.long_tailed(classes, 100)
        for _ in range(2)
    )
    choose = getattr(published, name)
    if classes == 100 and name in ("dmi", "incv", "l2rw"):
        with pytest.raises(har_config.ConfigError, match=r"no published choices: take one of tfds"):
            choose(config)
        return
    choose(config)
    har_config.validate(config)
    assert config.methods == (name,)
    of = lambda config, *parts: [config[part].to_dict() for part in parts]
    assert of(config.data, "noise", "imbalance") == of(before.data, "noise", "imbalance")
    assert of(config, "model") == of(before, "model")
    config.optimizer.warmup_epochs, config.optimizer.weight_decay_of = 5.0, "kernels"
    published.gce(config)  # whatever optimizer was there before
    published.gce(before)
    assert of(config, "optimizer") == of(before, "optimizer")


@pytest.mark.parametrize("name", OF_IMBALANCE)
def test_published_choices_are_of_cifar(name):
    with pytest.raises(har_config.ConfigError, match=r"source='digits' has no published choices"):
        getattr(published, name)(digits())


def test_a_warm_up_ends_before_training():
    config = digits()
    config.optimizer.warmup_epochs = 5.0
    har_config.validate(config)
    config.train.epochs = 4.0
    refusal = r"warmup_epochs=5 leaves nothing of config\.train\.epochs=4: take fewer, or"
    with pytest.raises(har_config.ConfigError, match=refusal):
        har_config.validate(config)
    config.train.epochs, config.pretrain.epochs = 6.0, 5.0
    with pytest.raises(har_config.ConfigError, match=r"nothing of config\.pretrain\.epochs=5"):
        har_config.validate(config)
    config.methods = ("erm",)  # for which nothing is pre-trained
    har_config.validate(config)
    config.train.epochs, config.optimizer.warmup_epochs = 5.0, 4.5  # which is over after 5
    config.optimizer.warmup_by, config.optimizer.warmup_from = "epoch", 0.2
    with pytest.raises(har_config.ConfigError, match=r"warmup_epochs=4\.5 leaves nothing of"):
        har_config.validate(config)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"warmup_from": 0.5}, "warmup_from=0.5 is not read without config.optimizer.warmup_epoch"),
        ({"warmup_by": "epoch"}, "warmup_by='epoch' is not read without config.optimizer.warmup"),
        (
            {"warmup_by": "epoch", "warmup_epochs": 2.0},
            "warmup_by='epoch' begins with an epoch at a learning rate of 0: set config.optimizer.",
        ),
    ],
)
def test_a_warm_up_that_says_nothing_or_learns_nothing_is_refused(changes, message):
    config = digits()
    config.optimizer.update(changes)
    with pytest.raises(har_config.ConfigError, match=message):
        har_config.validate(config)


def test_the_base_is_valid_and_so_is_adam():
    har_config.validate(har_config.base())
    adam = digits()
    adam.optimizer.name = "adam"
    har_config.validate(adam)
    adam.optimizer.late_b1 = (3, 0.1)
    har_config.validate(adam)
    adam.optimizer.late_b1 = (3, 1.0)
    with pytest.raises(har_config.ConfigError, match=r"late_b1=\(3, 1\.0\) must hold an epoch and"):
        har_config.validate(adam)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("seed", -1, r"config\.seed=-1 is impossible: it must not be negative"),
        ("methods", (), r"config\.methods is empty: name some of erm, uniform, har"),
        ("methods", ("erm", "hra"), r"config\.methods='hra' is unknown: take some of erm,"),
        ("methods", ("erm", "erm"), r"names a method twice"),
        (
            "data.source",
            "digit",
            r"data\.source='digit' is unknown: take digits, folder, csv, list, web",
        ),
        ("data.augment", "zoom", r"config\.data\.augment='zoom' is unknown"),
        ("data.noise.kind", "pair", r"config\.data\.noise\.kind='pair' is unknown"),
        ("data.source", "tfds:", r"data\.source='tfds:' is unknown"),
        ("data.train_size", 0, r"data\.train_size=0 is impossible: it must be positive"),
        ("data.std", (0.5, 0.0), r"config\.data\.std=\(0\.5, 0\.0\) must hold one number for each"),
        ("data.mean", ("a",), r"config\.data\.mean=\('a',\) must hold one number for each"),
        ("data.noise.kind", "none", r"config\.data\.noise\.(groups|rate)=.* is not read by"),
        (
            "data.image_size",
            224,
            r"image_size=224 is not read by config.data.source='digits'",
        ),
        ("data.augment", "resized_crop_and_flip", r"is of images in files, and .*'digits' has arr"),
        ("data.source", "folder", r"config\.data\.root is not set, but .*'folder' needs it"),
        ("data.source", "csv", r"config\.data\.table is not set, but .*'csv' needs it"),
        ("predictions", "xls", r"config\.predictions='xls' is unknown: take one of csv, parquet"),
        ("data.noise.rate", 1.5, r"config\.data\.noise\.rate=1\.5 is impossible: .* 0 and 1"),
        ("data.noise.rate", None, r"config\.data\.noise\.rate is not set, but .* needs it"),
        ("data.noise.groups", ((3, 8), (8, 9)), r"names a class twice"),
        ("data.noise.groups", (3, 8), r"must hold groups of two classes or more, such as"),
        ("data.imbalance.ratio", 0.5, r"ratio=0\.5 is impossible: it must be at least 1"),
        ("data.imbalance.classes", (), r"imbalance\.classes is empty"),
        ("data.noise.groups", (), r"must hold groups of two classes or more"),
        ("data.noise.groups", ((True, 3),), r"holds True: a class is an id or a name"),
        ("train.epochs", 1e308, r"epochs=1e\+308 is impossible"),
        ("batch_size", 10**400, r"is impossible: it must be between 1 and 1e6"),
        ("data.evaluate_on", "validation", r"validation_fraction is not set"),
        ("data.validation_fraction", 0.5, r"not read by config\.data\.evaluate_on='test'"),
        ("model.depth", 32, r"model\.depth=32 is not read by config\.model\.name='convnet'"),
        ("model.stem_strides", 2, r"stem_strides=2 is not read by config\.model\.name='convnet'"),
        ("model.dtype", "float16", r"model\.dtype='float16' is unknown: take one of float32, bf"),
        ("microbatches", 3, r"microbatches=3 is impossible: it must divide .*batch_size=64"),
        ("microbatches", 0, r"microbatches=0 is impossible"),
        ("model.widths", (0,), r"config\.model\.widths=\(0,\) must hold positive integers"),
        ("optimizer.learning_rate", 0.0, r"learning_rate=0\.0 is impossible: it must be positive"),
        ("optimizer.learning_rate", float("nan"), r"learning_rate=nan is impossible"),
        ("optimizer.decay_epochs", (1,), r"not read by config\.optimizer\.schedule='cosine'"),
        (
            "optimizer.schedule",
            "linear",
            r"optimizer\.decay_from is not set, but config\.optimizer",
        ),
        (
            "optimizer.late_b1",
            (1.0, 0.1),
            r"not read by config\.optimizer\.name='sgd', only by adam",
        ),
        ("optimizer.schedule", "step", r"decay_(epochs|factor) is not set"),
        ("pretrain.fraction", 1.0, r"pretrain\.fraction=1\.0 is impossible"),
        ("regularizer.layers", "norms", r"layers='norms' is unknown: take one of normalization,"),
        ("regularizer.reduction", "mean", r"reduction='mean' is unknown"),
        ("regularizer.strength", -0.1, r"strength=-0\.1 is impossible: .* 0 and 1e6"),
        ("reweighting.beta", 1.0, r"beta=1\.0 is impossible"),
        ("batch_size", 0, r"batch_size=0 is impossible: it must be between 1"),
        ("data.length", 64, r"data\.length=64 is not read by config\.data\.source='digits'"),
        (
            "model.name",
            "bilstm",
            r"layers='normalization' are none of .*: take embeddings_",
        ),
        ("model.embedding", 8, r"embedding=8 is not read by config\.model\.name='convnet'"),
        ("data.noise.flips", ((1, 2, 0.4),), r"flips=.* is not read by .*noise\.kind='groups'"),
        ("pretrain.folds", 1, r"folds=1 is impossible: it must be between 2 and 1000"),
        ("estimate.labels", "l.npy", r"probabilities is not set, but config\.estimate\.labels="),
        (
            "estimate.probabilities",
            "p.npy",
            r"estimate\.labels is not set, but config\.est",
        ),
    ],
)
def test_impossible_values(key, value, message):
    config = digits()
    config.update_from_flattened_dict({key: value})
    with pytest.raises(har_config.ConfigError, match=message):
        har_config.validate(config)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data.source": "digits"}, r"(vocabulary_size|length)=\d+ is not read by .*'digits'"),
        ({"data.source": "tfds:cifar10", "model.name": "convnet"}, r"(embedding|dropout)=.* not"),
        ({"regularizer.layers": "normalization"}, r"are none of config\.model\.name='bilstm'"),
        ({"data.mean": (0.5,)}, r"mean=\(0\.5,\) is not read with config\.model\.name='bilstm'"),
        ({"data.augment": "flip"}, r"augment='flip' is not read with config\.model\.name='bilstm'"),
        ({"model.norm": "batch"}, r"norm='batch' is not read by config\.model\.name='bilstm'"),
        ({"data.length": 0}, r"length=0 is impossible: it must be between 1 and 1e5 words"),
        ({"data.vocabulary_size": 2}, r"vocabulary_size=2 is impossible"),
        ({"model.dropout": 1.0}, r"dropout=1\.0 is impossible"),
        ({"data.noise.flips": ()}, r"must hold a class, another one and a rate each, such as"),
        ({"data.noise.flips": (("neg", 0.4),)}, r"must hold a class, another one and a rate each"),
        ({"data.noise.flips": ((0, 0, 0.4),)}, r"two different classes and a rate from 0 to 1"),
        ({"data.noise.flips": ((0, 1, 1.5),)}, r"two different classes and a rate from 0 to 1"),
        ({"data.noise.flips": ((0.0, 1, 0.5),)}, r"holds 0\.0: a class is an id or a name"),
        ({"data.noise.flips": ((0, 1, 0.7), (0, 2, 0.7))}, r"moves 1\.4 of class 0: at most 1"),
        (
            {"pretrain.folds": 3, "pretrain.fraction": 0.5},
            r"fraction=0\.5 is not read with .*fol",
        ),
        (
            {"pretrain.folds": 3, "estimate.probabilities": "p", "estimate.labels": "l"},
            r"folds=3 is not read with config\.estimate\.probabilities='p'",
        ),
    ],
)
def test_what_a_config_of_texts_and_estimates_cannot_say(changes, message):
    config = load(DIGITS.parent / "imdb.py")
    config.update_from_flattened_dict(changes)
    with pytest.raises(har_config.ConfigError, match=message):
        har_config.validate(config)


def test_resnet_depth_must_be_one_that_exists():
    config = digits()
    config.model.name = "cifar_resnet"
    config.model.depth = 30
    with pytest.raises(har_config.ConfigError, match="depth=30 is not 6n"):
        har_config.validate(config)


def test_networks_for_large_images():
    config = har_config.base()
    for name in ("imagenet_resnet", "inception_resnet_v2"):
        config.model.name = name
        har_config.validate(config)
        assert make_model(config.model, 7).num_classes == 7
    config.model.name, config.model.depth = "imagenet_resnet", 20
    with pytest.raises(har_config.ConfigError, match="depth=20 is none of 14, 26, 50, 101, 152"):
        har_config.validate(config)


def test_keys_that_a_config_adds_or_lacks():
    config = digits()
    with config.unlocked():
        config.data.noise.rat = 0.4
    with pytest.raises(har_config.ConfigError, match=r"did you mean config\.data\.noise\.rate\?"):
        har_config.validate(config)
    config = digits()
    with config.unlocked():
        del config.log_every
    with pytest.raises(har_config.ConfigError, match=r"config\.log_every is missing"):
        har_config.validate(config)
    with pytest.raises(har_config.ConfigError, match=r"is missing: start from har_jax\.config\.ba"):
        har_config.validate(config_dict.ConfigDict({"seed": 0}))


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("regularizer.strenght", "did you mean config.regularizer.strength?"),
        ("data.nois", "did you mean config.data.noise?"),
        ("regulariser.strength", "did you mean config.regularizer.strength?"),
        ("modle.widht", "did you mean config.model.widths?"),
        ("strength", "did you mean config.regularizer.strength?"),
        ("train.batch_size", "did you mean config.batch_size?"),
        ("train.fraction", "did you mean config.pretrain.fraction?"),
        ("optimizer.lr", "there are config.optimizer.b1, config.optimizer.decay_epochs, config."),
        ("lr", "there are config.batch_size, "),
        ("a.b", "there are config.batch_size, "),
    ],
)
def test_the_nearest_key_is_one_of_the_section(key, remedy):
    message = str(unknown_key(key, har_config.flatten(har_config.base())))
    assert message.startswith(f"config.{key} does not exist: {remedy}")


@pytest.mark.parametrize(
    "statement",
    [
        "config.regularizer.strenght = 1.0",
        "config['regularizer']['strenght'] = 1.0",
        "config.regularizer.strenght",
        "config.regularizer.update({'strenght': 1.0})",
        "config.update({'regularizer': {'strenght': 1.0}})",
        "config.update_from_flattened_dict({'regularizer.strenght': 1.0})",
    ],
)
def test_a_misspelt_key_of_a_config_file_is_named_with_its_section(statement):
    config = digits()
    with pytest.raises((AttributeError, KeyError)) as caught:
        exec(statement, {"config": config})
    message = config_files.failure(caught.value)
    assert message == (
        "config.regularizer.strenght does not exist: did you mean config.regularizer.strength?"
    )


def test_a_section_that_is_missing_and_what_is_no_key_of_ours():
    with pytest.raises(KeyError) as caught:
        digits().update_from_flattened_dict({"regulariser.strength": 1.0})
    assert "config.regulariser.strength does not" in config_files.failure(caught.value)
    for own in (config_dict.ConfigDict({"a": 1}), {"a": 1}):
        with pytest.raises(KeyError) as caught:
            own["b"]
        assert config_files.failure(caught.value).startswith("the config file fails: KeyError: ")


@pytest.mark.parametrize("value", ["64", None, True, 64.0])
def test_wrong_types_that_an_unlocked_config_lets_through(value):
    config = digits()
    with config.ignore_type():
        config.batch_size = value
    with pytest.raises(har_config.ConfigError, match=r"batch_size=.* has the wrong type: int"):
        har_config.validate(config)


@pytest.mark.parametrize(
    ("key", "value"), [("reweighting.start_epoch", 3.0), ("model.widths", (8,))]
)
def test_optional_keys_take_a_value(key, value):
    config = digits()
    config.update_from_flattened_dict({key: value})
    har_config.validate(config)


@pytest.mark.parametrize("config", [None, {"seed": 0}])
def test_what_is_no_config(config):
    with pytest.raises(har_config.ConfigError, match=r"get_config\(\) returns a \w+: return the"):
        har_config.validate(config)


def test_the_page_of_all_keys_is_as_they_are():
    written = (DIGITS.parent.parent / "docs" / "config.md").read_text()
    assert written == document.as_markdown(), "python -m har_jax.config.document > docs/config.md"
    text = document.as_text()
    for key in har_config.flatten(har_config.base()):
        assert f"`{key}`" in written
        assert f"--config.{key} (" in text


def test_choices_of_one_section_agree_on_the_types_of_their_options():
    for section in SECTIONS.values():
        names = set(section.plain)
        for selector in section.selectors:
            for name, readers in selector.read_by().items():
                assert name not in names
                assert len({parameter.says for parameter in readers.values()}) == 1
            names |= {selector.name, *selector.read_by()}
    shared: dict[str, object] = {}
    for entry in METHODS.values():
        if entry.section == "regularizer":
            for name, parameter in options_of_entry(entry).items():
                assert shared.setdefault(name, parameter.default) == parameter.default
