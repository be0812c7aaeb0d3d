"""A test set out of a training set, where a source has none."""

import dataclasses
from typing import Annotated

from har_jax.data.apart import Parts
from har_jax.data.equal import content_ids
from har_jax.data.examples import DataError, Examples
from har_jax.data.found import Found
from har_jax.options import Option

DEFAULT_FRACTION = 0.2


@dataclasses.dataclass(frozen=True)
class HoldOut:
    """How a part of the training set becomes the test set.

    Attributes:
      test_fraction: The part of every class; None for :data:`DEFAULT_FRACTION`.
      parts: What is kept together.
    """

    test_fraction: Annotated[
        float | None,
        Option("the part of a class that is tested on where no split is; None: 0.2", gt=0, lt=1),
    ] = None
    parts: Parts = dataclasses.field(default_factory=Parts)

    def split(self, train: Examples, seed: int, found: Found) -> tuple[Examples, Examples, Found]:
        """The training set, the test set, and what is to be said of them.

        Examples that are equal come into the same of the two.

        Raises:
          DataError: if one of them would have no examples.
        """
        fraction = DEFAULT_FRACTION if self.test_fraction is None else self.test_fraction
        size = len(train) - round(fraction * len(train))
        if not 0 < size < len(train):
            raise DataError(
                f"config.data.test_fraction={fraction} of {len(train)} examples leaves none to "
                "train on, or none to test on"
            )
        (content,) = content_ids([train.inputs])
        train = dataclasses.replace(train, content=content)
        kept, held_out = self.parts.split(train, size, seed)
        origin = f"{fraction:g} of {found.splits.get('train', 'all')}, at random"
        found = dataclasses.replace(found, splits={**found.splits, "test": origin})
        return train.take(kept), train.take(held_out), found

    def refuse_unread(self, source: str) -> None:
        """Raises :class:`DataError` if a part is asked for, of a source that has a test split."""
        if self.test_fraction is not None:
            raise DataError(
                f"config.data.test_fraction={self.test_fraction:g} is not read, since {source} has "
                "a test split: remove one of the two"
            )
