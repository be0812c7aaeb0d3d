"""Texts as ids of words: a vocabulary of the training set, and arrays of one length."""

import dataclasses
import functools
import pathlib
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, TypeGuard

import numpy as np
from jaxtyping import Int

from har_jax.data.examples import DataError
from har_jax.models.bilstm import PADDING, UNKNOWN
from har_jax.options import Option
from har_jax.system.files import write_text
from har_jax.system.interruption import checked

_SPECIAL = ("<padding>", "<unknown>")  # of the ids PADDING and UNKNOWN

_TAG = re.compile(r"<[^<>]{1,40}>")  # as of HTML, such as <br />
_WORDS = {"words": r"\w+(?:['\u2019]\w+)*", "characters": r"\S"}
_MOSTLY = 0.5  # the share of unknown words of a text that is worth a word

Words = Literal["words", "characters"]
"""What texts are cut into: words as letters and digits beside one another, or all characters but
blanks, for languages that are written without those."""


@dataclasses.dataclass(frozen=True)
class Encoding:
    """How texts become arrays.

    Attributes:
      vocabulary_size: At most, with the ids for padding and for unknown words.
      length: Words that are kept of a text, from its end, where verdicts tend to be.
      words: What a text is cut into.
    """

    vocabulary_size: Annotated[
        int, Option("ids of words that texts have at most", ge=3, le=10**7)
    ] = 20_000
    length: Annotated[
        int, Option("words of a text that are kept, from its end", ge=1, le=10**5, unit="words")
    ] = 256
    words: Annotated[Words, Option("what texts are cut into")] = "words"


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The words that have an id of their own.

    Attributes:
      words: By id; the first two stand for padding and for unknown words.
      kind: What texts are cut into.
    """

    words: tuple[str, ...]
    kind: Words = "words"

    @classmethod
    def of(cls, texts: Iterable[str], size: int, kind: Words = "words") -> "Vocabulary":
        """The ``size`` most frequent words of texts.

        Raises:
          DataError: if there is no word in them.
          ValueError: if there is no place for one beside the two that are special.
        """
        if size <= len(_SPECIAL):
            raise ValueError(f"a vocabulary of {size} has no words: {len(_SPECIAL) + 1} at least")
        words, texts = _vectorizer(kind, max_features=size - len(_SPECIAL)), _several(texts)
        try:
            words.fit(checked(texts))
        except ValueError as error:  # of scikit-learn, for an empty vocabulary
            raise DataError("there is no word in any of the training texts") from error
        return cls((*_SPECIAL, *words.get_feature_names_out().tolist()), kind)

    @classmethod
    def load(cls, path: pathlib.Path, kind: Words = "words") -> "Vocabulary":
        """Reads what :meth:`save` wrote."""
        return cls(tuple(path.read_text("utf-8").split("\n")[:-1]), kind)

    def save(self, path: pathlib.Path) -> None:
        """Writes a word on each line, in the order of their ids, from 0."""
        write_text(path, "".join(f"{word}\n" for word in self.words))

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, texts: Iterable[str], length: int) -> Int[np.ndarray, "n length"]:
        """The ids of the last ``length`` words of each text, int32, then padding.

        A text without words is one unknown word.

        Raises:
          ValueError: if the length is not positive.
        """
        if length < 1:
            raise ValueError(f"rows of length {length} hold no word: 1 at least")
        rows = []
        for text in checked(_several(texts)):
            ids = [self._ids.get(word, UNKNOWN) for word in _words(text, self.kind)[-length:]] or [
                UNKNOWN
            ]
            rows.append(ids + [PADDING] * (length - len(ids)))
        return np.array(rows, np.int32).reshape(len(rows), length)

    def decode(self, ids: Int[np.ndarray, " length"]) -> str:
        """The words of a row, without padding, for people to read."""
        return " ".join(self.words[id] for id in ids if id != PADDING)

    @functools.cached_property
    def _ids(self) -> Mapping[str, int]:
        return {word: id for id, word in enumerate(self.words) if id >= len(_SPECIAL)}


def are_texts(inputs: Any) -> TypeGuard[np.ndarray]:
    """Whether inputs are an array of strings."""
    return isinstance(inputs, np.ndarray) and inputs.dtype == object


def _several(texts: Iterable[str]) -> Iterable[str]:
    if isinstance(texts, str):
        raise ValueError(f"{texts[:40]!r} is one text: several are needed, as in a list")
    return texts


def warn_of_unknown_words(ids: Int[np.ndarray, "n length"], kind: Words) -> None:
    """Warns if of most texts, which the vocabulary was not made of, most words are unknown."""
    present = np.maximum(np.sum(ids != PADDING, axis=1), 1)
    mostly = np.sum(ids == UNKNOWN, axis=1) / present > _MOSTLY
    if 2 * np.sum(mostly) <= len(ids):
        return
    remedy = "take a larger config.data.vocabulary_size, or more training texts"
    if kind == "words":
        remedy = f"in a language without blanks take config.data.words=characters; else {remedy}"
    warnings.warn(
        f"of {np.sum(mostly)} of the {len(ids)} texts that are tested on most words are in none "
        f"that is trained on, so that nothing is known of them: {remedy}",
        stacklevel=3,
    )


def _vectorizer(kind: Words, **options: Any) -> Any:
    from sklearn.feature_extraction.text import CountVectorizer

    without_tags = lambda text: _TAG.sub(" ", text).lower()
    return CountVectorizer(preprocessor=without_tags, token_pattern=_WORDS[kind], **options)


def _words(text: str, kind: Words) -> list[str]:
    words: list[str] = _analyzer(kind)(text)
    return words


@functools.cache
def _analyzer(kind: Words) -> Callable[[str], list[str]]:
    analyzer: Callable[[str], list[str]] = _vectorizer(kind).build_analyzer()
    return analyzer
