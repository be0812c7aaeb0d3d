"""What a config says that belongs to no choice."""

import dataclasses
from typing import Annotated, Literal

from har_jax.data.images import AUGMENTATIONS
from har_jax.data.leaks import OnLeak
from har_jax.data.reading.decoding import CROPS
from har_jax.losses.class_weights import Beta
from har_jax.options import Option
from har_jax.train.divergence import OnNonfinite
from har_jax.train.optimizer import WarmUp, WeightDecay

_EPOCHS = Option("of training", gt=0, le=1e6)
_CHANNELS = "hold one number for each channel, of a standard deviation a positive one"


@dataclasses.dataclass(frozen=True)
class General:
    seed: Annotated[int, Option("of everything that is drawn", ge=0)] = 0
    methods: Annotated[tuple, Option("trained one after the other and compared")] = ("erm", "har")
    devices: Annotated[int | None, Option("that a batch is split over; None: all", gt=0)] = None
    batch_size: Annotated[int, Option("over all devices", ge=1, le=10**6)] = 128
    microbatches: Annotated[
        int, Option("parts of a batch that are in memory one after the other", gt=0)
    ] = 1
    on_nonfinite: Annotated[
        OnNonfinite, Option("after a step that is not finite, end the run, or undo the step")
    ] = "stop"
    predictions: Annotated[
        Literal["csv", "parquet"], Option("the format that --stage=predict writes")
    ] = "csv"
    log_every: Annotated[int, Option("steps of which the metrics are averaged", gt=0)] = 50
    checkpoint_every: Annotated[int, Option("steps that a kill can cost", gt=0)] = 100


@dataclasses.dataclass(frozen=True)
class Data:
    data_dir: Annotated[
        str | None,
        Option("of TFDS; None: $TFDS_DATA_DIR or ~/tensorflow_datasets", place=True),
    ] = None
    labels: Annotated[
        str | None,
        Option(
            "a file of labels by id, .csv, .npz or .npy, in place of the training set's own, which "
            "count as true; see docs/labels.md",
            place=True,
        ),
    ] = None
    relabel: Annotated[
        str | None,
        Option(
            "a report's relabel.csv, edited: corrections of labels that are trained on; see "
            "docs/own_images.md",
            place=True,
        ),
    ] = None
    on_leak: Annotated[
        OnLeak, Option("what to do with training examples that are tested on too")
    ] = "stop"
    keep_groups_whole: Annotated[
        bool | None,
        Option(
            "whether groups come whole into the training or the test set, a half or a fold; None: "
            "no, and it is told; False: no"
        ),
    ] = None
    train_size: Annotated[
        int | None, Option("examples that are trained on; None: the whole training set", gt=0)
    ] = None
    meta_size: Annotated[
        int | None,
        Option(
            "of these, as many of each class, taken out before noise is made: their labels are "
            "known to be right, for methods that need some",
            gt=0,
        ),
    ] = None
    augment: Annotated[
        str, Option("how training changes images", one_of=(*AUGMENTATIONS, *CROPS))
    ] = "none"
    mean: Annotated[
        tuple[float, ...] | None,
        Option("of the channels of inputs in [0, 1]; None: 0", must=_CHANNELS),
    ] = None
    std: Annotated[
        tuple[Annotated[float, Option(gt=0)], ...] | None,
        Option("of the channels of inputs in [0, 1]; None: 1", must=_CHANNELS),
    ] = None


@dataclasses.dataclass(frozen=True)
class Model:
    dtype: Annotated[
        Literal["float32", "bfloat16"],
        Option("of the network's computation; its parameters are float32"),
    ] = "float32"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimizer:
    learning_rate: Annotated[float, Option("the initial one", gt=0)] = 0.1
    weight_decay: WeightDecay
    warm_up: WarmUp


@dataclasses.dataclass(frozen=True)
class Pretrain:
    epochs: Annotated[float, _EPOCHS] = 30.0
    fraction: Annotated[
        float | None,
        Option("of the training set, on which the one model is trained; None: 0.5", gt=0, lt=1),
    ] = None
    folds: Annotated[
        int | None,
        Option("in place of that: so many models, each on what is not of its fold", ge=2, le=1000),
    ] = None


@dataclasses.dataclass(frozen=True)
class Estimate:
    smoothing: Annotated[
        float | None,
        Option(
            "imaginary validation examples of each group, with the pooled error; None: as many as "
            "the errors' standard errors ask for",
            ge=0,
        ),
    ] = None
    probabilities: Annotated[
        str | None,
        Option("out-of-sample ones of another program, a .npy file of [n, K]", place=True),
    ] = None
    labels: Annotated[str | None, Option("that they go with, a .npy file of [n]", place=True)] = (
        None
    )


@dataclasses.dataclass(frozen=True)
class Train:
    epochs: Annotated[float, _EPOCHS] = 30.0


@dataclasses.dataclass(frozen=True)
class Reweighting:
    start_epoch: Annotated[
        float | None,
        Option("from which losses are weighted by class; None: never", ge=0, le=1e6),
    ] = None
    beta: Beta = 0.9999


def on_test() -> None:
    """What is evaluated on is the test set."""


def on_validation(
    *,
    validation_fraction: Annotated[
        float, Option("of the training set, noisy labels and all, evaluated on", gt=0, lt=1)
    ],
) -> float:
    """A part of the training set takes the test set's place, to choose strengths by, say."""
    return validation_fraction
