"""What a config can say: the defaults of every key, and the checks of its values.

Config files are ``ml_collections`` files: a function ``get_config()`` that takes
:func:`base` and overrides some of it. ``--config.key=value`` overrides the file.
:func:`validate` runs before any data is loaded and any step compiled.
"""

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from ml_collections import config_dict

from har_jax.data.decoding import CROPS
from har_jax.data.encoded import OnUnreadable
from har_jax.data.images import AUGMENTATIONS
from har_jax.data.labels import OnMissing
from har_jax.data.leaks import OnLeak
from har_jax.data.sources import is_known
from har_jax.data.texts import Words
from har_jax.data.webvision import SUBSETS
from har_jax.jacobian import REDUCTIONS
from har_jax.linen.layers import FILTERS
from har_jax.models.imagenet_resnet import BLOCKS
from har_jax.models.norm import NORMS
from har_jax.models.resnet import blocks_per_stage
from har_jax.registry import METHODS
from har_jax.train.divergence import OnNonfinite
from har_jax.train.optimizer import OPTIMIZERS, SCHEDULES

# Which options each choice reads; an option that is set but not read is an error.
MODELS: Mapping[str, Sequence[str]] = {
    "convnet": ("norm", "widths"),
    "cifar_resnet": ("norm", "widths", "depth", "stem_strides", "remat"),
    "imagenet_resnet": ("norm", "depth", "remat"),
    "inception_resnet_v2": ("norm", "remat"),
    "bilstm": ("widths", "embedding", "dropout", "remat"),
}
NOISES: Mapping[str, Sequence[str]] = {
    "none": (),
    "groups": ("groups", "rate"),
    "symmetric": ("rate",),
    "asymmetric": ("flips",),
}
TEXT_MODELS = ("bilstm",)
TEXT_LAYERS = ("embeddings_and_recurrent",)
DTYPES = ("float32", "bfloat16")
_TEXTS = ("vocabulary_size", "length", "words")
_FILES = ("image_size", "workers", "on_unreadable")
_LABELS = ("test_fraction", "on_missing_label")
SOURCES: Mapping[str, Sequence[str]] = {
    "digits": (),
    "tfds": (*_LABELS, *_TEXTS),
    "folder": ("root", "has_splits", *_LABELS, *_FILES),
    "csv": ("root", "table", "keep_groups_whole", *_LABELS, *_TEXTS, *_FILES),
    "webvision": ("root", "subset", "imagenet", *_FILES),
}
_NEEDED = {"folder": ("root",), "csv": ("table",), "webvision": ("root",)}
EVALUATIONS: Mapping[str, Sequence[str]] = {"test": (), "validation": ("validation_fraction",)}
IMBALANCES: Mapping[str, Sequence[str]] = {
    "none": (),
    "step": ("classes", "ratio"),
    "exponential": ("ratio",),
}


class ConfigError(ValueError):
    """A config that cannot be run: one line with the key, the value and the remedy."""


def base() -> config_dict.ConfigDict:
    """All keys with their defaults. ``None`` stands for what the choice at hand does not read."""
    optional = config_dict.placeholder
    config = {
        "seed": 0,
        # Trained one after the other and compared in the report: any of METHODS.
        "methods": ("erm", "har"),
        "data": {
            "source": "digits",  # or "tfds:NAME", "folder", "csv", "webvision"
            "data_dir": optional(str),  # of TFDS; None: $TFDS_DATA_DIR or ~/tensorflow_datasets
            # The folder of images; of "csv" what paths are relative to, None: its own folder.
            "root": optional(str),
            # Whether the folders in a "folder" are splits, or classes; None: as their names say.
            "has_splits": optional(bool),
            "table": optional(str),  # the CSV file
            "subset": optional(str),  # of WebVision; None: "mini"; or "google", "full"
            "imagenet": optional(str),  # to test on too: a folder by synset, or "tfds:imagenet2012"
            "image_size": optional(int),  # to which images in files are resized; None: 224
            "workers": optional(int),  # processes that decode images; None: threads of this one
            # What to do with files that cannot be decoded; None: "stop"; or "skip".
            "on_unreadable": optional(str),
            # What to do with labels such as NaN; None: "stop"; or "skip"; or "keep", as a class.
            "on_missing_label": optional(str),
            # What to do with training examples that are tested on too: "stop", "drop" or "keep".
            "on_leak": "stop",
            # Whether groups come whole into the training or the test set, a half or a fold; None:
            # no, and it is told; False: no.
            "keep_groups_whole": optional(bool),
            "vocabulary_size": optional(int),  # of texts; None: 20,000
            "length": optional(int),  # in words, of texts, of which the end is kept; None: 256
            "words": optional(str),  # that texts are cut into; None: "words"; or "characters"
            "test_fraction": optional(float),  # where no split is tested on; None: 0.2
            "train_size": optional(int),  # None: the whole training set
            "augment": "none",  # or one of AUGMENTATIONS, or of CROPS for images in files
            "mean": optional(tuple),  # of the channels of inputs in [0, 1]; None: 0
            "std": optional(tuple),  # None: 1
            # "validation": a part of the training set, noisy labels and all, takes the test set's
            # place, to choose strengths and the like by.
            "evaluate_on": "test",
            "validation_fraction": optional(float),
            "noise": {
                "kind": "none",
                "groups": optional(tuple),
                "rate": optional(float),
                "flips": optional(tuple),  # (class, other class, rate)
            },
            "imbalance": {"kind": "none", "classes": optional(tuple), "ratio": optional(float)},
        },
        "model": {
            "name": "convnet",
            "norm": optional(str),  # None: "batch"; any of NORMS
            "widths": optional(tuple),  # of each stage, or LSTM layer; None: the model's own
            "depth": optional(int),  # None: the model's own
            "stem_strides": optional(int),  # None: the model's own
            "embedding": optional(int),  # the width of embedded words; None: 128
            "dropout": optional(float),  # None: 0.5
            "remat": optional(bool),  # None: False
            "dtype": "float32",  # of the network's computation; its parameters are float32
        },
        "devices": optional(int),  # that a batch is split over; None: all
        "batch_size": 128,  # over all devices
        "microbatches": 1,  # parts of a batch that are in memory one after the other
        "optimizer": {
            "name": "sgd",
            "learning_rate": 0.1,
            "schedule": "cosine",
            "momentum": optional(float),  # None: 0.9 for sgd
            "weight_decay": 1e-4,
            "decay_epochs": optional(tuple),
            "decay_factor": optional(float),
        },
        # The model that estimates the noise: trained plainly on a fraction of the training set,
        # None: 0.5; or one for each of some folds, on what is not of it.
        "pretrain": {"epochs": 30.0, "fraction": optional(float), "folds": optional(int)},
        # Out-of-sample probabilities of another program in place of all that: .npy files of
        # [n, K] and of [n] labels, in the order of the training set.
        "estimate": {
            # Imaginary validation examples of each group, with the pooled error; None: as many as
            # the errors' standard errors ask for (har_jax.group_statistics).
            "smoothing": optional(float),
            "probabilities": optional(str),
            "labels": optional(str),
        },
        "train": {"epochs": 30.0},
        "regularizer": {
            "layers": "normalization",
            "reduction": "root_sum_square",
            "strength": 0.1,  # of HAR: the largest of all groups
            "uniform_strength": 0.1,
            "max_norm": optional(float),  # what R of an example counts as at most; None: no bound
        },
        # Class-balanced loss weights from this epoch of training on; None: never.
        "reweighting": {"start_epoch": optional(float), "beta": 0.9999},
        # After a step whose loss, R or parameters are not finite: end the run, or undo the step.
        "on_nonfinite": "stop",  # or "skip"
        "predictions": "csv",  # the format that --stage=predict writes; or "parquet"
        "log_every": 50,
        "checkpoint_every": 100,
    }
    return config_dict.ConfigDict(config).lock()


def validate(config: config_dict.ConfigDict) -> None:
    """Checks every key and value of a config.

    Raises:
      ConfigError: for the first key that is unknown, missing or not read, and the first value
        that has the wrong type or is impossible.
    """
    if not isinstance(config, config_dict.ConfigDict):
        raise ConfigError(
            f"get_config() returns a {type(config).__name__}: return the ConfigDict of "
            "har_jax.config.base() with its overrides"
        )
    _check_keys(config)
    flat = flatten(config)
    _check_choices(flat)
    _check_numbers(flat)
    _check_classes(flat)
    _check_texts(flat)
    _check_estimation(flat)


def flatten(config: config_dict.ConfigDict) -> dict[str, Any]:
    """``{"data.source": "digits", ...}``, in order, with lists as tuples."""
    flat = {}
    for key, value in config.items():
        if isinstance(value, config_dict.ConfigDict):
            flat.update({f"{key}.{rest}": leaf for rest, leaf in flatten(value).items()})
        else:
            flat[key] = _as_tuple(value)
    return flat


def type_name(key: str) -> str:
    """The name of the type that a key takes."""
    return _type(base(), key).__name__


def unknown_key(key: str) -> ConfigError:
    """The error for a key that no config has, with the nearest one that it has.

    That is one of the same section, or else the key of another section that is called so, or
    nearly.
    """
    known = list(flatten(base()))
    section, dot, name = key.rpartition(".")
    inside = {
        other.removeprefix(section + dot).partition(".")[0]: other
        for other in known
        if other.startswith(section + dot)
    }
    called = {other.rpartition(".")[2] for other in known}
    if near := difflib.get_close_matches(name, inside, n=1):
        remedy = f"did you mean config.{section}{dot}{near[0]}?"
    elif near := difflib.get_close_matches(name, called, n=1, cutoff=0.8):
        there = [other for other in known if other.rpartition(".")[2] == near[0]]
        remedy = f"did you mean config.{difflib.get_close_matches(key, there, 1, 0.0)[0]}?"
    elif inside:
        remedy = f"there are {', '.join(f'config.{section}{dot}{other}' for other in inside)}"
    elif near := difflib.get_close_matches(key, known, n=1):
        remedy = f"did you mean config.{near[0]}?"
    else:
        remedy = f"there are {', '.join(f'config.{other}' for other in known)}"
    return ConfigError(f"config.{key} does not exist: {remedy}")


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, (list, tuple)) else value


def _check_keys(config: config_dict.ConfigDict) -> None:
    known, given = flatten(base()), flatten(config)
    for key in given:
        if key not in known:
            raise unknown_key(key)
    for key in known:
        if key not in given:
            raise ConfigError(f"config.{key} is missing: start from har_jax.config.base()")
    reference = base()
    for key, value in given.items():
        expected = _type(reference, key)
        number = isinstance(value, int) and not isinstance(value, bool)
        if expected in (int, float):
            fits = number or (expected is float and isinstance(value, float))
        else:
            fits = isinstance(value, expected)
        if fits or (value is None and known[key] is None):
            continue
        raise ConfigError(f"config.{key}={value!r} has the wrong type: {expected.__name__} needed")


def _type(config: config_dict.ConfigDict, key: str) -> type:
    *path, last = key.split(".")
    for name in path:
        config = config[name]
    return config.get_type(last)


def _check_choices(flat: Mapping[str, Any]) -> None:
    for key, choices in {
        "data.augment": (*AUGMENTATIONS, *CROPS),
        "data.subset": SUBSETS,
        "data.on_unreadable": get_args(OnUnreadable),
        "data.on_missing_label": get_args(OnMissing),
        "data.on_leak": get_args(OnLeak),
        "data.words": get_args(Words),
        "data.evaluate_on": EVALUATIONS,
        "data.noise.kind": NOISES,
        "data.imbalance.kind": IMBALANCES,
        "model.name": MODELS,
        "model.norm": NORMS,
        "model.dtype": DTYPES,
        "optimizer.name": OPTIMIZERS,
        "optimizer.schedule": SCHEDULES,
        "on_nonfinite": get_args(OnNonfinite),
        "predictions": ("csv", "parquet"),
        "regularizer.layers": FILTERS,
        "regularizer.reduction": REDUCTIONS,
    }.items():
        if flat[key] is not None:  # which only keys can be whose default it is
            _one_of(key, flat[key], choices)
    if not is_known(flat["data.source"]):
        raise ConfigError(
            f"config.data.source={flat['data.source']!r} is unknown: take digits, folder, csv, "
            "webvision, or tfds:NAME such as tfds:cifar10"
        )
    if flat["data.augment"] in CROPS and "image_size" not in SOURCES[_kind(flat["data.source"])]:
        raise ConfigError(
            f"config.data.augment={flat['data.augment']!r} is of images in files, and "
            f"config.data.source={flat['data.source']!r} has arrays: take one of "
            f"{', '.join(AUGMENTATIONS)}"
        )
    if not flat["methods"]:
        raise ConfigError(f"config.methods is empty: name some of {', '.join(METHODS)}")
    for method in flat["methods"]:
        if method not in METHODS:
            raise ConfigError(
                f"config.methods={method!r} is unknown: take some of {', '.join(METHODS)}; for "
                """several, write --config.methods='("erm","har")'"""
            )
    if len(set(flat["methods"])) < len(flat["methods"]):
        raise ConfigError(f"config.methods={flat['methods']} names a method twice: remove one")

    _check_read(flat, "data", "source", SOURCES, needed=_NEEDED)
    _check_read(flat, "data", "evaluate_on", EVALUATIONS, needed=EVALUATIONS)
    _check_read(flat, "data.noise", "kind", NOISES, needed=NOISES)
    _check_read(flat, "data.imbalance", "kind", IMBALANCES, needed=IMBALANCES)
    _check_read(flat, "model", "name", MODELS, needed={})
    _check_read(flat, "optimizer", "name", OPTIMIZERS, needed={})
    _check_read(flat, "optimizer", "schedule", SCHEDULES, needed=SCHEDULES)


def _kind(choice: str) -> str:
    """Of a choice that goes on behind a colon, as ``tfds:NAME`` does, what is before it."""
    return choice.partition(":")[0]


def _one_of(key: str, value: Any, choices: Iterable[str]) -> None:
    choices = list(choices)
    if value not in choices:
        raise ConfigError(f"config.{key}={value!r} is unknown: take one of {', '.join(choices)}")


def _check_read(
    flat: Mapping[str, Any],
    section: str,
    selector: str,
    choices: Mapping[str, Sequence[str]],
    *,
    needed: Mapping[str, Sequence[str]],
) -> None:
    """An option must be set if the choice needs it, and must not be if nobody reads it."""
    chosen = flat[f"{section}.{selector}"]
    kind = _kind(chosen)
    for option in sorted({option for options in choices.values() for option in options}):
        key = f"{section}.{option}"
        if flat[key] is not None and option not in choices[kind]:
            readers = [name for name, options in choices.items() if option in options]
            raise ConfigError(
                f"config.{key}={flat[key]!r} is not read by config.{section}.{selector}="
                f"{chosen!r}, only by {', '.join(readers)}: remove one of the two"
            )
        if flat[key] in (None, "") and option in needed.get(kind, ()):
            raise ConfigError(
                f"config.{key} is not set, but config.{section}.{selector}={chosen!r} needs it"
            )


def _check_numbers(flat: Mapping[str, Any]) -> None:
    positive, not_negative = (lambda x: x > 0), (lambda x: x >= 0)
    strength, length = (lambda x: 0 <= x <= 1e6), (lambda x: 0 < x <= 1e6)
    share, part = (lambda x: 0 <= x <= 1), (lambda x: 0 < x < 1)
    rules = {
        "seed": (not_negative, "must not be negative"),
        "data.vocabulary_size": (lambda x: 3 <= x <= 10**7, "must be between 3 and 1e7"),
        "data.length": (lambda x: 1 <= x <= 10**5, "must be between 1 and 1e5 words"),
        "data.image_size": (lambda x: 8 <= x <= 4096, "must be between 8 and 4096 pixels"),
        "data.workers": (lambda x: 0 <= x <= 1000, "must be between 0 and 1000"),
        "data.test_fraction": (part, "must be between 0 and 1, both excluded"),
        "data.train_size": (positive, "must be positive"),
        "data.validation_fraction": (part, "must be between 0 and 1, both excluded"),
        "data.noise.rate": (share, "must be between 0 and 1"),
        "data.imbalance.ratio": (lambda x: x >= 1, "must be at least 1: frequent over rare"),
        "model.embedding": (positive, "must be positive"),
        "model.dropout": (lambda x: 0 <= x < 1, "must be at least 0 and below 1"),
        "devices": (positive, "must be positive"),
        "batch_size": (lambda x: 0 < x <= 10**6, "must be between 1 and 1e6"),
        "microbatches": (
            lambda x: x > 0 and flat["batch_size"] % x == 0,
            f"must divide config.batch_size={flat['batch_size']}",
        ),
        "optimizer.learning_rate": (positive, "must be positive"),
        "optimizer.momentum": (lambda x: 0 <= x < 1, "must be at least 0 and below 1"),
        "optimizer.weight_decay": (not_negative, "must not be negative"),
        "optimizer.decay_factor": (lambda x: 0 < x <= 1, "must be above 0 and at most 1"),
        "pretrain.epochs": (length, "must be above 0 and at most 1e6"),
        "pretrain.fraction": (part, "must be between 0 and 1, both excluded"),
        "pretrain.folds": (lambda x: 2 <= x <= 1000, "must be between 2 and 1000"),
        "estimate.smoothing": (not_negative, "must not be negative"),
        "train.epochs": (length, "must be above 0 and at most 1e6"),
        "regularizer.strength": (strength, "must be between 0 and 1e6"),
        "regularizer.uniform_strength": (strength, "must be between 0 and 1e6"),
        "regularizer.max_norm": (positive, "must be positive"),
        "reweighting.start_epoch": (lambda x: 0 <= x <= 1e6, "must be between 0 and 1e6"),
        "reweighting.beta": (lambda x: 0 <= x < 1, "must be at least 0 and below 1"),
        "log_every": (positive, "must be positive"),
        "checkpoint_every": (positive, "must be positive"),
    }
    for key, (holds, problem) in rules.items():
        value = flat[key]
        if value is not None and not (abs(value) < math.inf and holds(value)):
            raise ConfigError(f"config.{key}={value!r} is impossible: it {problem}")
    depth, widths = flat["model.depth"], flat["model.widths"]
    if depth is not None and flat["model.name"] == "cifar_resnet":
        try:
            blocks_per_stage(depth)
        except ValueError as error:
            raise ConfigError(f"config.model.{error}") from error
    if depth is not None and flat["model.name"] == "imagenet_resnet" and depth not in BLOCKS:
        raise ConfigError(
            f"config.model.depth={depth} is none of {', '.join(map(str, BLOCKS))}, which "
            "imagenet_resnet has"
        )
    if flat["model.stem_strides"] not in (None, 1, 2):
        raise ConfigError(f"config.model.stem_strides={flat['model.stem_strides']} must be 1 or 2")
    if widths is not None and flat["model.name"] == "cifar_resnet" and len(widths) != 3:
        raise ConfigError(f"config.model.widths={widths} must hold three widths for cifar_resnet")
    if widths is not None and not (widths and all(_positive_int(width) for width in widths)):
        raise ConfigError(f"config.model.widths={widths} must hold positive integers")
    if flat["model.name"] == "cifar_resnet" and list(widths or ()) != sorted(widths or ()):
        raise ConfigError(f"config.model.widths={widths} must not get narrower in cifar_resnet")
    if flat["model.norm"] == "group" and any(width % 8 for width in widths or ()):
        raise ConfigError(f"config.model.widths={widths} must be multiples of 8 for group norm")
    for key, holds in {"data.mean": lambda x: True, "data.std": lambda x: x > 0}.items():
        numbers = flat[key]
        if numbers is not None and not (
            numbers
            and all(type(x) in (int, float) and abs(x) < math.inf and holds(x) for x in numbers)
        ):
            raise ConfigError(
                f"config.{key}={numbers} must hold one number for each channel, of a standard "
                "deviation a positive one"
            )
    epochs = flat["optimizer.decay_epochs"]
    if epochs is not None and not (
        epochs and all(isinstance(epoch, (int, float)) and 0 < epoch <= 1e6 for epoch in epochs)
    ):
        raise ConfigError(f"config.optimizer.decay_epochs={epochs} must hold positive epochs")


def _check_texts(flat: Mapping[str, Any]) -> None:
    """That what is of texts and what is of images, or of networks for them, is not mixed."""
    name, layers = flat["model.name"], flat["regularizer.layers"]
    if (name in TEXT_MODELS) != (layers in TEXT_LAYERS):
        fitting = [key for key in FILTERS if (key in TEXT_LAYERS) == (name in TEXT_MODELS)]
        raise ConfigError(
            f"config.regularizer.layers={layers!r} are none of config.model.name={name!r}: take "
            f"{' or '.join(fitting)}"
        )
    if name in TEXT_MODELS:
        if not set(_TEXTS) <= set(SOURCES[_kind(flat["data.source"])]):
            raise ConfigError(
                f"config.model.name={name!r} reads texts, and config.data.source="
                f"{flat['data.source']!r} has images: take csv, or tfds:NAME such as "
                "tfds:imdb_reviews"
            )
        of_images = ("data.mean", "data.std", "data.augment", *(f"data.{key}" for key in _FILES))
        wrong = [key for key in of_images if flat[key] not in (None, "none")]
    else:
        wrong = [f"data.{key}" for key in _TEXTS if flat[f"data.{key}"] is not None]
    for key in wrong:
        raise ConfigError(
            f"config.{key}={flat[key]!r} is not read with config.model.name={name!r}: remove one "
            "of the two"
        )


def _check_estimation(flat: Mapping[str, Any]) -> None:
    """That the noise is estimated in one way."""
    files = ("estimate.probabilities", "estimate.labels")
    for key, other in (files, files[::-1]):
        if flat[key] is not None and flat[other] is None:
            raise ConfigError(f"config.{other} is not set, but config.{key}={flat[key]!r} needs it")
    ways = ("pretrain.fraction", "pretrain.folds", "estimate.probabilities")
    given = [key for key in ways if flat[key] is not None]
    if len(given) > 1:
        one, other = given[:2]
        raise ConfigError(
            f"config.{one}={flat[one]!r} is not read with config.{other}={flat[other]!r}: remove "
            "one of the two"
        )


def _positive_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _check_classes(flat: Mapping[str, Any]) -> None:
    """What can be said of classes before it is known which ones there are."""
    groups = flat["data.noise.groups"]
    if groups is not None and not (
        groups and all(isinstance(group, tuple) and len(group) > 1 for group in groups)
    ):
        raise ConfigError(
            f"config.data.noise.groups={groups} must hold groups of two classes or more, such as "
            "((3, 8), (4, 9)), or kind be 'none'"
        )
    flips = flat["data.noise.flips"]
    if flips is not None and not (
        flips and all(isinstance(flip, tuple) and len(flip) == 3 for flip in flips)
    ):
        raise ConfigError(
            f"config.data.noise.flips={flips} must hold a class, another one and a rate each, such "
            "as (('cat', 'dog', 0.4),)"
        )
    for label, other, rate in flips or ():
        if label == other or not (type(rate) in (int, float) and 0 <= rate <= 1):
            raise ConfigError(
                f"config.data.noise.flips={flips} holds {(label, other, rate)!r}: two different "
                "classes and a rate from 0 to 1 are needed"
            )
        total = sum(flip[2] for flip in flips or () if flip[0] == label)
        if total > 1 + 1e-9:
            raise ConfigError(
                f"config.data.noise.flips={flips} moves {total:g} of class {label!r}: at most 1 is "
                "there"
            )
    classes = flat["data.imbalance.classes"]
    if classes == ():
        raise ConfigError(
            "config.data.imbalance.classes is empty: name rare classes, or take kind='none'"
        )
    for label in (label for *pair, _ in flips or () for label in pair):
        if type(label) not in (int, str):
            raise ConfigError(
                f"config.data.noise.flips={flips} holds {label!r}: a class is an id or a name"
            )
    for key, labels in {
        "data.noise.groups": [label for group in groups or () for label in group],
        "data.imbalance.classes": list(classes or ()),
    }.items():
        for label in labels:
            if type(label) not in (int, str):
                raise ConfigError(
                    f"config.{key}={flat[key]} holds {label!r}: a class is an id or a name"
                )
        if len(set(labels)) < len(labels):
            raise ConfigError(f"config.{key}={flat[key]} names a class twice: remove one")
