"""Which axes of a model's taps index examples.

A *tap* is one run of one call of a selected layer (:mod:`har_jax.tapping`). The batch axis of a
tap is the one that doubles when the batch does, wherever the model puts it.
"""

import collections
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from har_jax.axes.inputs import Inputs
from har_jax.jacobian import Axes
from har_jax.tapping import Program, Tap, TapError

TapAxes = int | Mapping[str, int] | None


def axes_of(
    program: Program,
    trace: Callable[[tuple, dict[str, Any]], Program],
    inputs: Inputs,
    tap_axes: TapAxes = None,
) -> list[Axes]:
    """Finds which axes of a model's taps index examples and which index layers.

    Where an axis has to be found, the model is traced at twice the batch; with several inputs
    also with each of them repeated by itself, to see whether its rows are the examples of the
    others.

    Args:
      program: The model's trace at its inputs, with a tap at least.
      trace: Maps positional and keyword arguments to such a trace.
      inputs: Of the model.
      tap_axes: The batch axis of the taps, where it is not to be found: one for all, or by the
        taps' names (``{"encoder/norm": 1}``), counted as :class:`har_jax.tapping.Tap` has the axes.

    Raises:
      TapError: if a tap has no batch axis, if it has not the axis that is stated, or if nothing
        says whether the rows of an input are examples.
      ValueError: if the inputs do not agree on the batch size.
    """
    stated = [_stated_axis(tap, tap_axes, program.taps) for tap in program.taps]
    found = _find_axes(program, trace, inputs) if None in stated else [0] * len(stated)
    return [
        _axes(tap, other if given is None else given)
        for tap, given, other in zip(program.taps, stated, found, strict=True)
    ]


def _find_axes(program: Program, trace: Callable[..., Program], inputs: Inputs) -> list[int]:
    """The batch axis of every tap: the one that doubles with the batch."""
    size = inputs.batch_size()
    carriers = inputs.carriers
    with _noted(
        f"while tracing the model at twice the batch, {2 * size} rows, to find the batch axes of "
        "the taps: say with `in_axes` which inputs carry the batch, or state `tap_axes`"
    ):
        twice = trace(*inputs.repeated(dict.fromkeys(carriers, 2)))
    names = [[tap.name for tap in each.taps] for each in (program, twice)]
    if names[0] != names[1]:
        counts = [collections.Counter(each) for each in names]
        differing = next(iter((counts[0] - counts[1]) + (counts[1] - counts[0])), names[0][0])
        raise TapError(
            f"{differing} is called more often at one batch size than at twice it: state "
            "`tap_axes`, so that the model is traced at its own size only"
        )
    axes = [_grown(*pair, size) for pair in zip(program.taps, twice.taps, strict=True)]
    for position in carriers[1:]:
        _refuse_rows_that_are_kept_apart(program, trace, inputs, position)
    return axes


def _grown(tap: Tap, twice: Tap, size: int) -> int:
    changed = [axis for axis, n in enumerate(tap.shape) if twice.shape[axis] != n]
    if len(changed) > 1 and all(tap.shape[axis] == size for axis in changed):
        raise TapError(
            f"axes {' and '.join(map(str, changed))} of {tap.name}, whose output has shape "
            f"{list(tap.shape)}, both grow with the batch: say with `tap_axes` which one indexes "
            "the example whose loss the activation is of"
        )
    if len(changed) == 1 and tap.shape[changed[0]] == size:
        return changed[0]
    raise TapError(
        f"no axis of {tap.name}, whose output has shape {list(tap.shape)}, indexes the {size} "
        "examples of the batch. Leave it out of `layers`, tap it where the examples have an axis "
        "of their own, or say with `in_axes` which inputs carry the batch"
    )


def _refuse_rows_that_are_kept_apart(
    program: Program, trace: Callable[..., Program], inputs: Inputs, position: int
) -> None:
    """Refuses an input whose rows the model keeps apart from those of the first.

    With three times the rows in it and twice in all others, the model can be traced only if it
    does not bring them together. Then nothing says whether they are examples.
    """
    first, leaf = inputs.leaf(inputs.carriers[0]), inputs.leaf(position)
    if first.stated and leaf.stated:
        return
    times = {**dict.fromkeys(inputs.carriers, 2), position: 3}
    try:
        alone = trace(*inputs.repeated(times))
    except Exception:  # of any kind that a model can raise: the rows are brought together
        return
    size = inputs.batch_size()
    for tap, more in zip(program.taps, alone.taps, strict=False):
        if (size, 3 * size) in zip(tap.shape, more.shape, strict=False):
            raise TapError(
                f"argument {leaf.name} passes {tap.name} apart from argument {first.name}: say of "
                f"both whether their rows are examples, with in_axes={{{first.name}: {first.axis}, "
                f"{leaf.name}: None}} if those of the latter are none, such as a table's, and with "
                f"in_axes={{{first.name}: {first.axis}, {leaf.name}: {leaf.axis}}} if they are"
            )


def _axes(tap: Tap, batch: int) -> Axes:
    if not -len(tap.shape) <= batch < len(tap.shape):
        raise TapError(f"tap_axes puts the batch of {tap.name}, {list(tap.shape)}, on {batch}")
    batch %= len(tap.shape)
    return Axes(batch, tuple(axis for axis in range(tap.added) if axis != batch))


def _stated_axis(tap: Tap, tap_axes: TapAxes, taps: Sequence[Tap]) -> int | None:
    if not isinstance(tap_axes, Mapping):
        return tap_axes
    names = {other.name for other in taps}
    if unknown := set(tap_axes) - names:
        raise TapError(f"tap_axes names {sorted(unknown)}; the taps are {sorted(names)}")
    return tap_axes.get(tap.name)


@contextlib.contextmanager
def _noted(note: str) -> Iterator[None]:
    try:
        yield
    except TapError:
        raise
    except Exception as error:
        error.add_note(f"har_jax: {note}.")
        raise
