"""What tells methods apart in figures: a colour, with dashes in lines and hatches in bars."""

import dataclasses
from collections.abc import Iterable

from har_jax.methods import METHODS

# Seven that are told apart by people who are blind to some colours (Okabe and Ito 2008), and seven
# more that are (Tol 2021, "muted"). Between the two sets dashes and hatches tell.
_SETS = (
    ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#000000"),
    ("#882255", "#332288", "#999933", "#cc6677", "#117733", "#aa4499", "#44aa99"),
)
_DASHES = ("solid", "dashed", "dotted", "dashdot")
_HATCHES = ("", "///", "...", "xxx")
_MARKERS = ("o", "s", "^", "D")
# What a figure has of fixed colours that a page with a dark ground has to change.
_BY_THEME = {
    "#000000": "currentColor",
    "#ffffff": "var(--page, #ffffff)",
    "#e4e4e4": "var(--counts, #e4e4e4)",
    **{f"#{dark}": f"var(--{dark}, #{dark})" for dark in ("882255", "332288", "117733")},
}


@dataclasses.dataclass(frozen=True)
class Style:
    """How a method is drawn.

    Attributes:
      color: Of lines and bars.
      dashes: Of lines.
      hatch: Of bars.
      marker: Of dots.
    """

    color: str
    dashes: str = "solid"
    hatch: str = ""
    marker: str = "o"


def styles_of(methods: Iterable[str]) -> dict[str, Style]:
    """One for each method, which is the same in every report for those of this program.

    It goes by a method's place in :data:`~har_jax.methods.METHODS`, behind which all others come:
    one that is appended there changes none of those before it. No two of the first 28 are equal.
    """
    return {name: _style(place) for place, name in enumerate(dict.fromkeys((*METHODS, *methods)))}


def themed(figure: str, label: str) -> str:
    """A figure as part of a page: in the page's colours, light or dark, and with a name.

    Args:
      figure: SVG text.
      label: What it shows, for those who do not see it; of plain words.
    """
    for color, variable in _BY_THEME.items():
        figure = figure.replace(color, variable)
    return figure.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def _style(place: int) -> Style:
    turn, color = divmod(place, len(_SETS[0]))
    pattern = turn % len(_DASHES)
    return Style(
        _SETS[turn % len(_SETS)][color], _DASHES[pattern], _HATCHES[pattern], _MARKERS[pattern]
    )
