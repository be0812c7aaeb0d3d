"""All keys of a config: its sections, the choices in them, and what these can say.

The one module that knows every choice there is.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from har_jax.config import sections
from har_jax.data.corruption import IMBALANCES, NOISES
from har_jax.data.sources import SOURCES
from har_jax.estimation.groupings import GROUPINGS
from har_jax.estimation.noises import NOISES as NOISES_SHOWN
from har_jax.linen.layers import FILTERS
from har_jax.losses import LOSSES
from har_jax.methods import METHODS, Entry, StepOptions
from har_jax.methods.shared.entry import FACTS, GIVEN_TO_LOSSES
from har_jax.models import NETWORKS
from har_jax.options import Parameter, options
from har_jax.train.optimizer import OPTIMIZERS, SCHEDULES


class Selector(NamedTuple):
    """A key that names one choice of several, whose options lie in the same section.

    Attributes:
      name: Of the key, within its section.
      choices: By name.
      default: The name that is taken.
      help: What it is, in a line.
      given: If a person's own may be named by its import path, whose options are then in
        ``SECTION.options``: what the program gives to it, which are no options. None if not.
      argument: The choice that goes on behind a colon, as ``tfds:NAME`` does.
    """

    name: str
    choices: Mapping[str, Callable[..., Any]]
    default: str
    help: str
    given: frozenset[str] | None = None
    argument: str | None = None

    def read_by(self) -> dict[str, dict[str, Parameter]]:
        """By option, the choices that read it."""
        found: dict[str, dict[str, Parameter]] = {}
        for choice, make in self.choices.items():
            for name, parameter in options(make).items():
                found.setdefault(name, {})[choice] = parameter
        return found


class Section(NamedTuple):
    """A part of a config.

    Attributes:
      plain: What is read whatever is chosen.
      selectors: The choices.
    """

    plain: Mapping[str, Parameter] = {}
    selectors: tuple[Selector, ...] = ()

    @property
    def own(self) -> Selector | None:
        """The choice that may be a person's own."""
        return next((each for each in self.selectors if each.given is not None), None)


GIVEN_TO_METHODS = frozenset({*StepOptions.__annotations__, *FACTS, *GIVEN_TO_LOSSES})


def options_of_entry(entry: Entry, *, own: bool = False) -> dict[str, Parameter]:
    """The options of a method, by name."""
    found = {}
    for part in entry.parts:
        found.update(options(part, own=own))
    return {name: found[name] for name in found if name not in GIVEN_TO_METHODS}


def _of_methods(names: Iterable[str]) -> Section:
    plain: dict[str, Parameter] = {}
    for name in names:
        plain.update(options_of_entry(METHODS[name]))
    return Section(plain)


_SHARED = [name for name, entry in METHODS.items() if entry.section == "regularizer"]

SECTIONS: Mapping[str, Section] = {
    "": Section(options(sections.General)),
    "data": Section(
        options(sections.Data),
        (
            Selector(
                "source",
                SOURCES,
                "digits",
                "where the data come from",
                frozenset({"data_dir", "parts", "crop"}),
                argument="tfds",
            ),
            Selector(
                "evaluate_on",
                {"test": sections.on_test, "validation": sections.on_validation},
                "test",
                "what is evaluated on",
            ),
        ),
    ),
    "data.noise": Section({}, (Selector("kind", NOISES, "none", "label noise that is made"),)),
    "data.imbalance": Section(
        {}, (Selector("kind", IMBALANCES, "none", "class imbalance that is made"),)
    ),
    "model": Section(
        options(sections.Model),
        (
            Selector(
                "name",
                NETWORKS,
                "convnet",
                "the network",
                frozenset({"num_classes", "dtype", "vocabulary_size", "parent", "name"}),
            ),
        ),
    ),
    "optimizer": Section(
        options(sections.Optimizer),
        (
            Selector("name", OPTIMIZERS, "sgd", "the optimizer"),
            Selector("schedule", SCHEDULES, "cosine", "of the learning rate"),
        ),
    ),
    "pretrain": Section(options(sections.Pretrain)),
    "estimate": Section(
        options(sections.Estimate),
        (
            Selector("groups", GROUPINGS, "given", "training examples that share a tau"),
            Selector("noise", NOISES_SHOWN, "error", "that an example shows, of which I is a mean"),
        ),
    ),
    "train": Section(options(sections.Train)),
    "regularizer": _of_methods(_SHARED)._replace(
        selectors=(
            Selector(
                "layers",
                FILTERS,
                "normalization",
                "the activations that R is taken at",
                frozenset(),
            ),
        )
    ),
    "loss": Section(
        {},
        (
            Selector(
                "name",
                LOSSES,
                "cross_entropy",
                "what har and uniform minimize, R being of it",
                GIVEN_TO_LOSSES,
            ),
        ),
    ),
    "reweighting": Section(options(sections.Reweighting)),
    **{
        f"method.{name}": _of_methods([name])
        for name, entry in METHODS.items()
        if entry.section is None and options_of_entry(entry)
    },
}
