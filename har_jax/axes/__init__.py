"""Which axes index the examples: of a model's inputs, and of the taps that a trace of it has."""

from har_jax.axes.inputs import InAxes, Inputs
from har_jax.axes.taps import TapAxes, Taps, with_axes

__all__ = ["InAxes", "Inputs", "TapAxes", "Taps", "with_axes"]
