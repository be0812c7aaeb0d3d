"""Which axes index the examples: of a model's inputs, and of the taps that a trace of it has."""

from har_jax.axes.inputs import InAxes, Inputs
from har_jax.axes.taps import TapAxes, axes_of

__all__ = ["InAxes", "Inputs", "TapAxes", "axes_of"]
