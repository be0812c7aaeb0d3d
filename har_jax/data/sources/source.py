"""A source of data that is there to be loaded."""

import dataclasses
from collections.abc import Callable
from typing import Literal

from har_jax.data.examples import Dataset
from har_jax.data.reading.texts import Encoding

Kind = Literal["images", "texts"]


@dataclasses.dataclass(frozen=True)
class Source:
    """A source that was found, which takes little time where it is on this machine.

    Attributes:
      kind: What its examples are, known before anything is loaded, as are
      class_names: ``K`` names.
      load: ``seed -> Dataset``; a source with a split of its own ignores the seed.
      name: For people.
      encoding: How its texts become arrays.
    """

    kind: Kind
    class_names: tuple[str, ...]
    load: Callable[[int], Dataset]
    name: str = "the source"
    encoding: Encoding = dataclasses.field(default_factory=Encoding)
