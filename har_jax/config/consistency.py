"""What the sections of a config must not say against one another."""

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any, get_args

from har_jax.config import own
from har_jax.config.errors import ConfigError
from har_jax.config.schema import SECTIONS, Selector
from har_jax.data.images import AUGMENTATIONS
from har_jax.data.reading.decoding import CROPS
from har_jax.data.reading.encoded import Reading
from har_jax.data.reading.texts import Encoding
from har_jax.data.sources import Kind
from har_jax.estimation.groupings import GROUPINGS, READS
from har_jax.estimation.noise_rate import leaves_nothing
from har_jax.estimation.noises import NOISES
from har_jax.linen.layers import FILTERS, TEXT_FILTERS
from har_jax.methods import Entry, mentornet
from har_jax.methods.shared.branches import can_branch
from har_jax.methods.shared.curricula import rates_by_percent
from har_jax.models import NETWORKS
from har_jax.options import make, options, parameters
from har_jax.train.optimizer import WarmUp

NO_META = (
    "learns from examples that are known to be labelled rightly, and there are none: set "
    "config.data.meta_size, such as 100, where the noise is made by config.data.noise, or give "
    "some as a split called meta, which a folder, a table or lists can have"
)
_HAS_SPLITS = ("folder", "csv", "list")  # of a person's own


def reads(network: Callable[..., Any]) -> Kind:
    """What a network reads: ``images`` or ``texts``."""
    kind: Kind = getattr(network, "reads", "images")
    return kind


def estimated_from(groups: str, noise: str) -> frozenset[str]:
    """What groups and noise are made from, of :data:`har_jax.estimation.groupings.READS`."""
    return _read_by(GROUPINGS[groups]) | _read_by(NOISES[noise])


def _read_by(choice: Callable[..., Any]) -> frozenset[str]:
    return READS & {parameter.name for parameter in parameters(choice)}


def check(flat: Mapping[str, Any]) -> None:
    """Raises :class:`ConfigError` where two sections exclude each other."""
    parts, batch = flat["microbatches"], flat["batch_size"]
    if batch % parts:
        raise ConfigError(
            f"config.microbatches={parts} is impossible: it must divide config.batch_size={batch}"
        )
    _check_warm_up(flat)
    _check_dtype(flat)
    _check_texts(flat)
    _check_augmentation(flat)
    _check_estimation(flat)
    if flat["data.meta_size"] is not None and flat["data.keep_groups_whole"]:
        raise ConfigError(
            f"config.data.meta_size={flat['data.meta_size']} takes examples and not groups, and "
            "config.data.keep_groups_whole=True: give a split called meta in place of the first"
        )
    if flat["data.labels"] is not None and flat["data.noise.kind"] != "none":
        keys = [key for key in flat if key.startswith("data.noise.") and flat[key] is not None]
        flags = [f"--config.{key}={'none' if key == 'data.noise.kind' else None}" for key in keys]
        raise ConfigError(
            f"config.data.labels={flat['data.labels']!r} has the labels that are trained on, and "
            f"config.data.noise.kind={flat['data.noise.kind']!r} would make others: remove one of "
            f"the two, the second by {' '.join(sorted(flags))}"
        )
    _check_loss(flat)
    for name in flat["methods"]:
        _check_method(name, own.entry_of(name), flat)


def _check_method(name: str, entry: Entry, flat: Mapping[str, Any]) -> None:
    """That the rest of the config has what a method needs."""
    said = f"config.methods={name!r}"
    parts = flat["microbatches"]
    if entry.whole_batches and parts > 1:
        raise ConfigError(
            f"{said} cannot be combined with config.microbatches={parts}: its loss is one of a "
            "whole batch: take 1"
        )
    may_have_meta = flat["data.meta_size"] is not None or flat["data.source"] in _HAS_SPLITS
    is_own = own.is_own(_selector("data"), flat["data.source"])
    if own.sees_meta(name, flat) and not (may_have_meta or is_own):
        raise ConfigError(f"{said} {NO_META}")
    rate = flat.get(f"method.{own.method_name(name)}.noise_rate")
    if isinstance(rate, float) and leaves_nothing(rate, flat["batch_size"]):
        raise ConfigError(
            f"config.method.{own.method_name(name)}.noise_rate={rate} leaves no example of "
            f"config.batch_size={flat['batch_size']}: take a larger batch, or another rate"
        )
    if entry.branches > 1 and not can_branch(
        own.choice_of("model", _selector("model"), flat["model.name"])
    ):
        known = ", ".join(name for name, each in NETWORKS.items() if can_branch(each))
        raise ConfigError(
            f"{said} needs a network of two branches, which config.model.name="
            f"{flat['model.name']!r} cannot have: take one of {known}, or one of your own that "
            "har_jax.methods.shared.branches.can_branch is true of"
        )
    if entry.make is mentornet:
        try:
            rates_by_percent(flat["method.mentornet.dropout"])
        except ValueError as error:
            raise ConfigError(f"config.method.mentornet.{error}") from None
    every = flat["pretrain.folds"] is None and flat["estimate.probabilities"] is None
    if entry.labels is not None and every:
        raise ConfigError(
            f"{said} needs what is said out of sample of every example: set config.pretrain.folds, "
            "such as 5, or config.estimate.probabilities"
        )
    for package in entry.requires:
        if importlib.util.find_spec(package) is None:
            raise ConfigError(
                f"{said} needs {package}, which is not installed here: pip install {package}"
            )


def _check_loss(flat: Mapping[str, Any]) -> None:
    """That somebody reads the loss, if there is one but the default."""
    default = SECTIONS["loss"].selectors[0].default
    if flat["loss.name"] == default or any(
        own.entry_of(name).takes_any_loss for name in flat["methods"]
    ):
        return
    raise ConfigError(
        f"config.loss.name={flat['loss.name']!r} is not read by config.methods={flat['methods']}: "
        "add har or uniform, or remove it; methods such as ldam have losses of their own"
    )


def _selector(path: str) -> Selector:
    selector = SECTIONS[path].own
    assert selector is not None
    return selector


def _source_takes(flat: Mapping[str, Any], group: type) -> bool:
    """Whether the source takes a group of options; of a person's own, which may, it is not told."""
    selector, source = _selector("data"), flat["data.source"]
    read = own.options_of("data", selector, source)
    return own.is_own(selector, source) or options(group).keys() <= read.keys()


def _check_warm_up(flat: Mapping[str, Any]) -> None:
    """That every training that there is goes on after its warm-up, and learns from its start."""
    said = {name: flat[f"optimizer.{name}"] for name in options(WarmUp)}
    warm_up, default, keys = make(WarmUp, chosen=said), WarmUp(), ["train.epochs"]
    if not warm_up.warmup_epochs and warm_up != default:
        name = next(name for name in said if said[name] != getattr(default, name))
        raise ConfigError(
            f"config.optimizer.{name}={said[name]!r} is not read without "
            "config.optimizer.warmup_epochs: set that, or remove this"
        )
    if warm_up.warmup_epochs and warm_up.warmup_by == "epoch" and not warm_up.warmup_from:
        raise ConfigError(
            "config.optimizer.warmup_by='epoch' begins with an epoch at a learning rate of 0: set "
            "config.optimizer.warmup_from, such as 0.2, or take 'step'"
        )
    pretrains = any(own.estimates(name, flat) for name in flat["methods"])
    if pretrains and flat["estimate.probabilities"] is None:
        keys.append("pretrain.epochs")
    for key in keys:
        if warm_up.end >= flat[key]:
            raise ConfigError(
                f"config.optimizer.warmup_epochs={warm_up.warmup_epochs:g} leaves nothing of "
                f"config.{key}={flat[key]:g}: take fewer, or train for longer"
            )


def _check_dtype(flat: Mapping[str, Any]) -> None:
    name, dtype = flat["model.name"], flat["model.dtype"]
    network = own.choice_of("model", _selector("model"), name)
    if dtype != "float32" and all(each.name != "dtype" for each in parameters(network)):
        raise ConfigError(
            f"config.model.dtype={dtype!r} is not read by config.model.name={name!r}, which has no "
            "field dtype: remove one of the two"
        )


def _check_texts(flat: Mapping[str, Any]) -> None:
    """That what is of texts and what is of images, or of networks for them, is not mixed."""
    name, layers = flat["model.name"], flat["regularizer.layers"]
    network = own.choice_of("model", _selector("model"), name)
    if reads(network) not in get_args(Kind):
        raise ConfigError(
            f"config.model.name={name!r} reads {reads(network)!r}: reads must be one of "
            f"{', '.join(get_args(Kind))}"
        )
    of_texts = reads(network) == "texts"
    known = name in _selector("model").choices and layers in FILTERS
    if known and of_texts != (layers in TEXT_FILTERS):
        fitting = [key for key in FILTERS if (key in TEXT_FILTERS) == of_texts]
        raise ConfigError(
            f"config.regularizer.layers={layers!r} are none of config.model.name={name!r}: take "
            f"{' or '.join(fitting)}"
        )
    if of_texts and not _source_takes(flat, Encoding):
        raise ConfigError(
            f"config.model.name={name!r} reads texts, and config.data.source="
            f"{flat['data.source']!r} has images: take csv, or tfds:NAME such as tfds:imdb_reviews"
        )
    of_images = ("mean", "std", "augment", *options(Reading))
    for option in of_images if of_texts else options(Encoding):
        key = f"data.{option}"
        if flat[key] not in (None, "none"):
            raise ConfigError(
                f"config.{key}={flat[key]!r} is not read with config.model.name={name!r}: remove "
                "one of the two"
            )


def _check_augmentation(flat: Mapping[str, Any]) -> None:
    if flat["data.augment"] in CROPS and not _source_takes(flat, Reading):
        raise ConfigError(
            f"config.data.augment={flat['data.augment']!r} is of images in files, and "
            f"config.data.source={flat['data.source']!r} has arrays: take one of "
            f"{', '.join(AUGMENTATIONS)}"
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
    if not any(own.estimates(name, flat) for name in flat["methods"]):
        return
    foreign = flat["estimate.probabilities"] is not None
    choices: Mapping[str, Mapping[str, Callable[..., Any]]] = {
        "groups": GROUPINGS,
        "noise": NOISES,
    }
    for key, known in choices.items():
        chosen = flat[f"estimate.{key}"]
        said, reads = f"config.estimate.{key}={chosen!r}", _read_by(known[chosen])
        theirs = f"config.estimate.probabilities={flat['estimate.probabilities']!r}"
        if "probabilities" in reads and flat["pretrain.folds"] is None and not foreign:
            raise ConfigError(
                f"{said} reads what models say of all training examples that did not see them: set "
                "config.pretrain.folds, such as 2, or config.estimate.probabilities"
            )
        if "features" in reads and foreign:
            raise ConfigError(
                f"{said} reads the features of pre-trained networks, and {theirs} takes their "
                "place: remove one of the two"
            )
