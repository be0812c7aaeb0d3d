"""The gallery shows what it says, in one page, or with a folder of pictures beside it."""

import base64
import dataclasses
import html.parser
import io
import re

import numpy as np
import pytest
from PIL import Image

from har_jax.data.reading.encoded import ImageFiles
from har_jax.estimation.suspicion import most_suspicious, precision_at, unlearned
from har_jax.report import gallery as of_gallery
from har_jax.report.gallery import gallery
from har_jax.report.page import write_page
from har_jax.report.results import summarize
from har_jax.report.thumbnails import SIZE, Thumbnails
from tests import reports


def gallery_of(inputs, folder):
    return gallery(inputs, summarize(inputs), folder)


def page_of(inputs, folder):
    write_page(folder / "index.html", inputs, summarize(inputs))
    return (folder / "index.html").read_text("utf-8")


@pytest.mark.parametrize("seed", range(3))
def test_the_most_suspicious_of_every_group_are_those_of_the_greatest_loss(tmp_path, seed):
    inputs = reports.of_digits(seed=seed)
    data, said = inputs.data, inputs.held_out
    suspicious, uncertain, differing = gallery_of(inputs, tmp_path).lists
    assert [each.key for each in (suspicious, uncertain, differing)] == [
        "suspicious", "uncertain", "differing"
    ]  # fmt: skip
    row_of = {id: row for row, id in enumerate(data.train.ids)}
    at = np.argsort(said.index)
    loss = said.loss[at]
    contradicted = said.prediction[at] != data.train.labels
    shown = [row_of[card.name] for card in suspicious.cards]
    assert len(set(shown)) == len(shown)
    assert np.all(np.diff(loss[shown]) <= 0)
    for label in range(10):
        rows = np.flatnonzero(contradicted & (data.train.labels == label))
        best = rows[np.argsort(-loss[rows])][:24]
        assert set(best.tolist()) <= set(shown)
    rest = np.setdiff1d(np.flatnonzero(contradicted), shown)
    assert not len(rest) or loss[rest].max() <= np.sort(loss[shown])[-48]
    confidence = said.confidence[at]
    assert np.all(np.diff(confidence[[row_of[card.name] for card in uncertain.cards]]) >= 0)
    losses = [inputs.evaluations[name]["train_loss"] for name in ("har", "erm")]
    apart = np.abs(np.exp(-losses[0]) - np.exp(-losses[1]))
    assert np.all(np.diff(apart[[row_of[card.name] for card in differing.cards]]) <= 1e-12)


def test_a_card_says_what_is_known_of_the_example(tmp_path):
    inputs = reports.of_digits()
    data, said = inputs.data, inputs.held_out
    for card in gallery_of(inputs, tmp_path).lists[0].cards[:20]:
        row = int(card.name)
        (at,) = np.flatnonzero(said.index == row)
        assert card.given == str(data.train.labels[row])
        assert card.prediction == str(said.prediction[at])
        assert card.truth == str(data.clean_labels[row])
        assert card.probability in (f"{100 * said.confidence[at]:.0f}%", ">99%")
        strength = inputs.evaluations["har"]["strength"][row]
        assert float(card.facts["strength"]) == pytest.approx(strength, rel=0.01)
        pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(card.picture.source[22:]))))
        np.testing.assert_array_equal(
            pixels, np.round(data.train.inputs[row, ..., 0] * 255).astype(np.uint8)
        )


def test_precision_is_the_share_of_wrong_labels_among_the_first(tmp_path):
    inputs = reports.of_digits()
    data, said = inputs.data, inputs.held_out
    ranked = said.index[most_suspicious(said, data.train.labels)]
    found = summarize(inputs)["suspicion"]
    for count in (10, 50, 100):
        assert found["precision"][str(count)] == np.mean(data.flipped[ranked[:count]])
    assert found["mislabelled"] == np.mean(data.flipped)
    assert precision_at((2, 9), np.array([3, 1, 0]), np.array([0, 1, 0, 1], bool)) == {2: 1.0}
    page = page_of(inputs, tmp_path)
    assert f"{100 * found['precision']['50']:.0f}% of the first 50" in page
    unknown = reports.of_digits(known=False)
    assert summarize(unknown)["suspicion"]["precision"] is None
    assert 'class="mark' not in page_of(unknown, tmp_path)


def test_what_could_not_be_read_is_not_suspicious():
    inputs = reports.of_digits()
    said, labels = inputs.held_out, inputs.data.train.labels
    read = np.arange(1797) >= 5
    unread = dataclasses.replace(
        said,
        prediction=np.where(read, said.prediction, -1),
        loss=np.where(read, said.loss, np.nan),
    )
    expected = np.flatnonzero(read & (said.prediction != labels[said.index]))
    np.testing.assert_array_equal(np.sort(most_suspicious(unread, labels)), expected)
    blind = dataclasses.replace(said, confidence=None)
    np.testing.assert_array_equal(most_suspicious(blind, labels), most_suspicious(said, labels))


def test_models_that_only_guess_are_doubted(tmp_path):
    inputs = reports.of_digits()
    assert summarize(inputs)["suspicion"]["doubt"] is None
    said = inputs.held_out
    guessed = dataclasses.replace(said, prediction=np.zeros_like(said.prediction))
    inputs = dataclasses.replace(inputs, held_out=guessed)
    doubt = summarize(inputs)["suspicion"]["doubt"]
    assert re.match(r"of what was held out \d+% is predicted wrongly, .*config\.pretrain", doubt)
    page = page_of(inputs, tmp_path)
    assert "what is found of noise means little" in " ".join(page.split())
    assert "something to adapt to" not in page
    assert "groups' noise and frequency differ" not in summarize(inputs)["answer"]


def test_classes_that_models_do_not_know_are_named(tmp_path):
    inputs = reports.of_digits()
    said, labels = inputs.held_out, inputs.data.train.labels
    assert unlearned(said, labels) == summarize(inputs)["suspicion"]["unlearned"] == []
    never = np.where(said.prediction == 3, 5, said.prediction)
    at_random = np.random.default_rng(0).permutation(said.prediction)
    for prediction, expected in ((never, [3]), (at_random, [*range(10)])):
        assert unlearned(dataclasses.replace(said, prediction=prediction), labels) == expected
    inputs = dataclasses.replace(inputs, held_out=dataclasses.replace(said, prediction=never))
    assert "of 3 models know nothing" in " ".join(page_of(inputs, tmp_path).split()).lower()
    few = np.where(labels == 3, 5, labels)
    few[np.flatnonzero(labels == 3)[:9]] = 3
    assert unlearned(dataclasses.replace(said, prediction=never), few) == []


class Page(html.parser.HTMLParser):
    """The tags of a page by name, each with its attributes."""

    def __init__(self, text):
        super().__init__()
        self.tags = {}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.setdefault(tag, []).append(dict(attributes))


def test_texts_are_escaped_cut_and_folded(tmp_path):
    inputs = reports.of_texts()
    text = page_of(inputs, tmp_path)
    page = Page(text)
    assert len(page.tags["script"]) == 2  # ours: the gallery's and the tables'
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "&amp;amp;" in text
    assert "img" not in page.tags
    for card in gallery_of(inputs, tmp_path).lists[0].cards:
        whole = str(inputs.data.train.texts[int(card.name)]).replace("\udc80", "?")
        assert card.words + card.rest == whole
        assert len(card.words) <= 280
    assert page.tags["details"]
    assert not (tmp_path / "gallery").exists()


def test_pages_ask_for_nothing_from_elsewhere(tmp_path):
    for make in (reports.of_digits, reports.of_texts):
        text = page_of(make(), tmp_path)
        page = Page(text)
        for tag in ("img", "script", "link", "iframe", "object", "source"):
            for attributes in page.tags.get(tag, []):
                assert attributes.get("src", "data:").startswith("data:")
                assert "href" not in attributes
        assert "@import" not in text
        assert "url(http" not in text


def test_files_become_small_pictures_as_they_are(tmp_path):
    inputs = reports.of_files(tmp_path / "images", count=40, known=False)
    files = inputs.data.train.inputs
    assert isinstance(files, ImageFiles)
    of = Thumbnails(inputs.data.train, tmp_path)
    for row in range(8):
        with Image.open(files.file(row)) as original:
            scale = SIZE / max(original.size)
            picture = of.of(row)
            assert picture.width == pytest.approx(original.width * scale, abs=1)
            assert picture.height == pytest.approx(original.height * scale, abs=1)
    _ = inputs.data.test_digest  # of before
    (files.root / files.names[9]).write_bytes(b"none")
    (files.root / files.names[10]).unlink()
    assert of.of(9) is of.of(10) is None
    card = gallery_of(inputs, tmp_path).lists[0].cards[0]
    assert card.name in files.names


def test_what_the_page_has_no_room_for_lies_beside_it(tmp_path):
    inputs = reports.of_classes(4, each=5)
    of = Thumbnails(inputs.data.train, tmp_path, most=10_000)
    pictures = [of.of(row) for row in range(20)]
    inside = [picture for picture in pictures if picture.source.startswith("data:")]
    assert 0 < sum(len(picture.source) for picture in inside) <= 10_000
    beside = {picture.source for picture in pictures if picture not in inside}
    assert beside == {f"gallery/{path.name}" for path in (tmp_path / "gallery").iterdir()}
    for row, picture in enumerate(pictures):
        if picture not in inside:
            pixels = np.asarray(Image.open(tmp_path / picture.source))
            np.testing.assert_array_equal(pixels, inputs.data.train.inputs[row])


def test_of_a_thousand_classes_a_bounded_number_is_shown(tmp_path):
    inputs = reports.of_classes(1000)
    text = page_of(inputs, tmp_path)
    assert len(text) < 6_000_000
    assert "Of 1000 groups the 40 with the most suspicious have examples here" in text
    shown = gallery_of(inputs, tmp_path)
    for each in shown.lists:
        assert 48 <= len(each.cards) <= 480 + 48
    counts = np.bincount(
        inputs.data.train.labels[
            inputs.held_out.index[most_suspicious(inputs.held_out, inputs.data.train.labels)]
        ],
        minlength=1000,
    )
    labels = {card.label for card in shown.lists[0].cards}
    assert set(np.flatnonzero(counts > np.sort(counts)[-40]).tolist()) <= labels


def test_groups_that_are_no_classes_can_be_chosen(tmp_path):
    inputs = reports.of_digits()
    groups = (np.arange(1797) % 3).astype(np.int32)
    train = dataclasses.replace(inputs.data.train, groups=groups)
    test = dataclasses.replace(inputs.data.test, groups=groups[::10])
    data = dataclasses.replace(inputs.data, train=train, test=test, group_names=("a", "b", "<c>"))
    found = gallery_of(dataclasses.replace(inputs, data=data), tmp_path)
    assert found.groups == [(0, "a"), (1, "b"), (2, "<c>")]
    for card in found.lists[0].cards:
        assert card.group == groups[int(card.name)]
    page = page_of(dataclasses.replace(inputs, data=data), tmp_path)
    assert [each["data-by"] for each in Page(page).tags["select"]] == ["list", "label", "group"]
    assert "&lt;c&gt;" in page


def test_without_both_methods_or_an_estimate_there_are_fewer_lists(tmp_path):
    inputs = reports.of_digits()
    keys = lambda inputs: [each.key for each in gallery_of(inputs, tmp_path).lists]
    only = dataclasses.replace(inputs, evaluations={"har": inputs.evaluations["har"]})
    assert keys(only) == ["suspicious", "uncertain"]
    assert keys(dataclasses.replace(inputs, held_out=None)) == ["differing"]
    none = dataclasses.replace(only, held_out=None)
    assert keys(none) == []
    assert "There are none to show" in page_of(none, tmp_path)


def test_inputs_that_are_no_images_have_no_picture(tmp_path):
    inputs = reports.of_digits()
    flat = dataclasses.replace(inputs.data.train, inputs=np.zeros((1797, 64), np.float32))
    assert Thumbnails(flat, tmp_path).of(0) is None
    for low, high in ((-1.0, 1.0), (0.0, 255.0), (3.0, 3.0)):
        images = np.linspace(low, high, 1797 * 64, dtype=np.float32).reshape(1797, 8, 8, 1)
        picture = Thumbnails(dataclasses.replace(flat, inputs=images), tmp_path).of(1796)
        assert picture.source.startswith("data:image/png")


def test_the_script_and_the_template_name_the_same(tmp_path):
    text = page_of(reports.of_digits(), tmp_path)
    for by in re.findall(r'chosen\("(\w+)"\)', text):
        assert f'data-by="{by}"' in text
    assert of_gallery.PLAIN in text
