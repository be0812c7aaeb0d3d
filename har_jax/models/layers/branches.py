"""A network whose last part is there twice, behind a trunk that both share."""

from collections.abc import Callable, Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from har_jax.methods.shared.branches import Mix

Images = Float[Array, "B H W C"]
Layer = Callable[[Array], Array]
"""``[B, H, W, C] -> [B, h, w, D]``."""


def check_branches(branches: int) -> None:
    """Raises ``ValueError`` unless there are one or two."""
    if branches not in (1, 2):
        raise ValueError(f"branches={branches} must be 1 or 2")


def branched(
    trunk: Sequence[Layer], ends: Sequence[Layer], inputs: Images, mix: Mix | None
) -> Float[Array, "B F"]:
    r"""The features of one or two branches, side by side.

    Args:
      trunk: What all branches share, one after the other.
      ends: The last part of each branch, of whose ``[B, h, w, D]`` the mean over positions counts.
      inputs: Of all branches, or with a mix of the first.
      mix: With two branches, the inputs of the second and the share of the first,
        :math:`\alpha`: features are multiplied by :math:`2 \alpha` and :math:`2 (1 - \alpha)`, as
        in the code of Zhou et al. 2020 (arXiv 1912.02413), so that at 1/2 they are what they are
        without one. The trunk sees the first inputs first.

    Returns:
      Features, ``[B, F]``, those of the first branch ahead.

    Raises:
      ValueError: of a mix without two branches.
    """

    def shared(rows: Images) -> Images:
        for layer in trunk:
            rows = layer(rows)
        return rows

    if mix is None:
        rows = shared(inputs)
        features = [_mean(end(rows)) for end in ends]
    elif len(ends) != 2:
        raise ValueError(f"a mix is of two branches, and the network has branches={len(ends)}")
    else:
        parts = ((inputs, mix.share), (mix.inputs, 1 - mix.share))
        features = [
            _scaled(_mean(end(shared(rows))), 2 * share)
            for end, (rows, share) in zip(ends, parts, strict=True)
        ]
    return features[0] if len(features) == 1 else jnp.concatenate(features, axis=-1)


def _mean(images: Images) -> Float[Array, "B C"]:
    return jnp.mean(images, axis=(1, 2))


def _scaled(features: Float[Array, "B F"], factor: Float[Array, ""] | float) -> Float[Array, "B F"]:
    return features * jnp.asarray(factor, features.dtype)


def residual(
    block: Callable[[int, int, str], Layer], blocks: Sequence[int], branches: int
) -> tuple[list[Layer], list[Layer]]:
    """The blocks of a residual network: all but the last, and the last one of each branch.

    Args:
      block: ``(stage, number, name) -> layer``, both counted from 1.
      blocks: How many each stage has.
      branches: How many there are.
    """
    every = [
        (stage, number)
        for stage, count in enumerate(blocks, start=1)
        for number in range(1, count + 1)
    ]
    name_of = "stage{}_block{}".format
    *shared, last = every
    ends = names_of(name_of(*last), branches)
    return [block(*each, name_of(*each)) for each in shared], [block(*last, name) for name in ends]


def names_of(name: str, branches: int) -> list[str]:
    """The names of a module in each branch, of which the first is what it is called without."""
    return [name, *(f"{name}_branch{number}" for number in range(2, branches + 1))]
