"""All keys of a config, for people: ``--help``, and docs/config.md, which this module prints."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from har_jax.config.defaults import OPTIONS, join
from har_jax.config.schema import SECTIONS, Section, Selector
from har_jax.methods import METHODS
from har_jax.options import NEEDED, Parameter, options

_HEAD = """\
# The keys of a config

Every key with its type, default and bounds, section by section; `python -m har_jax --help` prints
the same. An option that a choice does not read may not be set, and None stands for its default.
This page is made by `python -m har_jax.config.document > docs/config.md`.
"""


class _Row(NamedTuple):
    key: str
    type: str
    default: str
    rule: str
    help: str


def _row(key: str, parameter: Parameter) -> _Row:
    option = parameter.option
    values = " | ".join(map(str, parameter.one_of))
    default = "needed" if parameter.default is NEEDED else _value(parameter.default)
    says = parameter.says
    return _Row(
        key,
        values or ("" if says is None else says.__name__),
        default,
        "" if option is None or not option.rule else f"must {option.rule}",
        "" if option is None else option.help,
    )


def _value(value: Any) -> str:
    return repr(value) if isinstance(value, str) else str(value)


def _parts() -> Iterator[tuple[str, str, list[_Row]]]:
    """Titles, what is to be said, and rows."""
    for path, section in SECTIONS.items():
        rows = [_row(join(path, name), each) for name, each in section.plain.items()]
        rows += [_selecting(path, selector) for selector in section.selectors]
        yield f"config.{path}" if path else "config", _about(path, section), rows
        for selector in section.selectors:
            for name, choice in selector.choices.items():
                key = join(path, selector.name)
                named = f"{name}:NAME" if name == selector.argument else name
                found = options(choice)
                rows = [_row(join(path, option), each) for option, each in found.items()]
                yield f"config.{key}={named}", _first_line(choice), rows


def _about(path: str, section: Section) -> str:
    if not path:
        return f"The methods are {', '.join(METHODS)}, or package.module:NAME for one's own."
    if (selector := section.own) is not None:
        return (
            f"{join(path, selector.name)} may be package.module:NAME, one's own, whose options are "
            f"config.{join(path, OPTIONS)}.KEY."
        )
    return ""


def _selecting(path: str, selector: Selector) -> _Row:
    names = [f"{name}:NAME" if name == selector.argument else name for name in selector.choices]
    return _Row(
        join(path, selector.name), " | ".join(names), repr(selector.default), "", selector.help
    )


def _first_line(choice: Any) -> str:
    return (choice.__doc__ or "").strip().partition("\n")[0]


def as_text() -> str:
    """For a terminal."""
    lines = []
    for title, about, rows in _parts():
        lines += ["", title + (f": {about}" if about else "")]
        for row in rows:
            said = "; ".join(filter(None, (row.help, row.rule)))
            lines += [f"  --config.{row.key} ({row.type}; {row.default})", f"      {said}"]
    return "\n".join(lines)


def as_markdown() -> str:
    """For docs/config.md."""
    lines = [_HEAD]
    for title, about, rows in _parts():
        lines += [f"{'###' if '=' in title else '##'} {title}", ""]
        lines += [_cell(about), ""] if about else []
        if rows:
            lines += ["| key | type | default | values | |", "| --- | --- | --- | --- | --- |"]
            lines += [
                f"| `{row.key}` | {_cell(row.type)} | `{_cell(row.default)}` | {_cell(row.rule)} | "
                f"{_cell(row.help)} |"
                for row in rows
            ]
            lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("``", "`")


if __name__ == "__main__":
    print(as_markdown(), end="")
