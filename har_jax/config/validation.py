"""Checks every key and value of a config, before data are loaded and anything is compiled.

What values there are is said beside what they configure; Pydantic compares, in its strict mode, so
that true is not 1. Here is only how its findings are told.
"""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

import pydantic
from ml_collections import config_dict
from typing_extensions import TypedDict

from har_jax.config import consistency, own
from har_jax.config.defaults import OPTIONS, base, flatten, join
from har_jax.config.errors import ConfigError, unknown_key
from har_jax.config.schema import SECTIONS, Selector
from har_jax.options import NEEDED, Option, Parameter, make, sayable

_STRICT = pydantic.ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
_STAND_INS = {"num_classes": 2, "vocabulary_size": 3, "counts": (1, 1)}  # before data are known
_BOUNDS = ("greater_than", "less_than", "finite_number")


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
    own.declare(config)
    flat = flatten(config)
    _check_keys(flat)
    for path, section in SECTIONS.items():
        _check_values(path, section.plain, flat)
        for selector in section.selectors:
            _check_choice(path, selector, flat)
    _check_methods(flat)
    consistency.check(flat)


def _check_keys(flat: Mapping[str, Any]) -> None:
    known = flatten(base())
    for key in flat:
        declared = key.startswith("method.") or f".{OPTIONS}." in key  # by a person's own choice
        if key not in known and not declared:
            raise unknown_key(key, known)


def _check_choice(path: str, selector: Selector, flat: Mapping[str, Any]) -> None:
    """An option must be set if the choice needs it, and must not be if nobody reads it."""
    key = join(path, selector.name)
    chosen = flat[key]
    if not isinstance(chosen, str):
        raise ConfigError(f"config.{key}={chosen!r} has the wrong type: str needed")
    choice, is_own = own.choice_of(path, selector, chosen), own.is_own(selector, chosen)
    mine = own.options_of(path, selector, chosen)
    for name, readers in sorted(selector.read_by().items()):
        option = join(path, name)
        if flat[option] is not None and (is_own or name not in mine):
            raise ConfigError(
                f"config.{option}={flat[option]!r} is not read by config.{key}={chosen!r}, only by "
                f"{', '.join(readers)}: remove one of the two"
            )
    where = join(path, OPTIONS) if is_own else path
    _check_values(where, mine, flat, needed_by=f"config.{key}={chosen!r}")
    if dataclasses.is_dataclass(choice):
        chosen_options = {name: flat[join(where, name)] for name in mine}
        _check_together(f"config.{key}={chosen!r}", where, choice, chosen_options, own=is_own)


def _check_together(
    said: str, path: str, choice: Any, chosen: Mapping[str, Any], *, own: bool
) -> None:
    """Makes a choice, which looks at its options side by side."""
    try:
        make(choice, chosen=chosen, given=_STAND_INS)
    except ValueError as error:
        text = str(error)
        about_option = any(text.startswith((f"{name}=", f"{name} ")) for name in chosen)
        told = f"config.{path}.{text}" if about_option else f"{said} cannot be made: {text}"
        raise ConfigError(told) from error
    except Exception as error:
        if not own:
            raise
        raise ConfigError(f"{said} cannot be made: {type(error).__name__}: {error}") from error


def _check_methods(flat: Mapping[str, Any]) -> None:
    names = flat["methods"]
    if not names:
        raise ConfigError(f"config.methods is empty: name some of {', '.join(own.METHODS)}")
    for value in names:
        if not isinstance(value, str):
            raise ConfigError(f"config.methods={names} holds {value!r}: methods go by name")
    called = [own.method_name(value) for value in names]
    if len(set(names)) < len(names):
        raise ConfigError(f"config.methods={names} names a method twice: remove one")
    for name in called:
        if called.count(name) > 1:
            raise ConfigError(
                f"config.methods={names} names two methods that are called {name}, as would be "
                "their folders: rename one"
            )
    for value in names:
        path, options = own.options_of_method(value)
        if value not in own.METHODS:
            _check_values(path, options, flat, needed_by=f"config.methods={value!r}")


def _check_values(
    path: str,
    parameters: Mapping[str, Parameter],
    flat: Mapping[str, Any],
    needed_by: str | None = None,
) -> None:
    """Checks values of some options.

    Args:
      path: Of their section.
      parameters: Their descriptions, by name.
      flat: The whole config.
      needed_by: The choice whose options they are, where None stands for what is not set.
    """
    values = {}
    for name, parameter in parameters.items():
        value = flat[join(path, name)]
        unset = value is None or (value == "" and parameter.default is NEEDED)
        if unset and (needed_by is not None or parameter.default is None):
            continue
        if isinstance(value, bool) and parameter.says is not bool:  # Pydantic takes it for a 1
            raise _wrong_type(join(path, name), value, parameter)
        values[name] = value
    try:
        pydantic.TypeAdapter(_table(parameters)).validate_python(values)
    except pydantic.ValidationError as error:
        found = error.errors(include_url=False, include_context=False)[0]
        name = str(found["loc"][0])
        key, parameter = join(path, name), parameters[name]
        if found["type"] == "missing":
            raise ConfigError(f"config.{key} is not set, but {needed_by} needs it") from error
        raise _refusal(key, values[name], parameter, found) from error


def _refusal(key: str, value: Any, parameter: Parameter, found: Any) -> ConfigError:
    """What is told of a value that does not fit."""
    option = parameter.option or Option()
    if parameter.says is tuple and isinstance(value, tuple) and option.must:
        return ConfigError(f"config.{key}={value} must {option.must}")
    if parameter.says is tuple or len(found["loc"]) > 1 + _in_union(parameter):
        return _wrong_type(key, value, parameter)
    if found["type"] == "literal_error":
        shown = ", ".join(map(str, parameter.one_of))
        return ConfigError(f"config.{key}={value!r} is unknown: take one of {shown}")
    if found["type"].startswith(_BOUNDS):
        rule = option.rule if found["type"] != "finite_number" else "be finite"
        return ConfigError(f"config.{key}={value!r} is impossible: it must {rule}")
    return _wrong_type(key, value, parameter)


def _in_union(parameter: Parameter) -> bool:
    return get_origin(sayable(parameter.type)) is Union


def _wrong_type(key: str, value: Any, parameter: Parameter) -> ConfigError:
    says = parameter.says
    plain = says if says is not tuple else None
    needed = plain.__name__ if plain else str(parameter.type).replace("typing.", "")
    return ConfigError(f"config.{key}={value!r} has the wrong type: {needed} needed")


def _table(parameters: Mapping[str, Parameter]) -> Any:
    """The type of a mapping from names of options to their values."""
    fields = {}
    for name, parameter in parameters.items():
        kind = _checked(sayable(parameter.type), parameter.option)
        if parameter.option is not None and parameter.option.one_of:
            kind = Literal[parameter.option.one_of]
        fields[name] = Required[kind] if parameter.default is NEEDED else NotRequired[kind]
    make_type: Any = TypedDict
    table = make_type("Options", fields)
    table.__pydantic_config__ = _STRICT
    return table


def _checked(annotation: Any, option: Option | None) -> Any:
    """An annotation with the bounds that :class:`Option` gives, as Pydantic knows them."""
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        return _checked(inner, next((m for m in metadata if isinstance(m, Option)), None))
    arguments = get_args(annotation)
    if sayable(annotation) is annotation and get_origin(annotation) in (Union,):
        return Union[tuple(_checked(member, option) for member in arguments)]  # noqa: UP007
    fields: dict[str, Any] = dict(option.bounds) if option else {}
    if arguments and get_origin(annotation) is not Literal:  # of a sequence
        elements = [_checked(each, None) for each in arguments if each is not ...]
        several = get_origin(annotation) is not tuple or ... in arguments
        annotation = tuple[elements[0], ...] if several else tuple[tuple(elements)]  # type: ignore
        fields = {"min_length": 1} if option and option.must else {}
    elif annotation is list:
        annotation = tuple
    return Annotated[annotation, pydantic.Field(**fields)]
