"""Each example's own neighbourhood in a network's features."""

from typing import Annotated

import numpy as np
from jaxtyping import Float, Int

from har_jax.estimation.neighbourhoods import Neighbours
from har_jax.options import Option


def neighbours(
    *,
    features: Float[np.ndarray, "n d"],
    spaces: Int[np.ndarray, " n"],
    neighbours: Annotated[
        int, Option("nearest examples of which I is the mean, the example among them", gt=0)
    ] = 30,
) -> Neighbours:
    """The nearest examples in the features of the network that did not see them."""
    return Neighbours(features, spaces, neighbours)
