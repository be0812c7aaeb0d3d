"""What a choice lets a config say.

A choice, such as a network, a method, a source of data or a kind of noise, is something that is
called. What it takes by keyword, with an :class:`Option` beside the type, are its options::

    def dmi(model, optimizer, *, rate: Annotated[float, Option("of its steps", gt=0)] = 1e-4): ...

Everything that a config offers, checks and documents is read from there, so that a choice is one
file, and one line where it gets its name.
"""

import collections.abc
import dataclasses
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

NEEDED = inspect.Parameter.empty
"""The default of an option that has none."""

_BY_KEYWORD = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_SEQUENCES = (tuple, list, collections.abc.Sequence)


@dataclasses.dataclass(frozen=True)
class Option:
    """What is said of an option beside its type and its default.

    Attributes:
      help: What it is, in a line.
      ge, gt, le, lt: The bounds of a number, named as Python's operators.
      unit: Of the number, such as ``pixels``.
      must: What values have to do, such as ``hold positive integers``, where bounds do not say it.
      one_of: The values that there are, where the type does not say it.
      place: Whether it says where or how something is read, which does not change what it is.
    """

    help: str = ""
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    unit: str = ""
    must: str = ""
    one_of: tuple[Any, ...] = ()
    place: bool = False

    @property
    def bounds(self) -> dict[str, float]:
        """Those that there are, by name."""
        named = {"ge": self.ge, "gt": self.gt, "le": self.le, "lt": self.lt}
        return {name: bound for name, bound in named.items() if bound is not None}

    @property
    def rule(self) -> str:
        """What a value must do, in words; empty where everything goes."""
        if self.must:
            return self.must
        low, high = (
            (self.gt if self.ge is None else self.ge),
            (self.lt if self.le is None else self.le),
        )
        unit = f" {self.unit}" if self.unit else ""
        if low is not None and high is not None:
            if (self.gt is None) == (self.lt is None):
                excluded = ", both excluded" if self.lt is not None else ""
                return f"be between {_short(low)} and {_short(high)}{unit}{excluded}"
            least = "at least" if self.gt is None else "above"
            most = "at most" if self.lt is None else "below"
            return f"be {least} {_short(low)} and {most} {_short(high)}{unit}"
        if low is not None and not low:
            return "not be negative" if self.gt is None else "be positive"
        if low is not None:
            return f"be {'at least' if self.gt is None else 'above'} {_short(low)}{unit}"
        if high is not None:
            return f"be {'at most' if self.lt is None else 'below'} {_short(high)}{unit}"
        return ""


class Parameter(NamedTuple):
    """Something that a choice takes by keyword.

    Attributes:
      name: The keyword.
      type: As annotated, without what :class:`Option` says of it.
      default: :data:`NEEDED` where there is none.
      option: None of what the program gives, or of what is not described.
    """

    name: str
    type: Any
    default: Any
    option: Option | None

    @property
    def says(self) -> type | None:
        """The plain type that a config says it by; None where a config cannot."""
        return plain_type(self.type)

    @property
    def one_of(self) -> tuple[Any, ...]:
        """The values that there are; empty where there are more than can be listed."""
        if self.option is not None and self.option.one_of:
            return self.option.one_of
        literal = next((kind for kind in _kinds(self.type) if get_origin(kind) is Literal), None)
        return get_args(literal)


def parameters(choice: Callable[..., Any]) -> tuple[Parameter, ...]:
    """What a choice takes by keyword.

    Of a class its fields, of a function what is keyword-only or has a default; where a type is not
    annotated it is the default's.
    """
    if isinstance(choice, type | types.FunctionType):
        return _read_once(choice)
    return _read(choice)  # of a callable object, which need not be hashable


def _read(choice: Callable[..., Any]) -> tuple[Parameter, ...]:
    known = hints(choice)
    found = []
    for name, parameter in inspect.signature(choice).parameters.items():
        first = not isinstance(choice, type) and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        if parameter.kind in _BY_KEYWORD and not (first and parameter.default is NEEDED):
            annotation = known.get(name, parameter.annotation)
            if annotation is NEEDED:  # there is none
                annotation = type(parameter.default)
            option = next((o for o in _metadata(annotation) if isinstance(o, Option)), None)
            found.append(Parameter(name, _bare(annotation), parameter.default, option))
    return tuple(found)


_read_once = functools.cache(_read)  # a config asks for the same thousands of times


def options(choice: Callable[..., Any], *, own: bool = False) -> dict[str, Parameter]:
    """The options of a choice by name, those of groups of options that it takes among them.

    Args:
      choice: Something that is called.
      own: Whether it is a person's own, who need not describe its options: then everything that a
        config can say and the program does not give is one.
    """
    found = {}
    for parameter in parameters(choice):
        if (group := _group(parameter)) is not None:
            found.update(options(group))
        elif parameter.option is not None or (own and parameter.says is not None):
            found[parameter.name] = parameter
    return found


def make(
    choice: Callable[..., Any],
    *args: Any,
    chosen: Mapping[str, Any],
    given: Mapping[str, Any] | None = None,
) -> Any:
    """Calls a choice.

    Args:
      choice: Something that is called.
      *args: Its first arguments.
      chosen: Values of options by name; None stands for the default, and others than its own are
        left out.
      given: What the program gives to whom takes it: to keywords of these names, or to ``**``.
    """
    given = given or {}
    keywords = {}
    for parameter in parameters(choice):
        name = parameter.name
        if (group := _group(parameter)) is not None and name not in given:
            keywords[name] = make(group, chosen=chosen, given=given)
        elif name in given:
            keywords[name] = given[name]
        elif chosen.get(name) is not None:
            keywords[name] = chosen[name]
    if any(p.kind is p.VAR_KEYWORD for p in inspect.signature(choice).parameters.values()):
        keywords = {**given, **keywords}
    return choice(*args, **keywords)


def plain_type(annotation: Any) -> type | None:
    """The one of bool, int, float, str and tuple that an annotation comes down to, if any does."""
    plain = {_plain(kind) for kind in _kinds(annotation)} - {None}
    if plain == {int, float}:
        return float
    return plain.pop() if len(plain) == 1 else None


def sayable(annotation: Any) -> Any:
    """An annotation without what a config cannot say, such as ``pathlib.Path``."""
    kinds = [kind for kind in _kinds(annotation) if _plain(kind) is not None]
    return Union[tuple(kinds)]  # noqa: UP007  # of as many as there are


def _plain(kind: Any) -> type | None:
    if get_origin(kind) is Literal:
        return type(get_args(kind)[0])
    origin = get_origin(kind) or kind
    if origin in _SEQUENCES:
        return tuple
    return origin if origin in (bool, int, float, str) else None


def _kinds(annotation: Any) -> Iterator[Any]:
    """The members of a union, or the one type."""
    annotation = _bare(annotation)
    if get_origin(annotation) in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from _kinds(member)
    else:
        yield annotation


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _metadata(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()


def _group(parameter: Parameter) -> type | None:
    """The class of a group of options, which is a dataclass some of whose fields are options."""
    if parameter.option is not None:
        return None
    kinds = (kind for kind in _kinds(parameter.type) if isinstance(kind, type))
    return next((kind for kind in kinds if dataclasses.is_dataclass(kind) and options(kind)), None)


def hints(choice: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function or of a class's fields, as types."""
    while hasattr(choice, "func"):  # of functools.partial
        choice = choice.func
    try:
        return typing.get_type_hints(choice, include_extras=True)
    except (NameError, TypeError, AttributeError):  # names that are there for type checkers only
        classes = reversed(choice.__mro__) if isinstance(choice, type) else (choice,)
        return {name: kind for each in classes for name, kind in _evaluated(each)}


def _evaluated(owner: Any) -> Iterator[tuple[str, Any]]:
    """Those annotations that can be evaluated, each by itself."""
    names = vars(sys.modules[owner.__module__]) if owner.__module__ in sys.modules else {}
    for name, annotation in inspect.get_annotations(owner).items():
        if isinstance(annotation, str):
            try:
                annotation = eval(annotation, dict(names))
            except Exception:
                continue
        yield name, annotation


def _short(number: float) -> str:
    text = f"{number:g}"
    if number >= 1e5 and text == f"1{'0' * (len(text) - 1)}":
        return f"1e{len(text) - 1}"
    return text.replace("e+0", "e")
