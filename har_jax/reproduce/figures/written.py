"""A figure in files: SVG, PNG, and the numbers that are drawn, as JSON."""

import dataclasses
import io
import pathlib
from collections.abc import Mapping
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from har_jax.report.figures import svg
from har_jax.system.files import write_by, write_json, write_text

_DOTS_PER_INCH = 130


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A figure, and what it says in numbers, as JSON has them."""

    figure: Figure
    numbers: Mapping[str, Any]


def write(folder: pathlib.Path, name: str, drawn: Drawn) -> None:
    """Writes ``NAME.svg``, ``NAME.png`` and ``NAME.json``, and says so."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / f"{name}.svg", svg(drawn.figure))
    buffer = io.BytesIO()
    with matplotlib.rc_context({"text.parse_math": False}):
        drawn.figure.savefig(buffer, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})
    write_by(folder / f"{name}.png", lambda file: file.write(buffer.getvalue()))
    write_json(folder / f"{name}.json", drawn.numbers)
    print(f"figure: {folder / name}.svg, {name}.png, {name}.json", flush=True)
