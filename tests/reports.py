"""Makes what the stages leave for a report, without training anything."""

import numpy as np

from har_jax.data.examples import Examples
from har_jax.data.training_data import TrainingData
from har_jax.estimation.out_of_sample import OutOfSample
from har_jax.report.results import Inputs

SPEECH = ("the plot", "and all of", "its people", "are as flat", "as this line", "or flatter")


def flipped_at_random(labels, num_classes, rate, seed=0):
    """Labels of which some are those of the class that comes next."""
    rng = np.random.default_rng(seed)
    moved = rng.random(len(labels)) < rate
    return np.where(moved, (labels + 1) % num_classes, labels).astype(np.int32)


def training_data(inputs, clean, names, *, rate=0.1, seed=0, known=True, texts=None, ids=None):
    """Examples, some of whose labels are wrong, which is ``known`` or not; tested on a tenth."""
    clean = np.asarray(clean, np.int32)
    labels = flipped_at_random(clean, len(names), rate, seed)
    train = Examples(inputs, labels, texts=texts, ids=ids)
    test = np.arange(0, len(clean), 10)
    return TrainingData(
        train=train,
        clean_labels=clean if known else labels,
        test=Examples(inputs[test], clean[test]),
        class_names=tuple(names),
        group_names=tuple(names),
        noisy_classes=tuple(range(len(names))) if known else (),
        rare_classes=(),
    )


def said_of(data, truth, *, seed=0, sure=2.0):
    """What a model says that mostly knows the truth, of all examples."""
    rng = np.random.default_rng(seed)
    count, classes = len(data.train), data.num_classes
    index = rng.permutation(count)
    prediction = np.where(rng.random(count) < 0.9, truth, rng.integers(0, classes, count))[index]
    confidence = rng.beta(4 * sure, 2, count)
    same = prediction == data.train.labels[index]
    of_label = np.where(
        same, confidence, np.minimum(confidence, 1 - confidence) * rng.random(count)
    )
    loss = -np.log(np.maximum(of_label, 1e-9))
    return OutOfSample(index, index % 2, prediction.astype(np.int32), loss, confidence)


def inputs_of(data, said, *, methods=("erm", "har"), source="digits", seed=0):
    """Inputs of a report on such data."""
    rng = np.random.default_rng(seed)
    right = lambda labels: np.where(rng.random(len(labels)) < 0.8, labels, 0)
    evaluation = lambda: {
        "strength": rng.random(len(data.train)),
        "train_loss": rng.exponential(0.5, len(data.train)),
        "train_prediction": right(data.train.labels),
        "test_loss": rng.exponential(0.5, len(data.test)),
        "test_prediction": right(data.test.labels),
        "test_top5": np.ones(len(data.test), int),
    }
    return Inputs(
        config={
            "seed": 0,
            "data.source": source,
            "data.evaluate_on": "test",
            "estimate.groups": "given",
            "estimate.noise": "error",
        },
        data=data,
        held_out=said,
        estimated=None,
        errors=None,
        folds=None,
        evaluations={method: evaluation() for method in methods},
        given={},
        metrics={method: [{"step": 1, "epoch": 1.0, "loss": 1.0}] for method in methods},
    )


def of_digits(**options):
    """A report on 1,797 digits."""
    from sklearn.datasets import load_digits

    raw = load_digits()
    images = (raw.images / 16).astype(np.float32)[..., np.newaxis]
    ids = np.array([str(row) for row in range(len(images))])
    data = training_data(images, raw.target, "0123456789", ids=ids, **options)
    return inputs_of(data, said_of(data, raw.target))


def of_texts(count=200, **options):
    """A report on texts of up to 200 words, some with characters that mean something in HTML."""
    rng = np.random.default_rng(0)
    words = [*SPEECH, "<script>alert(1)</script>", "&amp;", '"quoted"', "\udc80"]
    texts = np.array(
        [" ".join(rng.choice(words, rng.integers(1, 200))) for _ in range(count)], object
    )
    ids = rng.integers(0, 50, (count, 32)).astype(np.int32)
    truth = rng.integers(0, 2, count)
    data = training_data(ids, truth, ("negative", "positive"), texts=texts, **options)
    return inputs_of(data, said_of(data, truth), source="csv")


def of_classes(count, each=3, size=32, **options):
    """A report on so many classes of colour images of random pixels."""
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(count), each)
    images = rng.integers(0, 256, (len(truth), size, size, 3), np.uint8)
    names = [f"class {number}" for number in range(count)]
    data = training_data(images, truth, names, **options)
    return inputs_of(data, said_of(data, truth), source="csv")


def of_files(root, count=300, **options):
    """A report on a folder of images of four classes, as files of several sizes."""
    from PIL import Image

    from har_jax.data.reading.encoded import ImageFiles, Reading

    rng = np.random.default_rng(0)
    truth = np.arange(count) % 4
    names = ("ant", "bee", "cow", "dog with a long name")
    paths = []
    for row, label in enumerate(truth.tolist()):
        folder = root / names[label]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (*rng.integers(3, 9, 2), 3), np.uint8)
        size = (int(rng.integers(100, 300)), int(rng.integers(100, 300)))
        picture = Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC)
        paths.append(f"{names[label]}/photo {row:03}.{('jpg', 'png')[row % 2]}")
        picture.save(root / paths[-1])
    files = ImageFiles(root, np.array(paths), Reading(image_size=64))
    data = training_data(files, truth, names, **options)
    return inputs_of(data, said_of(data, truth), source="folder")
