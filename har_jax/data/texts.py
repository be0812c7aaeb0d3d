"""Texts as ids of words: a vocabulary of the training set, and arrays of one length."""

import dataclasses
import functools
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeGuard

import numpy as np
from jaxtyping import Int

from har_jax.data.examples import DataError
from har_jax.files import write_text
from har_jax.interruption import checked
from har_jax.models.bilstm import PADDING, UNKNOWN

_SPECIAL = ("<padding>", "<unknown>")  # of the ids PADDING and UNKNOWN

_TAG = re.compile(r"<[^<>]{1,40}>")  # as of HTML, such as <br />
_WORD = r"\w+(?:['\u2019]\w+)*"


@dataclasses.dataclass(frozen=True)
class Encoding:
    """How texts become arrays.

    Attributes:
      vocabulary_size: At most, with the ids for padding and for unknown words.
      length: Words that are kept of a text, from its end, where verdicts tend to be.
    """

    vocabulary_size: int = 20_000
    length: int = 256


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The words that have an id of their own.

    Attributes:
      words: By id; the first two stand for padding and for unknown words.
    """

    words: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str], size: int) -> "Vocabulary":
        """The ``size`` most frequent words of texts.

        Raises:
          DataError: if there is no word in them.
          ValueError: if there is no place for one beside the two that are special.
        """
        if size <= len(_SPECIAL):
            raise ValueError(f"a vocabulary of {size} has no words: {len(_SPECIAL) + 1} at least")
        words, texts = _vectorizer(max_features=size - len(_SPECIAL)), _several(texts)
        try:
            words.fit(checked(texts))
        except ValueError as error:  # of scikit-learn, for an empty vocabulary
            raise DataError("there is no word in any of the training texts") from error
        return cls((*_SPECIAL, *words.get_feature_names_out().tolist()))

    @classmethod
    def load(cls, path: pathlib.Path) -> "Vocabulary":
        """Reads what :meth:`save` wrote."""
        return cls(tuple(path.read_text("utf-8").splitlines()))

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
            ids = [self._ids.get(word, UNKNOWN) for word in _words(text)[-length:]] or [UNKNOWN]
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


def _vectorizer(**options: Any) -> Any:
    from sklearn.feature_extraction.text import CountVectorizer

    without_tags = lambda text: _TAG.sub(" ", text).lower()
    return CountVectorizer(preprocessor=without_tags, token_pattern=_WORD, **options)


def _words(text: str) -> list[str]:
    words: list[str] = _analyzer()(text)
    return words


@functools.cache
def _analyzer() -> Callable[[str], list[str]]:
    analyzer: Callable[[str], list[str]] = _vectorizer().build_analyzer()
    return analyzer
