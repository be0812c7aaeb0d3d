"""What came of the steps that a device was sent."""

from typing import NamedTuple

import jax
from jaxtyping import Array, Bool

from har_jax.train.checkpoints import Checkpoints
from har_jax.train.divergence import OnNonfinite, diverged, first_failure
from har_jax.train.metrics import MetricsWriter
from har_jax.train.peaks import Peaks
from har_jax.train.progress import Progress
from har_jax.train.updates import Totals

_MOST_SKIPPED = 100  # one behind the other


class Dispatch(NamedTuple):
    """Steps that the device was sent, and that the host has yet to look at.

    Attributes:
      done: The step after them.
      steps: How many they are.
      finite: Whether each was finite in each respect, ``[S]``.
      agreed: Whether any process was asked to end before them: all see this of the same steps.
      at: Step and epoch of the record that they complete, if they do.
      totals: Its totals.
    """

    done: int
    steps: int
    finite: dict[str, Bool[Array, " S"]]
    agreed: Bool[Array, ""]
    at: dict[str, float] | None = None
    totals: Totals | None = None


class Outcome:
    """Looks at what steps did: ends the run if it must, and writes their record."""

    def __init__(
        self,
        title: str,
        on_nonfinite: OnNonfinite,
        checkpoints: Checkpoints,
        writer: MetricsWriter,
        progress: Progress,
        peaks: Peaks,
        steps: int,
    ) -> None:
        self._title, self._skips = title, on_nonfinite == "skip"
        self._checkpoints = checkpoints
        self._writer, self._progress, self._peaks = writer, progress, peaks
        self._steps, self._barren = steps, 0

    def settle(self, dispatch: Dispatch) -> None:
        failure = first_failure(jax.device_get(dispatch.finite))
        if failure and not self._skips:
            offset, names = failure
            last = self._checkpoints.latest()
            raise diverged(
                f"{self._title}: at step {dispatch.done - dispatch.steps + offset + 1} not finite: "
                f"{', '.join(names)}; the last checkpoint is {last or 'none yet'}",
                "or skip such steps with config.on_nonfinite=skip",
            )
        if dispatch.at is None:
            return
        metrics, peaks, skipped = jax.device_get(dispatch.totals)
        # On the host: on the device the division would wait for the steps that are under way.
        means = {
            name: float(value.total / value.weight)
            for name, value in metrics.items()
            if value.weight  # which is 0 of what no step took
        }
        self._barren = 0 if means else self._barren + int(skipped)
        if self._barren >= min(_MOST_SKIPPED, self._steps):
            raise diverged(
                f"{self._title}: none of the last {self._barren} steps up to step {dispatch.done} "
                "was finite"
            )
        record = {**dispatch.at, **means, **({"skipped": int(skipped)} if self._skips else {})}
        for peak in peaks.values():
            record |= self._peaks.told(peak, dispatch.done)
        self._writer.write(record, {"examples_per_second": self._progress.report(record)})
