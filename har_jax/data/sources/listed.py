"""What was found by name as a source."""

import functools

from har_jax.data.hold_out import HoldOut
from har_jax.data.labels import OnMissing
from har_jax.data.listing import listing
from har_jax.data.reading.encoded import Reading
from har_jax.data.reading.texts import Encoding
from har_jax.data.sources.source import Source


def listed(
    found: listing.Listing,
    name: str,
    *,
    on_missing_label: OnMissing = "keep",
    hold_out: HoldOut | None = None,
    reading: Reading | None = None,
    encoding: Encoding | None = None,
) -> Source:
    """The source of a listing.

    Args:
      found: The listing.
      name: For people.
      on_missing_label: What to do with labels that say that there is none.
      hold_out: How a part of the training set becomes the test set, where no split says.
      reading: How image files are read.
      encoding: How texts become arrays.

    Raises:
      DataError: if there are labels that say that there is none, and they are to end the job.
    """
    found = listing.without_missing_labels(found, on_missing_label)
    load = functools.partial(listing.to_dataset, found, reading or Reading(), hold_out or HoldOut())
    return Source(found.kind, found.class_names, load, name, encoding or Encoding())
