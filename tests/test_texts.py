"""Texts become ids of a vocabulary, whatever is in them."""

import numpy as np
import pytest

from har_jax.data import load
from har_jax.data.corruption import Asymmetric
from har_jax.data.examples import DataError
from har_jax.data.reading.texts import Encoding, Vocabulary
from har_jax.data.sources import tfds
from har_jax.models.bilstm import PADDING, UNKNOWN
from tests import tiny_tfds

TEXTS = ["A good, GOOD film!<br />Don't miss it", "bad bad film", ""]


def test_the_most_frequent_words_have_ids_behind_padding_and_unknown():
    vocabulary = Vocabulary.of(TEXTS, size=5)
    assert vocabulary.words == ("<padding>", "<unknown>", "bad", "film", "good")
    everything = Vocabulary.of(TEXTS, size=100)
    assert set(everything.words[2:]) == {"a", "bad", "don't", "film", "good", "it", "miss"}


def test_rows_are_the_last_words_and_then_padding():
    vocabulary = Vocabulary.of(TEXTS, size=5)
    bad, film, good = (vocabulary.words.index(word) for word in ("bad", "film", "good"))
    rows = vocabulary.encode(TEXTS, length=6)
    assert rows.dtype == np.int32
    assert rows.tolist() == [
        [good, good, film, UNKNOWN, UNKNOWN, UNKNOWN],
        [bad, bad, film, PADDING, PADDING, PADDING],
        [UNKNOWN] + [PADDING] * 5,
    ]
    assert vocabulary.decode(rows[1]) == "bad bad film"
    assert vocabulary.decode(rows[2]) == "<unknown>"


@pytest.mark.parametrize(
    "text",
    ["", " \n\t", "<br /><br />", "!?", "\ud800", "\x00 film", "\u2028", "film " * 10_000],
)
def test_any_text_is_a_row_with_a_word(text):
    rows = Vocabulary.of(TEXTS, size=9).encode([text], length=8)
    assert rows.shape == (1, 8)
    assert rows[0, 0] != PADDING
    assert np.all((rows >= 0) & (rows < 9))


def test_what_is_saved_is_read(tmp_path):
    vocabulary = Vocabulary.of([*TEXTS, "<padding> caf\xe9 \u2028 na\xefve"], size=50)
    vocabulary.save(tmp_path / "vocabulary.txt")
    assert Vocabulary.load(tmp_path / "vocabulary.txt") == vocabulary


def test_what_no_vocabulary_can_be_made_of():
    with pytest.raises(ValueError, match="'a b c' is one text: several are needed"):
        Vocabulary.of("a b c", 9)
    with pytest.raises(ValueError, match="a vocabulary of 2 has no words"):
        Vocabulary.of(TEXTS, 2)
    vocabulary = Vocabulary.of(TEXTS, 9)
    with pytest.raises(ValueError, match="rows of length 0 hold no word"):
        vocabulary.encode(TEXTS, 0)
    assert vocabulary.encode([], 4).shape == (0, 4)


def test_texts_without_words():
    with pytest.raises(DataError, match="no word in any of the training texts"):
        Vocabulary.of(["", "!"], size=9)


def test_the_vocabulary_is_of_what_is_trained_on(tmp_path):
    texts = [f"a common word{number}".encode() for number in range(40)]
    labels = [number % 2 for number in range(40)]
    tiny_tfds.write_texts(tmp_path / "tiny" / "1.0.0", texts, labels, ("no", "yes"))
    encoding = Encoding(vocabulary_size=1000, length=3)
    tiny = tfds("tiny", data_dir=tmp_path, encoding=encoding)
    given = {"on_leak": "keep"}  # both splits are the same
    data = load(tiny, None, None, 0, validation_fraction=0.25, **given)
    assert data.vocabulary_size == 2 + 2 + 30
    assert data.train.inputs.shape == (30, 3)
    shown = [data.vocabulary.decode(ids) for ids in data.train.inputs]
    assert all(text.startswith("a common word") for text in shown)
    unseen = [data.vocabulary.decode(ids) for ids in data.test.inputs]
    assert unseen == ["a common <unknown>"] * 10
    flips = Asymmetric((("yes", "no", 0.5),))
    noisy = load(tiny, flips, None, 0, **given)
    assert noisy.summary()["flip_rate"] == [0.0, 0.5]
    assert noisy.noisy_classes == (0, 1)


def test_texts_without_blanks_are_told_of_and_cut_into_characters(tmp_path):
    glyphs = [chr(0x4E00 + number) for number in range(12)]
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(glyphs, 9)).encode() for _ in range(40)]
    tiny_tfds.write_texts(tmp_path / "tiny" / "1.0.0", texts, [0, 1] * 20, ("no", "yes"))
    part = {"on_leak": "keep", "validation_fraction": 0.25}
    with pytest.warns(
        UserWarning, match="of 10 of the 10 texts .* take config.data.words=characte"
    ):
        load(tfds("tiny", data_dir=tmp_path), None, None, 0, **part)
    encoding = Encoding(length=9, words="characters")
    tiny = tfds("tiny", data_dir=tmp_path, encoding=encoding)
    data = load(tiny, None, None, 0, **part)
    assert data.vocabulary_size == 2 + 12
    assert data.vocabulary.decode(data.test.inputs[0]).replace(" ", "") == data.test.texts[0]
    data.vocabulary.save(tmp_path / "vocabulary.txt")
    loaded = Vocabulary.load(tmp_path / "vocabulary.txt", "characters")
    np.testing.assert_array_equal(loaded.encode(data.test.texts, 9), data.test.inputs)
