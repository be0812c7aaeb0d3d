"""Training examples for a person to look at: three lists, each of every group."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from har_jax.data.corrections import names_of
from har_jax.data.relabelling import ids_of
from har_jax.estimation.out_of_sample import OutOfSample
from har_jax.estimation.suspicion import most_suspicious
from har_jax.report.relabel import told
from har_jax.report.results import Inputs
from har_jax.report.thumbnails import Picture, Thumbnails

PLAIN, ADAPTIVE = "erm", "har"  # the methods whose treatment of an example is compared

_MOST_GROUPS = 40  # that a list has examples of
_MOST_CARDS = 480  # of a list
_OF_A_GROUP = 24  # at most
_OVERALL = 48  # of a list, whatever their groups
_WORDS = 280  # characters of a text that are shown before the rest is unfolded
_LONGEST = 4000  # and of the rest


class Card(NamedTuple):
    """One example, as it is shown.

    Attributes:
      name: What it is called: its id, or its place in the training set.
      label, group: Their ids.
      given: The name of its label.
      label_probability: Of that, out of sample; empty where nothing is said.
      prediction: The name of the class that is predicted out of sample; empty where none is.
      probability: Of that; empty where it is not known.
      facts: What else there is to say, by what it is.
      truth: The name of the class that the example is of; empty where that is not known.
      picture: None of a text, and of what cannot be read.
      words: The beginning of a text; empty of others.
      rest: What comes behind it.
    """

    name: str
    label: int
    group: int
    given: str
    label_probability: str
    prediction: str
    probability: str
    facts: Mapping[str, str]
    truth: str
    picture: Picture | None
    words: str
    rest: str


class List(NamedTuple):
    """Examples in an order, and what this goes by."""

    key: str
    title: str
    says: str
    cards: Sequence[Card]


class Gallery(NamedTuple):
    """What ``gallery.html`` shows.

    Attributes:
      lists: Empty where there is nothing to go by.
      classes: The labels that there are cards of, as ids and names.
      groups: As well, where these are no classes.
      left_out: What is said of groups that have no examples here; empty where all have some.
      found: What is said of how many labels are suspicious, and of how many are wrong.
      methods: Whose label probabilities are told of.
      of_texts: Whether examples are texts.
      knows: Whether it is known which labels are wrong.
    """

    lists: Sequence[List]
    classes: Sequence[tuple[int, str]]
    groups: Sequence[tuple[int, str]]
    left_out: str
    found: Sequence[str]
    methods: Sequence[str]
    of_texts: bool
    knows: bool


def gallery(inputs: Inputs, results: Mapping[str, Any], folder: pathlib.Path) -> Gallery:
    """Chooses the examples, and makes their pictures.

    Args:
      inputs: What the stages left.
      results: Of :func:`har_jax.report.results.summarize`.
      folder: Of the page.
    """
    data, said = inputs.data, inputs.held_out
    shown, left_out = _groups_shown(inputs)
    ordered: list[tuple[str, str, str, Int[np.ndarray, " c"]]] = []
    if said is not None:
        ranked = said.index[most_suspicious(said, data.train.labels)]
        ordered.append(("suspicious", "Most suspicious", _SUSPICIOUS, ranked))
        ordered.append(("uncertain", "Least certain", _UNCERTAIN, _least_certain(said)))
    if (apart := _probability_apart(inputs)) is not None:
        order = np.argsort(-np.abs(apart), kind="stable")
        order = order[np.abs(apart[order]) > 0]
        ordered.append(("differing", "Treated most differently", _DIFFERING, order))
    maker = _Cards(inputs, folder)
    groups = data.train.group_ids()
    lists = [
        List(key, title, says, [maker.of(row) for row in _chosen(rows, groups, shown)])
        for key, title, says, rows in ordered
    ]
    cards = [card for each in lists for card in each.cards]
    named = lambda ids, names: [(id, names[id]) for id in sorted(set(ids))]
    return Gallery(
        lists=[each for each in lists if each.cards],
        classes=named((card.label for card in cards), data.class_names),
        groups=[]
        if data.train.groups is None
        else named((card.group for card in cards), data.group_names),
        left_out=left_out,
        found=told(results),
        methods=[name for name in (PLAIN, ADAPTIVE) if name in inputs.evaluations],
        of_texts=data.train.texts is not None,
        knows=data.knows_wrong_labels,
    )


_SUSPICIOUS = (
    "Models that did not see these examples predict something else, and give the label the least "
    "probability: smallest first."
)
_UNCERTAIN = (
    "Models that did not see these examples know least what they are: the probability of what they "
    "predict, smallest first."
)
_DIFFERING = (
    f"The label's probability after training by {ADAPTIVE} differs most from that after plain "
    f"training, {PLAIN}, of examples that both were trained on. Where it is lower, {ADAPTIVE} has "
    "learned less of the label by heart."
)


def _chosen(
    ranked: Int[np.ndarray, " c"], groups: Int[np.ndarray, " n"], shown: Sequence[int]
) -> Int[np.ndarray, " d"]:
    """The first of all, and the first of every group that is shown, in their order."""
    each = min(_OF_A_GROUP, max(_MOST_CARDS // max(len(shown), 1), 1))
    of = groups[ranked]
    kept = [np.arange(min(_OVERALL, len(ranked)))]
    kept += [np.flatnonzero(of == group)[:each] for group in shown]
    return ranked[np.unique(np.concatenate(kept))]


def _groups_shown(inputs: Inputs) -> tuple[Sequence[int], str]:
    """The groups whose labels are contradicted most often, or all, and what is said of others."""
    data, said = inputs.data, inputs.held_out
    count = len(data.group_names)
    if count <= _MOST_GROUPS:
        return range(count), ""
    groups = data.train.group_ids()
    rows = np.arange(len(groups))
    what = "the most examples"
    if said is not None:
        rows, what = said.index[most_suspicious(said, data.train.labels)], "the most suspicious"
    order = np.argsort(-np.bincount(groups[rows], minlength=count), kind="stable")
    return order[:_MOST_GROUPS].tolist(), (
        f"Of {count} groups the {_MOST_GROUPS} with {what} have examples here, and of the others "
        "those that come first of all."
    )


def _least_certain(said: OutOfSample) -> Int[np.ndarray, " c"]:
    """Examples by the probability of what is predicted, least first; none where it is not known."""
    if said.confidence is None:
        return np.zeros(0, np.int64)
    read = np.flatnonzero(said.prediction >= 0)
    return said.index[read[np.argsort(said.confidence[read], kind="stable")]]


def _probability_apart(inputs: Inputs) -> Float[np.ndarray, " n"] | None:
    """The label's probability by HAR less that by plain training; None unless both were trained."""
    pair = [inputs.evaluations.get(name) for name in (ADAPTIVE, PLAIN)]
    if any(each is None for each in pair):
        return None
    adaptive, plain = (np.exp(-each["train_loss"].astype(np.float64)) for each in pair if each)
    return np.nan_to_num(adaptive - plain)  # 0 of what could not be read


class _Cards:
    """What is said of every example."""

    def __init__(self, inputs: Inputs, folder: pathlib.Path) -> None:
        data, said = inputs.data, inputs.held_out
        self._data, self._said = data, said
        self._names = names_of(data.train) or ids_of(data.train)
        self._at = np.full(len(data.train), -1)  # where something is said of each
        if said is not None:
            self._at[said.index] = np.arange(len(said.index))
        self._is_known = data.knows_wrong_labels
        self._groups = data.train.group_ids()
        self._evaluations = inputs.evaluations
        self._pictures = Thumbnails(data.train, folder)

    def of(self, row: int) -> Card:
        row, data = int(row), self._data
        label, said, at = int(data.train.labels[row]), self._said, self._at[row]
        prediction = probability = label_probability = ""
        if said is not None and at >= 0 and said.prediction[at] >= 0:
            prediction = data.class_names[said.prediction[at]]
            if said.confidence is not None:
                probability = _percent(float(said.confidence[at]))
            label_probability = _percent(float(np.exp(-said.loss[at])))
        words, rest = _cut(self._text(row))
        return Card(
            name=str(row) if self._names is None else _plain(self._names[row]),
            label=label,
            group=int(self._groups[row]),
            given=data.class_names[label],
            label_probability=label_probability,
            prediction=prediction,
            probability=probability,
            facts=self._after_training(row),
            truth=data.class_names[data.clean_labels[row]] if self._is_known else "",
            picture=self._pictures.of(row),
            words=words,
            rest=rest,
        )

    def _after_training(self, row: int) -> dict[str, str]:
        found = {}
        for name in (PLAIN, ADAPTIVE):
            if name in self._evaluations:
                loss = float(self._evaluations[name]["train_loss"][row])
                if np.isfinite(loss):
                    found[f"after {name}"] = _percent(float(np.exp(-loss)))
        if ADAPTIVE in self._evaluations:
            strength = float(self._evaluations[ADAPTIVE]["strength"][row])
            found["strength"] = f"{strength:.3g}"
        return found

    def _text(self, row: int) -> str:
        texts = self._data.train.texts
        return "" if texts is None else _plain(str(texts[row]))


def _plain(text: str) -> str:
    """Without what UTF-8 cannot hold: half of a surrogate pair."""
    return text.encode("utf-8", "replace").decode()


def _cut(text: str) -> tuple[str, str]:
    """The beginning of a text, up to a blank where there is one near, and the rest."""
    text = " ".join(text.split())
    if len(text) <= _WORDS:
        return text, ""
    end = text.rfind(" ", _WORDS // 2, _WORDS)
    end = _WORDS if end < 0 else end
    words, rest = text[:end], text[end:]
    if len(rest) > _LONGEST:
        rest = f"{rest[:_LONGEST]} \N{HORIZONTAL ELLIPSIS}"
    return words, rest


def _percent(share: float) -> str:
    if 0.99 < share < 1:
        return ">99%"
    return f"{100 * share:.0f}%" if share == 0 or share >= 0.01 else "<1%"
