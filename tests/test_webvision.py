"""WebVision as it is distributed, in small: its lists, its subsets, and both of its test sets."""

import functools
import json

import numpy as np
import pytest
from PIL import Image

from har_jax import config as har_config
from har_jax.data.examples import DataError
from har_jax.data.reading.decoding import center_square, decode_square
from har_jax.data.reading.encoded import Reading
from har_jax.data.reading.reading import read
from har_jax.data.sources import webvision
from har_jax.experiment.algorithm import Experiment
from tests import tiny_tfds

SYNSETS = [f"n{number:08}" for number in range(52, 0, -1)]  # not in alphabetical order


def write_image(path, *seed):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (20, 24, 3), np.uint8)
    Image.fromarray(pixels).save(path)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("webvision")
    info = root / "webvision" / "info"
    info.mkdir(parents=True)
    names = [f"{synset} name {number}, other name" for number, synset in enumerate(SYNSETS)]
    (info / "synsets.txt").write_text("\n".join(names) + "\n")
    for part, copies in (("google", 2), ("flickr", 1)):
        lines = []
        for label in range(len(SYNSETS)):
            for copy in range(copies):
                path = f"{part}/q{label:04}/a {copy}.jpg"
                write_image(root / "webvision" / path, label, copy, len(part))
                lines.append(f"{path} {label}")
        (info / f"train_filelist_{part}.txt").write_text("\n".join(lines) + "\n")
    lines = []
    for label in range(len(SYNSETS)):
        write_image(root / "webvision" / "val_images_256" / f"val{label:06}.jpg", label)
        lines.append(f"val{label:06}.jpg {label}")
        write_image(root / "imagenet" / SYNSETS[label] / "ILSVRC_val.JPEG", label)
    (info / "val_filelist.txt").write_text("\n".join(lines))
    return root


def opened(root, subset, imagenet=None):
    return webvision(
        data_dir=root,
        root=root / "webvision",
        subset=subset,
        imagenet=imagenet and str(imagenet),
        reading=Reading(image_size=16),
    ).load(0)


@pytest.mark.parametrize(
    ("subset", "classes", "train"), [("mini", 50, 100), ("google", 52, 104), ("full", 52, 156)]
)
def test_subsets(root, subset, classes, train):
    data = opened(root, subset, root / "imagenet")
    assert data.class_names == tuple(SYNSETS[:classes])
    assert len(data.train) == train
    assert len(data.test) == len(data.others["imagenet"]) == classes
    for path, label in zip(data.train.inputs.paths, data.train.labels, strict=True):
        assert f"/q{label:04}/" in path
    for path, label in zip(data.test.inputs.paths, data.test.labels, strict=True):
        assert path == f"val_images_256/val{label:06}.jpg"
    imagenet = data.others["imagenet"]
    for path, label in zip(imagenet.inputs.paths, imagenet.labels, strict=True):
        assert path == f"{SYNSETS[label]}/ILSVRC_val.JPEG"
    assert not opened(root, subset).others


@pytest.mark.slow
def test_imagenet_as_tfds_has_it(root, tmp_path):
    # Other classes in between, and in another order.
    names = sorted([*SYNSETS, *(f"n{number:08}" for number in range(90, 95))])
    images, labels = tiny_tfds.random_images(2 * len(names), (20, 24, 3), len(names))
    tiny_tfds.write(
        tmp_path / "imagenet2012" / "5.1.0",
        images,
        labels,
        names,
        splits=("validation",),
        sized=False,
    )
    reading = Reading(image_size=16, workers=2)  # to which records have to be sent
    given = {"data_dir": tmp_path, "reading": reading}
    source = webvision(root=root / "webvision", imagenet="tfds:imagenet2012", **given)
    found = source.load(0).others["imagenet"]
    assert np.bincount(found.labels).tolist() == [2] * 50
    assert len(set(found.inputs.names)) == 100
    rows_of = functools.partial(np.add, np.arange(4))
    pixels = np.concatenate([b.images for b in read(found.inputs, rows_of, 0, 97, seed=None)])[::4]
    for row, image in enumerate(pixels):
        shown = [
            decode_square(tiny_tfds.png(original), 16, center_square)
            for original, label in zip(images, labels, strict=True)
            if names[label] == SYNSETS[found.labels[row]]
        ]
        assert any(np.array_equal(image, one) for one in shown)
    assert found.inputs.checksum() != found.inputs[np.arange(99)].checksum()


@pytest.mark.slow
def test_a_run_is_tested_on_both(root, tmp_path):
    config = har_config.base()
    config.methods = ("erm",)
    config.data.source = "webvision"
    config.data.root = str(root / "webvision")
    config.data.imagenet = str(root / "imagenet")
    config.data.image_size = 16
    config.devices = 1
    config.model.widths = (4,)
    config.train.epochs = 1.0
    har_config.validate(config)
    Experiment(config, tmp_path).run()
    results = json.loads((tmp_path / "report" / "results.json").read_text())
    means, imagenet = results["means"]["erm"]["all"], results["other_tests"]["imagenet"]["erm"]
    # The same images are in both.
    assert imagenet["accuracy"] == pytest.approx(means["test_accuracy"])
    assert imagenet["top5"] == pytest.approx(means["test_top5"])
    assert means["test_accuracy"] <= means["test_top5"] <= 1
    page = (tmp_path / "report" / "index.html").read_text()
    assert f"erm on imagenet: top-1 {100 * imagenet['accuracy']:.1f}" in page


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda info: (info / "synsets.txt").unlink(), "synsets.txt cannot be read, as WebVision"),
        (
            lambda info: (info / "train_filelist_google.txt").write_text("google/q0/a.jpg\n"),
            "line 1 of .*google.txt is 'google/q0/a.jpg': a path and a class from 0 to 51 are",
        ),
        (
            lambda info: (info / "train_filelist_google.txt").write_text("google/a.jpg 99\n"),
            "is 'google/a.jpg 99'",
        ),
        (
            lambda info: (info / "train_filelist_google.txt").write_text("google/a.jpg 3\n"),
            "google/a.jpg is listed, and not there",
        ),
        (
            lambda info: (info / "val_filelist.txt").write_text("val1.jpg 51\n"),
            "no image of the split test is of the subset mini",
        ),
    ],
)
def test_lists_that_cannot_be_used(root, tmp_path, damage, message):
    info = tmp_path / "webvision" / "info"
    info.mkdir(parents=True)
    for path in (root / "webvision" / "info").iterdir():
        (info / path.name).write_text(path.read_text())
    (tmp_path / "webvision" / "google").symlink_to(root / "webvision" / "google")
    damage(info)
    with pytest.raises(DataError, match=message):
        opened(tmp_path, "mini")


def test_an_imagenet_folder_without_synsets(root, tmp_path):
    with pytest.raises(DataError, match="has no folder of a synset with images, such as n00000052"):
        opened(root, "mini", tmp_path)
