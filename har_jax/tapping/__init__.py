"""Marks on activations in a traced program, and zeros added where they stand.

A mark is a primitive that returns what it is given. JAX carries it through every
transformation as it carries an addition, so that the traced program (a jaxpr) says what no
Python code can know: how often each marked call *runs*, whatever stands between it and the
program, be it ``jax.jit``, ``jax.checkpoint``, ``jax.vmap``, a loop or a branch, or what Flax
makes of them. Every mark of the program is a :class:`Tap`:

* a function that is traced once and called twice has two taps for a mark in it;
* a loop (``jax.lax.scan``, ``jax.lax.map``, a ``fori_loop`` of a length that is known) stacks
  its taps along an axis of theirs, and ``jax.vmap`` adds another;
* of a branch that did not run the taps are there, with gradient zero.

:func:`tap` puts a mark into any code, for :func:`loss_and_tap_norm`; what else is marked is for
whoever traces it (:mod:`har_jax.linen`).

What cannot be served is refused: a mark whose gradient JAX does not take (in a
``jax.lax.while_loop``, or in a function with derivatives of its own), or that lies where this
module does not know how to add to it.
"""

from har_jax.tapping.marks import TapError, mark
from har_jax.tapping.norms import loss_and_norm_of
from har_jax.tapping.program import Program, Tap, trace
from har_jax.tapping.refusals import refuse_uncalled
from har_jax.tapping.taps import tap
from har_jax.tapping.transform import loss_and_tap_norm

__all__ = [
    "Program",
    "Tap",
    "TapError",
    "loss_and_norm_of",
    "loss_and_tap_norm",
    "mark",
    "refuse_uncalled",
    "tap",
    "trace",
]
