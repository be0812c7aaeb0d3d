"""A progress bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Mapping

from tqdm import tqdm


class Progress:
    """Shows how a training run goes.

    Args:
      title: What is being trained.
      start: The step to begin at.
      total: The number of steps.
      batch_size: Examples per step.
    """

    def __init__(self, title: str, start: int, total: int, batch_size: int) -> None:
        self._title, self._total, self._batch_size = title, total, batch_size
        self._step = self._first = start
        self._begun = time.perf_counter()
        self._bar = None
        if sys.stderr.isatty():
            self._bar = tqdm(
                total=total, initial=start, desc=title, unit="step", dynamic_ncols=True
            )

    def update(self, step: int) -> None:
        """Tells that ``step`` steps are made."""
        if self._bar is not None:
            self._bar.update(step - self._step)
        self._step = step

    def report(self, record: Mapping[str, float]) -> float:
        """Shows the metrics of a record; returns the examples per second so far."""
        seconds = time.perf_counter() - self._begun
        rate = (self._step - self._first) * self._batch_size / max(seconds, 1e-9)
        shown = {name: record[name] for name in ("loss", "norm", "accuracy") if name in record}
        text = " ".join(f"{_NAMES[name]} {value:.4f}" for name, value in shown.items())
        if self._bar is not None:
            self._bar.set_postfix_str(f"{text}, {rate:.0f} examples/s")
        else:
            left = (self._total - self._step) * self._batch_size / max(rate, 1e-9)
            print(
                f"{self._title}: step {record['step']}/{self._total}, {text}, "
                f"{rate:.0f} examples/s, {left:.0f} s left",
                flush=True,
            )
        return rate

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.close()


_NAMES = {"loss": "loss", "norm": "mean R", "accuracy": "accuracy"}
