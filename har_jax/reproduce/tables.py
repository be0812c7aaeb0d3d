"""The paper's tables: what they say, and which runs make them."""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from ml_collections import config_dict

from har_jax.config import recipes
from har_jax.report.long_tail import SHOTS

_Setting = Callable[[], config_dict.ConfigDict]


@dataclasses.dataclass(frozen=True)
class Row:
    """The run of a row, in every setting of a table.

    Attributes:
      method: A name in :data:`har_jax.methods.METHODS`.
      changes: What it changes in the setting's config: dotted keys and values.
      tunes: The key of a strength that is chosen on validation data, if one is.
      impossible: By setting that it cannot have, why.
    """

    method: str
    changes: tuple[tuple[str, Any], ...] = ()
    tunes: str | None = None
    impossible: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)

    @property
    def overrides(self) -> dict[str, Any]:
        """The changes as a dictionary."""
        return dict(self.changes)

    def with_strength(self, strength: float) -> "Row":
        """The row with what it tunes set to this."""
        assert self.tunes is not None
        return dataclasses.replace(self, changes=(*self.changes, (self.tunes, strength)))


@dataclasses.dataclass(frozen=True)
class Column:
    """A number of a run's report.

    Attributes:
      setting: The data that is trained on, one of the table's.
      part: The classes that are averaged over: all, noisy, rare or clean; many, medium or few, as
        :mod:`har_jax.report.long_tail` has them; or one, by its name.
      split: The examples: test or train.

    Raises:
      ValueError: if it is of training examples of many-, medium- or few-shot classes.
    """

    setting: str
    part: str = "all"
    split: str = "test"

    def __post_init__(self) -> None:
        if self.part in SHOTS and self.split != "test":
            raise ValueError(f"part={self.part!r} has split='test' only, not {self.split!r}")


@dataclasses.dataclass(frozen=True)
class Table:
    """How a table is made.

    Attributes:
      settings: The config of each setting.
      columns: In the order of the paper's.
      rows: By the paper's names; those that are missing here have no implementation yet. Rows of
        other names are ours, and come below the paper's, in this order.
      is_error: Whether the numbers are errors in place of accuracies.
    """

    settings: Mapping[str, _Setting]
    columns: tuple[Column, ...]
    rows: Mapping[str, Row]
    is_error: bool = False


@dataclasses.dataclass(frozen=True)
class Paper:
    """What the paper says.

    Attributes:
      title: Of the table.
      metric: Its unit.
      columns: Their names.
      rows: Of every row and column the mean and, where there is one, the standard deviation.
    """

    title: str
    metric: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[tuple[float, ...] | None, ...]]


def paper(name: str) -> Paper:
    """The numbers of a table in the paper."""
    every = json.loads(pathlib.Path(__file__).with_name("paper.json").read_text("utf-8"))
    table = every[name]
    return Paper(
        title=table["title"],
        metric=table["metric"],
        columns=tuple(table["columns"]),
        rows={
            row: tuple(cell and tuple(cell) for cell in cells)
            for row, cells in table["rows"].items()
        },
    )


UNIFORM = "regularizer.uniform_strength"
_ERM, _HAR, _TUNED = Row("erm"), Row("har"), Row("uniform", tunes=UNIFORM)
_DRW = (("reweighting.start_epoch", 80.0),)
_POST_HOC = (("method.logit_adjustment.post_hoc", True),)
_of = functools.partial
_OTHERS = {
    "Co-teaching": Row("co_teaching"),
    "INCV": Row("incv"),
    "MentorNet": Row("mentornet"),
    "L2RW": Row("l2rw"),
    "MW-Net": Row("mw_net"),
    "GCE": Row("gce", (("method.gce.q", 0.7),)),
}


def _uniform(strength: float) -> Row:
    return Row("uniform", ((UNIFORM, strength),))


def _dmi(**present: str) -> Row:
    """With its authors' rate; by setting, which batches have all classes where nearly none has."""
    impossible = {
        setting: f"DMI's gradient is 0 where a batch lacks a class; all are in {batches} of 128"
        for setting, batches in present.items()
    }
    return Row("dmi", (("method.dmi.rate", 1e-5),), impossible=impossible)


def _beside_meta(recipe: Callable[..., config_dict.ConfigDict], *args: Any) -> _Setting:
    """A recipe without 1,000 examples that are known to be labelled rightly, as MW-Net's authors
    have it: they leave the training set of all methods, and some learn from them."""

    def setting() -> config_dict.ConfigDict:
        config = recipe(*args)
        config.data.meta_size = 1000
        return config

    return setting


def _columns(settings: tuple[str, ...], parts: tuple[str, ...]) -> tuple[Column, ...]:
    return tuple(Column(setting, part) for setting in settings for part in parts)


_IMBALANCED = {
    f"cifar{classes}_{name}{ratio}": _of(recipe, classes, ratio)
    for classes in (10, 100)
    for name, recipe in (("longtail", recipes.long_tailed), ("step", recipes.step))
    for ratio in (100, 10)
}

TABLES: Mapping[str, Table] = {
    "cifar10_noisy_rare": Table(
        settings={
            "ratio10": _beside_meta(recipes.noisy_and_rare, 10),
            "ratio100": _beside_meta(recipes.noisy_and_rare, 100),
        },
        columns=_columns(("ratio10", "ratio100"), ("noisy", "clean")),
        rows={
            "ERM": _ERM,
            **_OTHERS,
            "DMI": _dmi(ratio100="0.13% of the batches"),
            "Unif-reg (optimal)": _TUNED,
            "HAR": _HAR,
        },
    ),
    "cifar_hetero": Table(
        settings={
            "cifar10": _beside_meta(recipes.heteroskedastic, 10),
            "cifar100": _beside_meta(recipes.heteroskedastic, 100),
        },
        columns=_columns(("cifar10", "cifar100"), ("noisy", "clean")),
        rows={
            "ERM": _ERM,
            **_OTHERS,
            "DMI": _dmi(cifar100="none of the batches"),
            "Unif-reg (0.1)": _uniform(0.1),
            "Unif-reg (optimal)": _TUNED,
            "HAR": _HAR,
        },
    ),
    "cifar_imbalanced": Table(
        settings=_IMBALANCED,
        columns=tuple(map(Column, _IMBALANCED)),
        rows={
            "ERM": _ERM,
            "Focal": Row("focal"),
            "CB Focal": Row("cb_focal"),
            "LDAM-DRW": Row("ldam", _DRW),
            "BBN": Row("bbn"),
            "HAR-DRW": Row("har", _DRW),
            "ERM-DRW": Row("erm", _DRW),
            "Balanced softmax": Row("balanced_softmax"),
            "Logit adjustment, post hoc": Row("logit_adjustment", _POST_HOC),
            "HAR": _HAR,
            "HAR-LDAM-DRW": Row("har", (*_DRW, ("loss.name", "ldam"))),
            "HAR, logit-adjusted": Row("har", (("loss.name", "logit_adjusted"),)),
        },
        is_error=True,
    ),
    "imdb": Table(
        settings={"imdb": recipes.imdb},
        columns=_columns(("imdb",), ("neg", "pos", "all")),
        rows={
            "0": _ERM,
            "Unif-reg (0.01)": _uniform(0.01),
            "Unif-reg (0.1)": _uniform(0.1),
            "HAR": _HAR,
        },
    ),
    "cifar100": Table(
        settings={"cifar100": _of(recipes.cifar, 100)},
        columns=(Column("cifar100", split="train"), Column("cifar100")),
        rows={
            "0": _ERM,
            "Unif-reg (0.001)": _uniform(0.001),
            "Unif-reg (0.01)": _uniform(0.01),
            "Unif-reg (0.1)": _uniform(0.1),
            "HAR": _HAR,
        },
    ),
    "cifar10_noisy_frequent": Table(
        settings={
            "ratio10": _beside_meta(recipes.clean_and_rare, 10),
            "ratio100": _beside_meta(recipes.clean_and_rare, 100),
        },
        columns=_columns(("ratio10", "ratio100"), ("noisy", "rare")),
        rows={
            "ERM": _ERM,
            **_OTHERS,
            "DMI": _dmi(ratio100="0.04% of the batches"),
            "HAR": _HAR,
        },
    ),
    "weights": Table(
        settings={"cifar10": _beside_meta(recipes.heteroskedastic, 10)},
        columns=(Column("cifar10", "noisy"), Column("cifar10", "clean")),
        rows={
            "ERM": _ERM,
            "Reweight (MW-Net)": Row("mw_net"),
            "Reweight (random)": Row("mw_net", (("method.mw_net.weighting", "random"),)),
            "Reweight (inverse)": Row("mw_net", (("method.mw_net.weighting", "inverse"),)),
            "Unif-reg (optimal)": _TUNED,
            "HAR": _HAR,
            "Adap-reg (random)": Row("har_random"),
            "Adap-reg (inverse)": Row("har_inverse"),
        },
    ),
}
