"""Plain training on clean labels as well: what methods that learn from some compare with.

python -m benchmarks.gains --all="data.meta_size=100" --variant="benchmarks.clean:erm_on_both"
"""

from typing import Unpack

import jax.numpy as jnp
import optax
from flax import linen as nn

from har_jax.losses import cross_entropy
from har_jax.methods import Entry, Method, StepOptions, accuracy, single_network
from har_jax.objective import weighted_sum


def _erm_on_both(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    **options: Unpack[StepOptions],
) -> Method:
    """Minimizes the mean loss of a batch and of as many examples with clean labels."""

    def objective(variables, batch, weights, apply_options):
        inputs = jnp.concatenate([batch["inputs"], batch["meta_inputs"]])
        labels = jnp.concatenate([batch["labels"], batch["meta_labels"]])
        logits, collections = model.apply(variables, inputs, **apply_options)
        loss, count = cross_entropy(logits, labels), len(weights)
        metrics = {
            "loss": weighted_sum(loss[:count]),
            "accuracy": accuracy(logits[:count], labels[:count]),
        }
        clean = jnp.ones(len(loss) - count)
        return weighted_sum(loss, jnp.concatenate([weights, clean])), (collections, metrics)

    return single_network(model, optimizer, objective, **options)


erm_on_both = Entry(_erm_on_both, sees_meta=lambda options: True)
