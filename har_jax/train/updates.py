"""The compiled part of the training loop: updates, one after the other, on the devices."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Int

from har_jax.methods.shared.method import Batch, Method, Metrics, Phases, Step
from har_jax.methods.shared.peak import Peak, higher, split
from har_jax.system import seeds
from har_jax.train.compilation import compiler_options
from har_jax.train.divergence import OnNonfinite, choose, finiteness
from har_jax.train.feed import Feed
from har_jax.train.mesh import ROWS, ROWS_OF_STEPS, WHOLE, axis_of, map_over, place

KeyedStep = Callable[[Any, Batch], tuple[Any, Metrics]]
"""``(state, batch) -> (state, metrics)``, an update by the key of its step."""


class Totals(NamedTuple):
    """What comes together until the next record: sums, peaks, and the steps that were skipped."""

    metrics: Metrics
    peaks: dict[str, Peak]
    skipped: Int[Array, ""]


class Program(NamedTuple):
    """What runs on the devices.

    Attributes:
      state: The method's, before the first step.
      no_totals: Makes totals of nothing.
      updates: Each of :func:`_updates`, compiled at its first call.
      due: Which of them is, by the number of updates made.
    """

    state: Any
    no_totals: Callable[[], Totals]
    updates: Sequence[Callable[..., Any]]
    due: Callable[[int], int]


def compile_updates(
    method: Method,
    feed: Feed,
    mesh: Mesh,
    seed: int,
    on_nonfinite: OnNonfinite,
    *,
    one_by_one: bool,
) -> Program:
    """Makes the programs of a method's updates; where these go one by one, one for each phase."""
    # Keys are made inside of what is compiled: on several hosts it takes no array of one.
    key = lambda name: jax.random.key(seeds.derive(seed, name))
    example, axis = feed.example(), axis_of(mesh)
    init = lambda batch: method.init(key("init"), batch)
    state = jax.jit(init, out_shardings=NamedSharding(mesh, WHOLE))(example)
    whole = Phases((method.step,), lambda _: 0)
    phases = method.phases if one_by_one and method.phases is not None else whole

    def keyed(step: Step) -> KeyedStep:
        def call(state, batch):
            return step(state, batch, jax.random.fold_in(key("steps"), state.step))

        # Traced once, for what is asked of it here and for the updates, in which it leaves no call.
        return jax.jit(call, inline=True)

    steps = [keyed(step) for step in phases.steps]
    trace = jax.make_jaxpr(map_over(mesh, steps[0], (WHOLE, ROWS), WHOLE), return_shape=True)
    program, (_, metrics) = trace(state, jax.tree.map(lambda rows: _shape_on(mesh, rows), example))
    options = compiler_options(program)
    zeros, no_peaks = split(jax.tree.map(lambda like: np.zeros(like.shape, like.dtype), metrics))
    specs = (WHOLE, WHOLE, ROWS_OF_STEPS, WHOLE, ROWS)

    def compiled(step: KeyedStep) -> Callable[..., Any]:
        return jax.jit(
            map_over(mesh, _updates(step, feed, on_nonfinite, axis), specs, WHOLE),
            donate_argnums=0,
            compiler_options=options,
        )

    return Program(
        state=state,
        no_totals=lambda: Totals(*place(mesh, (zeros, no_peaks, np.int32(0)))),
        updates=[compiled(step) for step in steps],
        due=phases.due,
    )


def _shape_on(mesh: Mesh, rows: np.ndarray) -> jax.ShapeDtypeStruct:
    """Rows as they come in the updates: JAX takes what it has traced for the same types only."""
    dtype = jax.dtypes.canonicalize_dtype(rows.dtype)
    return jax.ShapeDtypeStruct(rows.shape, dtype, sharding=NamedSharding(mesh, ROWS))


def _updates(
    method_step: KeyedStep,
    feed: Feed,
    on_nonfinite: OnNonfinite,
    axis: str | None,
) -> Callable[..., Any]:
    """A function that makes the updates of what is sent, ``[S, ...]``, the first ``count`` of them.

    It is a loop whose body does not depend on how many there are, and so neither do its bits. It
    is also told by each device's process whether that was asked to end, and says if any was.
    """

    def step(carry, resident, sent):
        state, totals = carry
        batch = feed.batch(resident, sent)
        new, metrics = method_step(state, batch)
        finite = finiteness(metrics, new)
        good = jnp.all(jnp.stack(list(finite.values())))
        if on_nonfinite == "skip":
            new = choose(good, new, state.replace(step=new.step))
            metrics = choose(good, metrics, jax.tree.map(jnp.zeros_like, metrics))
        sums, peaks = split(metrics)
        return (
            new,
            Totals(
                metrics=jax.tree.map(jnp.add, totals.metrics, sums),
                peaks=higher(totals.peaks, peaks),
                skipped=totals.skipped + 1 - good.astype(jnp.int32),
            ),
        ), finite

    def update(carry, resident, sent, count, asked):
        # One process has no other to agree with, and spares itself a second all-reduce.
        several = axis is not None and jax.process_count() > 1
        agreed = jax.lax.psum(asked.sum(), axis) > 0 if several else jnp.zeros((), bool)
        carry, finite = make(carry, resident, sent, count)
        return carry, finite, agreed

    def make(carry, resident, sent, count):
        of_step = lambda index: jax.tree.map(lambda x: x[index], sent)
        most = len(jax.tree.leaves(sent)[0])
        if most == 1:
            carry, finite = step(carry, resident, of_step(0))
            return carry, jax.tree.map(lambda flag: flag[np.newaxis], finite)

        def body(index, loop):
            carry, finite = loop
            carry, flags = step(carry, resident, of_step(index))
            return carry, jax.tree.map(lambda all, one: all.at[index].set(one), finite, flags)

        _, names = jax.eval_shape(step, carry, resident, of_step(0))
        finite = jax.tree.map(lambda _: jnp.ones(most, bool), names)
        return jax.lax.fori_loop(0, count, body, (carry, finite))

    return update
