"""What a choice lets a config say is read from its signature, however that is written."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, Union

import pytest
from flax import linen as nn

from har_jax.options import NEEDED, Option, make, options, parameters, plain_type

if TYPE_CHECKING:
    from nowhere import Thing


@dataclasses.dataclass(frozen=True)
class Sizes:
    width: Annotated[int, Option("in pixels", ge=1)] = 3
    hidden: int = 5


def load(
    name,
    *,
    root: Annotated[str | pathlib.Path, Option("the folder")],
    kind: Annotated[Literal["a", "b"], Option("which")] = "a",
    sizes: Sizes | None = None,
    folder: pathlib.Path | None = None,
    plain: bool = True,
):
    return name, root, kind, sizes, folder, plain


class Net(nn.Module):
    num_classes: int
    depth: Annotated[int, Option("layers", gt=0)] = 2
    act: Any = nn.relu


class Later(nn.Module):
    thing: "Thing | None" = None
    depth: "int" = 2


def test_options_are_what_is_described():
    found = options(load)
    assert list(found) == ["root", "kind", "width"]
    assert found["root"].default is NEEDED
    assert found["kind"].one_of == ("a", "b")
    assert found["width"].says is int
    assert list(options(Net)) == ["depth"]


def test_of_a_persons_own_all_that_a_config_can_say_are_options():
    assert list(options(load, own=True)) == ["root", "kind", "width", "plain"]
    assert [name for name in options(Net, own=True) if name != "name"] == ["num_classes", "depth"]
    assert options(Later, own=True)["depth"].default == 2


def test_a_choice_is_called_with_what_is_chosen_and_what_is_given():
    chosen = {"root": "r", "width": 7, "kind": None, "unread": 1}
    made = make(load, "n", chosen=chosen, given={"folder": pathlib.Path("f"), "other": 1})
    assert made == ("n", "r", "a", Sizes(7), pathlib.Path("f"), True)
    assert make(load, "n", chosen=chosen, given={"sizes": None})[3] is None
    assert make(Net, chosen={"depth": 4}, given={"num_classes": 3}).depth == 4
    rest = lambda x, **rest: (x, rest)
    assert make(rest, 1, chosen={"a": 2}, given={"b": 3}) == (1, {"b": 3})


@pytest.mark.parametrize(
    ("annotation", "plain"),
    [
        (int, int),
        (Optional[int], int),  # noqa: UP045
        (float | int, float),
        (Union[str, pathlib.Path], str),  # noqa: UP007
        (Sequence[int], tuple),
        (tuple[int, ...] | None, tuple),
        (list, tuple),
        (Literal[1, 2], int),
        (bool, bool),
        (int | str, None),
        (Any, None),
        (Sizes, None),
        (int | tuple[int, int], None),
    ],
)
def test_types_come_down_to_plain_ones(annotation, plain):
    assert plain_type(annotation) is plain


@pytest.mark.parametrize(
    ("option", "rule"),
    [
        (Option(), ""),
        (Option(ge=0), "not be negative"),
        (Option(gt=0), "be positive"),
        (Option(ge=1), "be at least 1"),
        (Option(lt=2.5), "be below 2.5"),
        (Option(ge=0, le=1), "be between 0 and 1"),
        (Option(gt=0, lt=1), "be between 0 and 1, both excluded"),
        (Option(ge=0, lt=1), "be at least 0 and below 1"),
        (Option(gt=0, le=1e6), "be above 0 and at most 1e6"),
        (Option(ge=8, le=4096, unit="pixels"), "be between 8 and 4096 pixels"),
        (Option(ge=1, must="hold words"), "hold words"),
    ],
)
def test_bounds_in_words(option, rule):
    assert option.rule == rule


def test_what_is_positional_of_a_function_is_no_keyword():
    assert "name" not in [parameter.name for parameter in parameters(load)]
