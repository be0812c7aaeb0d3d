"""What a trained network says of every example, as a table for people to look at."""

import pathlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
from jaxtyping import Array, Float

from har_jax.data.examples import Examples
from har_jax.data.reading.encoded import EncodedImages
from har_jax.estimation.out_of_sample import OutOfSample
from har_jax.jacobian import Reduction
from har_jax.linen import loss_and_jacobian_norm
from har_jax.linen.layers import Filter
from har_jax.losses import cross_entropy
from har_jax.system.files import write_by

Format = Literal["csv", "parquet"]


def describe(
    predict: Callable[[Mapping[str, Any], Array], Array],
    layers: Filter,
    reduction: Reduction,
    *,
    title: str = "predict",
) -> Callable[[Mapping[str, Any], Array, Array], dict[str, Array]]:
    """A function for :class:`har_jax.train.evaluate.ByExample`: of each example, in evaluation.

    ``prediction``, its ``probability``, and of the example's label ``label_probability``,
    ``loss`` in nats and ``norm``, R of that loss.

    Args:
      predict: ``(variables, inputs) -> logits [B, K]``, a method's own. R is taken at every layer
        that it runs, of one network or of several, through all that it makes of their outputs.
      layers: Which layers R is taken at.
      reduction: Of R.
      title: What a warning calls the method.

    Warns:
      UserWarning: if R cannot be taken of ``predict``, with the reason; there is no ``norm`` then.
    """
    loss_and_norm = loss_and_jacobian_norm(predict, layers, reduction=reduction)

    def fun(variables, inputs, labels):
        per_example_loss = lambda logits: cross_entropy(logits, labels)
        norms = {}
        try:
            r = loss_and_norm(per_example_loss, variables, inputs)
            logits, loss, norms = r.outputs, r.loss, {"norm": r.norm}
        except Exception as error:  # a method is a program, and can fail in any way
            logits = predict(variables, inputs)
            loss = per_example_loss(logits)
            first = (str(error).strip().splitlines() or [""])[0]
            warnings.warn(
                f"{title}: norm is left empty, since R cannot be taken through the method's "
                f"predict: {type(error).__name__}: {first}",
                stacklevel=2,
            )
        probabilities = jax.nn.softmax(logits.astype(jnp.float32))
        return {
            "prediction": jnp.argmax(logits, axis=-1),
            "probability": jnp.max(probabilities, axis=-1),
            "label_probability": jnp.exp(-loss),
            "loss": loss,
            **norms,
        }

    return fun


def to_table(
    split: str,
    examples: Examples,
    columns: Mapping[str, np.ndarray],
    strength: Float[np.ndarray, " n"] | None,
    class_names: Sequence[str],
    group_names: Sequence[str],
    held_out: OutOfSample | None = None,
) -> pyarrow.Table:
    """One row for each example of a split: what is known of it, and what is said.

    Args:
      split: ``"train"`` or ``"test"``.
      examples: With the labels as trained on.
      columns: Of :func:`describe`; NaN and -1 of what could not be read become null, as does a
        ``norm`` that is not there.
      strength: The factor of R in training; None of a test set, which has none.
      class_names: ``K`` names.
      group_names: ``G`` names.
      held_out: What models say that did not see the examples, the fairest witnesses of a wrong
        label; null of others.
    """
    size = len(examples)
    names, groups = np.array(class_names), np.array(group_names)
    readable = columns["prediction"] >= 0
    null = lambda values: pyarrow.array(values, mask=~readable)
    unseen = np.full(size, -1), np.full(size, np.nan)
    if held_out is not None:
        unseen[0][held_out.index] = held_out.prediction
        unseen[1][held_out.index] = held_out.loss
    not_held_out = unseen[0] < 0
    shown = {}  # what the example is, where a table can hold it
    if examples.ids is not None:
        shown["id"] = pyarrow.array(_utf8(str(id)) for id in examples.ids)
    if isinstance(examples.inputs, EncodedImages):
        shown["path"] = pyarrow.array(examples.inputs.names)
    elif examples.texts is not None:
        shown["text"] = pyarrow.array(map(_utf8, examples.texts))
    return pyarrow.table(
        {
            "split": pyarrow.array([split] * size),
            "index": pyarrow.array(np.arange(size)),
            **shown,
            "group": pyarrow.array(groups[examples.group_ids()].tolist()),
            "label": pyarrow.array(names[examples.labels].tolist()),
            "prediction": null(names[columns["prediction"]].tolist()),
            **{
                name: null(columns[name].astype(np.float64))
                for name in ("probability", "label_probability", "loss")
            },
            "norm": null(columns["norm"].astype(np.float64))
            if "norm" in columns
            else pyarrow.nulls(size, pyarrow.float64()),
            "held_out_prediction": pyarrow.array(
                names[unseen[0]].tolist(), pyarrow.string(), mask=not_held_out
            ),
            "held_out_loss": pyarrow.array(unseen[1], pyarrow.float64(), mask=not_held_out),
            "strength": pyarrow.array(
                np.zeros(size) if strength is None else strength,
                pyarrow.float64(),
                mask=np.full(size, strength is None),
            ),
        }
    )


def _utf8(text: str) -> str:
    """Without what a table cannot hold: half of a surrogate pair."""
    return text.encode("utf-8", "replace").decode()


def write_table(path: pathlib.Path, tables: Sequence[pyarrow.Table], form: Format) -> None:
    """Writes tables, one behind the other."""
    table = pyarrow.concat_tables(tables)
    if form == "parquet":
        write_by(path, lambda file: pyarrow.parquet.write_table(table, file))
    else:
        write_by(path, lambda file: pyarrow.csv.write_csv(table, file))
