"""What is tuned: a method's option, and the values among which the best is looked for."""

import ast
import dataclasses
import sys
from collections.abc import Sequence

from har_jax.config import ConfigError, own
from har_jax.config.defaults import join
from har_jax.methods import METHODS


@dataclasses.dataclass(frozen=True)
class Candidates:
    """The values of one option of a method.

    Attributes:
      method: As a config names it.
      key: Of the option, such as ``regularizer.strength``.
      values: Ascending, each once.
    """

    method: str
    key: str
    values: tuple[float, ...]

    @property
    def name(self) -> str:
        """Of the method, as reports have it."""
        return own.method_name(self.method)

    @property
    def option(self) -> str:
        """The key within its section."""
        return self.key.rpartition(".")[2]


def strength_key(method: str) -> str:
    """The key of a method's strength.

    Raises:
      ConfigError: if there is no such method, or it has no strength.
    """
    path, options = own.options_of_method(method)
    if len(names := [name for name in options if _is_strength(name)]) == 1:
        return join(path, names[0])
    having = [name for name in METHODS if any(map(_is_strength, own.options_of_method(name)[1]))]
    told = f"has {' and '.join(names)}" if names else "has no strength"
    others = f"; of its own options name one, --grid={method}.{next(iter(options), 'OPTION')}=..."
    raise ConfigError(
        f"--methods={method} {told}: take some of {', '.join(having)}{others if options else ''}"
    )


def with_strength(methods: Sequence[str]) -> list[str]:
    """Those of some methods that have a strength."""
    return [m for m in methods if sum(map(_is_strength, own.options_of_method(m)[1])) == 1]


def of_strengths(methods: Sequence[str], strengths: str) -> list[Candidates]:
    """The same strengths for all methods.

    Args:
      methods: As a config names them.
      strengths: Numbers with commas between them.

    Raises:
      ConfigError: if a method has no strength, or the numbers are none.
    """
    values = _numbers("--strengths", strengths)
    return [Candidates(method, strength_key(method), values) for method in methods]


def of_grid(text: str) -> Candidates:
    """Reads ``METHOD.OPTION=VALUE,VALUE``.

    Raises:
      ConfigError: if it is something else, or the method has no such option.
    """
    name, _, values = text.partition("=")
    method, _, option = name.rpartition(".")
    if not method:
        raise ConfigError(f"--grid={text} must be METHOD.OPTION=VALUES, such as gce.q=0.1,0.3")
    path, options = own.options_of_method(method)
    numeric = [name for name, each in options.items() if each.says in (int, float)]
    if option not in numeric:
        raise ConfigError(
            f"--grid={text}: {method} has no number called {option}: take one of "
            f"{', '.join(numeric) or 'another method'}"
        )
    return Candidates(method, join(path, option), _numbers(f"--grid={name}", values))


def refuse_clashes(tuned: Sequence[Candidates]) -> None:
    """Raises :class:`har_jax.config.ConfigError` if these cannot be tuned side by side."""
    for place, one in enumerate(tuned):
        for other in tuned[:place]:
            if one.name == other.name:
                raise ConfigError(
                    f"{one.method} is tuned twice, by {other.key} and {one.key}: name it once"
                )
            if one.key == other.key:
                raise ConfigError(
                    f"{other.method} and {one.method} both read config.{one.key}, which has one "
                    "value: tune one at a time, each in its own --workdir"
                )
            if len(one.values) != len(other.values):
                raise ConfigError(
                    f"{other.method} has {len(other.values)} values and {one.method} "
                    f"{len(one.values)}: give each as many, so that all have the same budget"
                )


def _is_strength(option: str) -> bool:
    return option == "strength" or option.endswith("_strength")


def _numbers(flag: str, text: str) -> tuple[float, ...]:
    """Numbers with commas between them, ascending."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise ConfigError(f"{flag}={text} is empty: give some, such as {flag}=0.1,0.3,1")
    numbers = [_number(flag, part) for part in parts]
    for number in numbers:
        if numbers.count(number) > 1:
            raise ConfigError(f"{flag}={text} names {number:g} twice: remove one")
    return tuple(sorted(numbers))


def _number(flag: str, text: str) -> float:
    try:
        number = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        number = None
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise ConfigError(f"{flag}: {text} is no number")
    if not 0 <= number <= sys.float_info.max:
        raise ConfigError(f"{flag}: {text} is impossible: it must be finite, and 0 or more")
    return number
