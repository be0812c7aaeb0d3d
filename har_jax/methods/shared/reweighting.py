r"""Class-balanced loss weights, from an epoch on: deferred reweighting (DRW).

An option of every method rather than a method: Cao et al. 2019 defer the weights until
the learning rate falls, and HAR-DRW of Cao et al. 2021 is HAR with them.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from har_jax.methods.shared.single_network import LossWeights


def deferred_weights(weights: Float[np.ndarray, " K"], start_step: int) -> LossWeights:
    """Weighs every example by its class from ``start_step`` on, and by 1 before."""
    table = np.asarray(weights, np.float32)

    def loss_weights(labels, step):
        by_class = jnp.asarray(table)[labels]
        return jnp.where(step >= start_step, by_class, jnp.ones_like(by_class))

    return loss_weights
