"""Iterative noisy cross-validation: which labels a model that did not see them agrees with.

Chen et al. 2019 (arXiv 1905.05040), algorithm 1, as their code has it: each round splits the
candidates, at first all examples, into halves. A model that is trained on what is selected so far
and on one half predicts the other half, whose examples are selected where the prediction is the
label.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from har_jax.estimation.out_of_sample import OutOfSample
from har_jax.methods.shared.selecting import KindOfNoise

_STEP = 1e-3  # of noise rates, as far apart as the authors' code looks at them
_MOST_REMOVED = 2.0  # for each example that is selected
_MUCH = 0.6  # noise, with which candidates join later


class AgreementError(ValueError):
    """A model agrees with labels that it did not see no more than chance does."""


class Chosen(NamedTuple):
    """What a round makes of m examples.

    Attributes:
      agrees: ``[m]``, whose label is predicted: they are selected.
      worst: ``[m]``, whose losses are the highest of their half: they are removed, where noise is
        symmetric, unless they are selected.
    """

    agrees: Bool[np.ndarray, " m"]
    worst: Bool[np.ndarray, " m"]


class Selection(NamedTuple):
    """What became of n training examples.

    Attributes:
      round: ``[n]``, in which each was selected; -1 of others.
      removed: ``[n]``, which are left out for good. What is neither is a candidate still.
      noise_rate: :math:`\\varepsilon`, the share of wrong labels among all n.
    """

    round: Int[np.ndarray, " n"]
    removed: Bool[np.ndarray, " n"]
    noise_rate: float

    @property
    def selected(self) -> Int[np.ndarray, " s"]:
        """S: which examples are selected."""
        return np.flatnonzero(self.round >= 0)

    @property
    def candidates(self) -> Int[np.ndarray, " c"]:
        """C: which are candidates still."""
        return np.flatnonzero((self.round < 0) & ~self.removed)


def nothing_selected(count: int) -> Selection:
    """Before the first round, of so many examples."""
    return Selection(np.full(count, -1, np.int32), np.zeros(count, bool), np.nan)


def noise_rate_by_agreement(agreement: float, num_classes: int) -> float:
    r"""The noise rate at which a model would agree with as many noisy labels.

    A model that has learned the noise itself agrees with a label that it did not see with
    probability :math:`(1-\varepsilon)^2 + \varepsilon^2/(K-1)`, where noise is symmetric
    (theorem 1 of Chen et al. 2019). Their code takes this formula whatever the noise is, looks at
    rates in steps of 0.001, and takes the first at which it gives no more than was found.

    Args:
      agreement: The share of labels that are predicted by a model that was not trained on them.
      num_classes: K.

    Returns:
      :math:`\varepsilon`, 0.001 at least.

    Raises:
      AgreementError: if that is less than chance, 1/K, below which no rate brings the formula.
    """
    rates = np.arange(1, round(1 / _STEP) + 1) * _STEP
    expected = (1 - rates) ** 2 + rates**2 / (num_classes - 1)
    reached = np.flatnonzero(expected <= agreement)
    if agreement < 1 / num_classes or not len(reached):
        raise AgreementError(
            f"the first model agrees with {100 * agreement:.1f}% of the labels that it did not "
            f"see, no more than chance, {100 / num_classes:.1f}%: it has not learned anything"
        )
    return float(rates[reached[0]])


def discard_ratio(noise_rate: float) -> float:
    r"""How many examples are removed for each that is selected.

    Args:
      noise_rate: :math:`\varepsilon`.

    Returns:
      :math:`r = \min(2, \varepsilon / (1 - \varepsilon))`.
    """
    return min(_MOST_REMOVED, noise_rate / (1 - noise_rate))


def noise_rate_of_selected(noise_rate: float, num_classes: int, kind: KindOfNoise) -> float:
    r"""The noise rate among examples whose label is predicted.

    Args:
      noise_rate: :math:`\varepsilon`, of all.
      num_classes: K.
      kind: Of the noise.

    Returns:
      :math:`\varepsilon_S = \varepsilon^2 / (\varepsilon^2 + c (1-\varepsilon)^2)`, c being K - 1
      where noise is symmetric, and 1 where each class has one wrong label.
    """
    wrong = num_classes - 1 if kind == "symmetric" else 1
    return noise_rate**2 / (noise_rate**2 + wrong * (1 - noise_rate) ** 2)


def choose(
    prediction: Int[np.ndarray, " m"],
    loss: Float[np.ndarray, " m"],
    labels: Int[np.ndarray, " m"],
    ratio: float,
) -> Chosen:
    """Chooses among the examples of a half.

    Args:
      prediction: By a model that did not see them; -1 of what could not be read.
      loss: Of their labels.
      labels: As trained on.
      ratio: Of :func:`discard_ratio`.

    Returns:
      As many ``worst`` as ``ratio`` times those that agree, rounded down; none where that is 0,
      where the authors' code takes all.
    """
    agrees = prediction == labels
    count = int(ratio * np.sum(agrees))
    known = np.where(np.isnan(loss), -np.inf, loss)  # what could not be read stays
    worst = np.zeros(len(labels), bool)
    worst[np.argsort(known, kind="stable")[max(len(labels) - count, 0) :]] = True
    return Chosen(agrees, worst & (prediction >= 0))


def next_round(
    selection: Selection,
    number: int,
    said: OutOfSample,
    labels: Int[np.ndarray, " n"],
    num_classes: int,
    kind: KindOfNoise,
) -> Selection:
    """What becomes of the examples in a round.

    Args:
      selection: Of the rounds before.
      number: Of the round, from 0 on.
      said: Of all candidates, each half by the model that was trained on the other one; fold 0
        is of what the first model was trained on.
      labels: Of the training set.
      num_classes: K.
      kind: Of the noise: only of symmetric noise is anything removed.

    Returns:
      The selection after it. The noise rate is that of the first round's second half.

    Raises:
      AgreementError: of :func:`noise_rate_by_agreement`.
    """
    rate = selection.noise_rate
    if number == 0:
        seen = (said.fold == 1) & (said.prediction >= 0)
        hits = said.prediction[seen] == labels[said.index[seen]]
        rate = noise_rate_by_agreement(float(np.mean(hits)) if len(hits) else 0.0, num_classes)
    rounds, removed = selection.round.copy(), selection.removed.copy()
    for half in (0, 1):
        rows = np.flatnonzero(said.fold == half)
        index = said.index[rows]
        chosen = choose(said.prediction[rows], said.loss[rows], labels[index], discard_ratio(rate))
        rounds[index[chosen.agrees]] = number
        if kind == "symmetric":
            removed[index[chosen.worst & ~chosen.agrees]] = True
    return Selection(rounds, removed, rate)


def candidate_batch_size(candidates: int, selected: int, batch_size: int) -> int:
    """The candidates that come with each batch: as many as see all of both at one pace, or half.

    Args:
      candidates: C, their number.
      selected: S, how many are selected.
      batch_size: B, of these.

    Returns:
      ``min(C B / S, B / 2)``, both rounded down.
    """
    return min(candidates * batch_size // selected, batch_size // 2)


def warm_up(noise_rate: float, kind: KindOfNoise) -> float:
    """The share of training before candidates join: 40 of the authors' 200 epochs, or 80."""
    return 0.4 if kind == "asymmetric" or noise_rate > _MUCH else 0.2
