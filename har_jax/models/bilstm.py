"""A bidirectional LSTM over words."""

from typing import Annotated, Any, ClassVar, Literal

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Int

from har_jax.models.layers.classifier import Cosine, classifier
from har_jax.models.layers.norm import Remat, Widths
from har_jax.options import Option

PADDING = 0
"""The id of what is behind a text's last word."""
UNKNOWN = 1
"""The id of words that have none of their own."""


class BiLSTM(nn.Module):
    """Embedded words, layers of bidirectional LSTMs, the last states of both directions, a Dense.

    Rows end in padding, of which neither the logits nor R depend: the reverse direction begins at
    a row's last word, and what is at padding goes into nothing. Ids that are none of the
    vocabulary count as unknown words.

    Attributes:
      num_classes: K.
      vocabulary_size: The number of ids.
      widths: The units of each layer, in each direction.
      embedding: The width of embedded words.
      dropout: The rate before the Dense.
      dtype: The dtype of the computation.
      remat: Whether a step in time is computed again when it is differentiated, in place of its
        gates being kept in memory.
      cosine: The factor of the cosines that logits are; None of linear ones, see
        :func:`har_jax.models.layers.classifier.classifier`.
    """

    num_classes: int
    vocabulary_size: int
    widths: Widths = (256, 256)
    embedding: Annotated[int, Option("the width of embedded words", gt=0)] = 128
    dropout: Annotated[float, Option("the rate before the classifier", ge=0, lt=1)] = 0.5
    dtype: Any = None
    remat: Remat = False
    cosine: Cosine = None

    reads: ClassVar[Literal["texts"]] = "texts"

    @nn.compact
    def __call__(self, ids: Int[Array, "B T"], *, train: bool) -> Float[Array, "B K"]:
        known = (ids >= 0) & (ids < self.vocabulary_size)
        ids = jnp.where(known, ids, UNKNOWN)
        positions = jnp.arange(1, ids.shape[1] + 1)
        lengths = jnp.maximum(1, jnp.max(jnp.where(ids != PADDING, positions, 0), axis=1))
        make_cell: Any = nn.OptimizedLSTMCell
        if self.remat:
            make_cell = nn.remat(make_cell, prevent_cse=False)
        x = nn.Embed(
            self.vocabulary_size,
            self.embedding,
            embedding_init=nn.initializers.normal(1.0),
            dtype=self.dtype,
            name="embedding",
        )(ids)
        for number, width in enumerate(self.widths, start=1):
            forward, backward = (
                nn.RNN(make_cell(width, dtype=self.dtype, name=f"layer{number}_{direction}"))
                for direction in ("forward", "backward")
            )
            layer = nn.Bidirectional(forward, backward, name=f"layer{number}")
            # Flax's own zeros would be the same on all devices, and what follows them is not.
            zeros = jnp.zeros_like(x, shape=(len(x), width))
            x = layer(x, initial_carry=((zeros, zeros),) * 2, seq_lengths=lengths)
        ends = jnp.take_along_axis(x, lengths[:, None, None] - 1, axis=1)[:, 0]
        width = self.widths[-1]
        x = jnp.concatenate([ends[:, :width], x[:, 0, width:]], axis=-1)
        x = nn.Dropout(self.dropout, deterministic=not train)(x)
        return classifier(self.num_classes, self.cosine, dtype=self.dtype, name="classifier")(x)
