"""Groups that are known without a model."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from har_jax.estimation.neighbourhoods import Groups


def given(*, groups: Int[np.ndarray, " n"], group_names: Sequence[str]) -> Groups:
    """The data's own: of the column ``group`` of a table, or else the label's."""
    return Groups(groups, tuple(group_names))


def label(*, labels: Int[np.ndarray, " n"], class_names: Sequence[str]) -> Groups:
    """By the label that is given: the paper's."""
    return Groups(labels, tuple(class_names))
