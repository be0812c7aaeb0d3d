"""A person's own network, method, source or filter, by its import path."""

import difflib
import importlib
from collections.abc import Callable, Mapping
from typing import Any

from ml_collections import config_dict

from har_jax.config.contracts import (
    CONTRACTS,
    as_linen,
    check_method,
    is_sayable,
    refuse_unsayable,
)
from har_jax.config.defaults import OPTIONS, base, flatten, initial, join
from har_jax.config.errors import ConfigError, unknown_key
from har_jax.config.schema import GIVEN_TO_METHODS, SECTIONS, Selector, options_of_entry
from har_jax.methods import METHODS, Entry
from har_jax.options import NEEDED, Parameter, options


def is_own(selector: Selector, value: str) -> bool:
    """Whether a name is the import path of a person's own choice."""
    module, _, name = value.partition(":")
    return selector.given is not None and bool(name) and module not in ("", selector.argument)


def choice_of(path: str, selector: Selector, value: str) -> Callable[..., Any]:
    """What a name stands for: a choice of the program, or a person's own.

    Args:
      path: Of the section.
      selector: Of the choices.
      value: The name.

    Raises:
      ConfigError: if there is none.
    """
    key = join(path, selector.name)
    if (kind := _kind(selector, value)) is not None:
        return selector.choices[kind]
    if is_own(selector, value):
        own = _import(key, value)
        CONTRACTS[key](f"config.{key}={value!r}", own)
        return as_linen(own) if key == "model.name" else own
    if selector.argument is None:
        remedy = f"take one of {', '.join(selector.choices)}"
    else:
        names = ", ".join(name for name in selector.choices if name != selector.argument)
        remedy = f"take {names}, or {selector.argument}:NAME such as {selector.argument}:cifar10"
    if selector.given is not None:
        remedy += "; or package.module:NAME for your own"
    raise ConfigError(f"config.{key}={value!r} is unknown: {remedy}")


def argument_of(selector: Selector, value: str) -> tuple[str, ...]:
    """What goes on behind the colon of ``tfds:NAME``; nothing of other names."""
    own = is_own(selector, value)
    return () if own or ":" not in value else (value.partition(":")[2],)


def options_of(path: str, selector: Selector, value: str) -> dict[str, Parameter]:
    """The options of a choice by name.

    Raises:
      ConfigError: if there is no such choice, or a config cannot say what it needs.
    """
    choice = choice_of(path, selector, value)
    if not is_own(selector, value):
        return options(choice)
    given = selector.given or frozenset()
    refuse_unsayable(f"config.{join(path, selector.name)}={value!r}", [choice], given)
    found = options(choice, own=True)
    return {name: found[name] for name in found if name not in given and is_sayable(found[name])}


def method_name(value: str) -> str:
    """The name of a method, by which its folder and the section of its options are called."""
    return value.rpartition(":")[2]


def entry_of(value: str) -> Entry:
    """The method that a config names.

    Raises:
      ConfigError: if there is none.
    """
    if value in METHODS:
        return METHODS[value]
    if ":" not in value:
        raise ConfigError(
            f"config.methods={value!r} is unknown: take some of {', '.join(METHODS)}, or "
            """package.module:NAME for your own; for several, write """
            """--config.methods='("erm","har")'"""
        )
    own = _import("methods", value)
    said = f"config.methods={value!r}"
    entry = own._replace(section=None) if isinstance(own, Entry) else Entry(own)
    check_method(said, method_name(value), entry.make)
    refuse_unsayable(said, entry.parts, GIVEN_TO_METHODS)
    return entry


def options_of_method(value: str) -> tuple[str, dict[str, Parameter]]:
    """The section of a method's options, and these by name."""
    entry, own = entry_of(value), value not in METHODS
    found = options_of_entry(entry, own=own)
    found = {name: found[name] for name in found if not own or is_sayable(found[name])}
    return entry.section or f"method.{method_name(value)}", found


def estimates(value: str, flat: Mapping[str, Any]) -> bool:
    """Whether a method needs what is estimated out of sample.

    Args:
      value: As the config names it.
      flat: The whole config.
    """
    entry = entry_of(value)
    return entry.estimates or entry.labels is not None or wants_noise_rate(value, flat)


def wants_noise_rate(value: str, flat: Mapping[str, Any]) -> bool:
    """Whether a method takes a noise rate that the config does not say."""
    path, options = options_of_method(value)
    return "noise_rate" in options and flat[join(path, "noise_rate")] is None


def sees_meta(value: str, flat: Mapping[str, Any]) -> bool:
    """Whether a method learns from examples that are known to be labelled rightly.

    Args:
      value: As the config names it.
      flat: The whole config.

    Raises:
      ConfigError: if a person's own does not say.
    """
    path, options = options_of_method(value)
    try:
        return bool(entry_of(value).sees_meta({name: flat[join(path, name)] for name in options}))
    except Exception as error:  # it is a program, and can fail in any way
        raise ConfigError(
            f"config.methods={value!r}: sees_meta fails: {type(error).__name__}: {error}: a "
            "function of a mapping of its options is needed"
        ) from error


def declare(config: config_dict.ConfigDict) -> dict[str, Parameter]:
    """Gives a config the keys of its own choices' options, with their types, in place.

    Returns:
      These options, by key.

    Raises:
      ConfigError: if the config lacks a key that all have, a choice is not there, or the config
        has options that it has not.
    """
    given, declared = flatten(config), dict[str, Parameter]()
    for key in flatten(base()):
        if key not in given:
            raise ConfigError(f"config.{key} is missing: start from har_jax.config.base()")
    for path, section in SECTIONS.items():
        if (selector := section.own) is None:
            continue
        part = config
        for name in path.split("."):
            part = part[name]
        value = part[selector.name]
        if not isinstance(value, str):  # told of where types are compared
            continue
        choice_of(path, selector, value)
        own = is_own(selector, value)
        for key, option in () if own else part[OPTIONS].items():
            raise ConfigError(
                f"config.{path}.{OPTIONS}.{key}={option!r} is not read by "
                f"config.{join(path, selector.name)}={value!r}, only by package.module:NAME of "
                "your own: remove one of the two"
            )
        found = options_of(path, selector, value) if own else {}
        _declare(config, part, OPTIONS, join(path, OPTIONS), found)
        declared |= {join(join(path, OPTIONS), key): found[key] for key in found}
    names = {
        method_name(value): value
        for value in (config.methods if isinstance(config.methods, (tuple, list)) else ())
        if isinstance(value, str) and value not in METHODS and ":" in value
    }
    known = {path.removeprefix("method.") for path in SECTIONS if path.startswith("method.")}
    for name in {*config.method, *names} - known:
        if name not in names and len(config.method[name]):
            raise ConfigError(
                f"config.method.{name} is of a method that config.methods does not name: add it "
                "there, or remove this"
            )
        found = options_of_method(names[name])[1] if name in names else {}
        _declare(config, config.method, name, f"method.{name}", found)
        declared |= {f"method.{name}.{key}": found[key] for key in found}
    return declared


def _declare(
    config: config_dict.ConfigDict,
    part: config_dict.ConfigDict,
    name: str,
    path: str,
    found: Mapping[str, Parameter],
) -> None:
    """Makes a section of some options, with the values that there are."""
    given = dict(part[name]) if part.get(name) is not None else {}
    for key in given:
        if key not in found:
            known = [*flatten(config), *(f"{path}.{other}" for other in found)]
            known = [other for other in known if other != f"{path}.{key}"]
            raise unknown_key(f"{path}.{key}", known)
    typed = config_dict.ConfigDict(
        {key: initial(parameter, parameter.default) for key, parameter in found.items()}
    )
    for key, value in given.items():
        if value is None and found[key].default not in (None, NEEDED):
            raise ConfigError(
                f"config.{path}.{key}=None is impossible: None stands for what is not set; the "
                f"default is {found[key].default!r}"
            )
        try:
            typed[key] = value
        except TypeError as error:
            says = found[key].says
            raise ConfigError(
                f"config.{path}.{key}={value!r} has the wrong type: "
                f"{says.__name__ if says else says} needed"
            ) from error
    with part.unlocked():
        part[name] = typed


def _kind(selector: Selector, value: str) -> str | None:
    """The name of the program's choice, which may go on behind a colon."""
    if value in selector.choices and value != selector.argument:
        return value
    kind, _, argument = value.partition(":")
    return kind if kind == selector.argument and argument else None


def _import(key: str, value: str) -> Any:
    said = f"config.{key}={value!r}"
    name, _, attribute = value.partition(":")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(f"{said}: {name} cannot be imported: {error}") from error
        raise ConfigError(
            f"{said}: there is no module {error.name}: put {error.name.split('.')[0]}.py beside "
            "the config file, or install it"
        ) from error
    except (Exception, SystemExit) as error:  # a module is a program, and can fail in any way
        raise ConfigError(
            f"{said}: {name} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    try:
        return getattr(module, attribute)
    except AttributeError as error:
        near = difflib.get_close_matches(attribute, dir(module), n=1)
        remedy = f"did you mean {near[0]}?" if near else "see its spelling"
        raise ConfigError(f"{said}: {module.__file__} has no {attribute}: {remedy}") from error
