"""Examples whose R stands out: named, once a run."""

import warnings
from collections.abc import Sequence

from har_jax.methods.shared.peak import Peak

STANDS_OUT = 100.0  # times the medians of its batch


class Peaks:
    """Tells of the first peak of a run that stands out.

    Args:
      title: Of the run.
      names: Of the training examples, where they have some.
    """

    def __init__(self, title: str, names: Sequence[str] | None) -> None:
        self._title, self._names, self._told = title, names, False

    def told(self, peak: Peak, step: int) -> dict[str, float | int]:
        """What a record of the steps up to this one has to say of their peak.

        Warns:
          UserWarning: if it stands out, the first time.
        """
        ratio, norm, median, example = (float(number) for number in peak)
        if ratio > STANDS_OUT and not self._told:
            self._told = True
            name = "" if self._names is None else f", {self._names[int(example)]},"
            warnings.warn(
                f"{self._title}: up to step {step}, R of training example {int(example)}{name} was "
                f"{norm:.3g}, {norm / median:.0f} times the median of its batch, of a "
                "network that is too steep there: such examples can outweigh all others; look at "
                "this one, or bound R with config.regularizer.max_norm",
                stacklevel=2,
            )
        return {"peak_ratio": ratio, "peak_norm": norm, "peak_example": int(example)}
