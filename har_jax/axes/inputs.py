"""Which of a model's inputs carry the batch, and on which axis: as ``jax.vmap`` says it."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

InAxes = Any
"""What ``in_axes`` takes: an axis, or a tree of them for each positional argument as in
``jax.vmap``, or a mapping that names arguments by position or keyword."""


class Leaf(NamedTuple):
    """An array that carries the batch.

    Attributes:
      name: Of its argument, for messages: ``0``, ``'mask'``.
      axis: The batch's.
      stated: Whether ``in_axes`` speaks of its argument by itself.
    """

    name: str
    axis: int
    stated: bool


class Inputs:
    """The arguments of a model, and the arrays among them that carry the batch.

    Args:
      args: Positional.
      kwargs: By keyword.
      in_axes: See :data:`InAxes`; 0 for what a mapping does not name.
      options: Keyword arguments that are no inputs, such as those of Linen's ``apply``.

    Raises:
      ValueError: if ``in_axes`` does not fit the arguments.
    """

    def __init__(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        in_axes: InAxes,
        options: Collection[str] = (),
    ) -> None:
        self.args, self.kwargs = tuple(args), dict(kwargs)
        self._leaves, self._structure = jax.tree.flatten((self.args, self.kwargs))
        axes, stated = _axes_by_argument(self.args, self.kwargs, in_axes, options)
        self._axes: list[Leaf | None] = []
        arguments: list[tuple[int | str, Any]] = [*enumerate(self.args)]
        for name, tree in [*arguments, *sorted(self.kwargs.items())]:
            for axis, leaf in _with_axes(axes[name], tree):
                found = None
                if axis is not None and _is_array(leaf):
                    found = Leaf(repr(name), axis, name in stated)
                self._axes.append(found)

    @property
    def carriers(self) -> list[int]:
        """The positions of the arrays that carry the batch."""
        return [position for position, leaf in enumerate(self._axes) if leaf is not None]

    def leaf(self, position: int) -> Leaf:
        """What is known of the array that carries the batch at this position."""
        found = self._axes[position]
        assert found is not None
        return found

    def batch_size(self) -> int:
        """The number of examples.

        Raises:
          ValueError: if the inputs do not agree, do not have the axes, or carry none.
        """
        sizes: dict[int, str] = {}
        for position in self.carriers:
            leaf, array = self.leaf(position), self._leaves[position]
            if not -array.ndim <= leaf.axis < array.ndim:
                raise ValueError(
                    f"argument {leaf.name} has shape {list(array.shape)} and no axis {leaf.axis}, "
                    "which `in_axes` names as its batch axis"
                )
            sizes.setdefault(array.shape[leaf.axis], leaf.name)
        if not sizes:
            raise ValueError(
                "no input carries the batch: give arrays, which lists of numbers are not "
                "(jnp.asarray makes one), correct `in_axes`, or state `tap_axes`"
            )
        if len(sizes) > 1:
            found = ", ".join(f"argument {name} holds {size}" for size, name in sizes.items())
            raise ValueError(
                f"the model's inputs hold batches of different sizes ({found}): say with `in_axes` "
                "which arguments carry the batch and on which axis, as in jax.vmap, or by position "
                "and keyword, such as in_axes={1: None, 'table': None} (None for a table or an "
                "old-style PRNG key)"
            )
        return next(iter(sizes))

    def repeated(self, times: Mapping[int, int]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, with every example of an array so often as its position says."""

        def repeat(position: int, array: Any) -> Any:
            if position not in times:
                return array
            return jnp.concatenate([array] * times[position], self.leaf(position).axis)

        leaves = [repeat(*numbered) for numbered in enumerate(self._leaves)]
        return jax.tree.unflatten(self._structure, leaves)


def _is_array(value: Any) -> bool:
    return isinstance(value, (jax.Array, np.ndarray)) and value.ndim > 0


def _axes_by_argument(
    args: tuple, kwargs: Mapping[str, Any], in_axes: InAxes, options: Collection[str]
) -> tuple[dict[int | str, Any], set[int | str]]:
    """The axes of every argument, by position or keyword, and of which ``in_axes`` speaks."""
    names = [*range(len(args)), *kwargs]
    axes: dict[int | str, Any] = dict.fromkeys(names, 0)
    stated: set[int | str] = set()
    if isinstance(in_axes, Mapping):
        if unknown := [name for name in in_axes if name not in axes or name in options]:
            raise ValueError(
                f"in_axes names {', '.join(map(repr, unknown))}; the arguments are "
                f"{', '.join(repr(name) for name in names if name not in options)}"
            )
        axes.update(in_axes)
        stated.update(in_axes)
    elif isinstance(in_axes, (tuple, list)):
        if len(in_axes) != len(args):
            raise ValueError(f"in_axes has {len(in_axes)} entries for {len(args)} arguments")
        axes.update(enumerate(in_axes))
        stated.update(range(len(args)))
    else:
        axes.update(dict.fromkeys(range(len(args)), in_axes))
    axes.update(dict.fromkeys(kwargs.keys() & set(options)))
    return axes, stated


def _with_axes(axes: PyTree, tree: PyTree) -> list[tuple[int | None, Any]]:
    """Every leaf of an argument with its axis, of a prefix of its tree."""
    pairs: list[tuple[int | None, Any]] = []
    jax.tree.map(
        lambda axis, part: pairs.extend((axis, leaf) for leaf in jax.tree.leaves(part)),
        axes,
        tree,
        is_leaf=lambda axis: axis is None,
    )
    return pairs
