"""What a prepared set of TensorFlow Datasets holds: images or texts with class labels."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from har_jax.data.examples import DataError, Dataset, Examples
from har_jax.data.found import Found
from har_jax.data.hold_out import HoldOut
from har_jax.data.labels import OnMissing
from har_jax.data.reading.decoding import decode_image
from har_jax.data.reading.encoded import Reading
from har_jax.data.sources.image_records import ImageRecords, open_split
from har_jax.system.interruption import checked

_READ_AT_ONCE = 1000
_ID = "id"  # as TFDS calls it


@dataclasses.dataclass(frozen=True)
class PreparedData:
    """A prepared set of examples with class labels.

    Attributes:
      name: As it was asked for.
      builder: Of TFDS, which knows the folder.
      test_split: What is tested on; None: ``test`` where there is one, or else ``validation``.
      reading: How images are read that are of several sizes.
    """

    name: str
    builder: Any
    test_split: str | None = None
    reading: Reading = dataclasses.field(default_factory=Reading)

    @property
    def class_names(self) -> tuple[str, ...]:
        """``K`` names."""
        return tuple(self._features[self._label_key].names)

    @property
    def kind(self) -> Literal["images", "texts"]:
        """What the examples are."""
        return "images" if self._text_key is None else "texts"

    def check(self) -> None:
        """Raises :class:`DataError` if there is nothing that :meth:`load` could read."""
        _ = self._label_key, self._text_key or self._image_key, self._tested
        if not self._text_key and self._sized:
            self._refuse_unread()

    def load(self, hold_out: HoldOut, on_missing: OnMissing, seed: int) -> Dataset:
        """Reads the training set and a test set.

        Images of one size become ``[n, H, W, C]`` uint8, and those of several stay encoded, as
        :class:`ImageRecords`; texts, where there are no images, become ``[n]`` strings.

        Args:
          hold_out: How a part of the training set becomes the test set, where there is none.
          on_missing: What to do with examples of label -1.
          seed: Of what is held out.

        Raises:
          DataError: if they cannot be read, or labels are missing.
        """
        splits = self.builder.info.splits
        used = ("train",) if self._tested is None else ("train", self._tested)
        found = Found({split: f"the split {split!r}" for split in used})
        found = found.counted(
            {
                f"left out: examples of the split {split!r}": splits[split].num_examples
                for split in splits
                if split not in used
            }
        )
        if self._tested is not None:
            hold_out.refuse_unread(f"tfds:{self.name}")
        train, *tests = (self._labelled(split, on_missing) for split in used)
        read = sum(splits[split].num_examples for split in used)
        found = found.counted({"left out: labels -1": read - sum(map(len, (train, *tests)))})
        if tests:
            return Dataset(train, tests[0], self.class_names, found=found)
        train, test, found = hold_out.split(train, seed, found)
        return Dataset(train, test, self.class_names, found=found)

    def _labelled(self, split: str, on_missing: OnMissing) -> Examples:
        """The examples of a split that have a label, which is not -1."""
        examples = self._read(split)
        missing = examples.labels == -1
        if np.any(missing) and on_missing != "skip":
            raise DataError(
                f"{np.sum(missing)} of the {len(examples)} examples of the split {split} of "
                f"tfds:{self.name} have the label -1, which stands for none: leave them out with "
                "config.data.on_missing_label=skip"
            )
        return examples.take(np.flatnonzero(~missing)) if np.any(missing) else examples

    def find_images(self, split: str, class_names: Sequence[str], reading: Reading) -> Examples:
        """The images of some classes, of any size, still encoded.

        Args:
          split: Of this set.
          class_names: ``K`` names: the classes that are taken, in the order of the ids they get.
          reading: How the images are to be read.

        Raises:
          DataError: if there is no such split, or no image of these classes in it.
        """
        if split not in self.builder.info.splits:
            raise DataError(f"tfds:{self.name} has no split {split}")
        ids = {name: label for label, name in enumerate(class_names)}
        of_own = np.array([ids.get(name, -1) for name in self.class_names], np.int32)
        every = self._encoded(split, self._key_of_images(sized=False), reading)
        labels = np.where(every.labels >= 0, of_own[every.labels], -1).astype(np.int32)
        rows = np.flatnonzero(labels >= 0)
        if not len(rows):
            raise DataError(
                f"tfds:{self.name}: no image of {split} is of a class that is trained on, such as "
                f"{class_names[0]}; its own are such as {self.class_names[0]}"
            )
        return dataclasses.replace(every.take(rows), labels=labels[rows])

    def _encoded(self, split: str, key: str, reading: Reading) -> Examples:
        """A split whose images stay in its records, which are read once for labels and sizes."""
        size = self.builder.info.splits[split].num_examples
        labels, sizes = np.empty(size, np.int32), np.empty(size, np.int64)
        ids = _Ids(size, self._id_key)
        for row, example in self._examples(split, key):
            labels[row], sizes[row] = example[self._label_key], len(example[key])
            ids.read(row, example)
        folder = pathlib.Path(self.builder.data_dir)
        inputs = ImageRecords(folder, split, key, np.arange(size), sizes, reading)
        return Examples(inputs, labels, ids=ids.found)

    def _read(self, split: str) -> Examples:
        size = self.builder.info.splits[split].num_examples
        labels, ids = np.empty(size, np.int32), _Ids(size, self._id_key)
        if self._text_key is not None:
            texts = np.empty(size, object)
            for row, example in self._examples(split):
                texts[row] = example[self._text_key].decode("utf-8", "replace")
                labels[row] = example[self._label_key]
                ids.read(row, example)
            return Examples(texts, labels, ids=ids.found)
        key = self._image_key
        if not self._sized:
            return self._encoded(split, key, self.reading)
        shape = self._features[key].shape
        inputs = np.empty((size, *shape), np.uint8)
        for row, example in self._examples(split, key):
            try:
                pixels = decode_image(example[key], shape[-1])
                if pixels.shape != shape:
                    raise ValueError(f"it has the shape {pixels.shape}, and not {shape}")
            except Exception as error:  # Pillow has many types for a damaged file
                raise self._unreadable(f"example {row} of {split}", error) from error
            inputs[row] = pixels
            labels[row] = example[self._label_key]
            ids.read(row, example)
        return Examples(inputs, labels, ids=ids.found)

    def _examples(self, split: str, *encoded: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """All examples of a split, numbered, with some features left encoded."""
        source = open_split(self.builder, split, encoded)
        for start in checked(range(0, len(source), _READ_AT_ONCE)):
            rows = range(start, min(start + _READ_AT_ONCE, len(source)))
            try:
                examples = source.__getitems__(rows)
            except Exception as error:  # of a reader, of whatever type
                what = f"examples {rows.start} to {rows.stop - 1} of {split}"
                raise self._unreadable(what, error) from error
            yield from zip(rows, examples, strict=True)

    def _unreadable(self, what: str, error: Exception) -> DataError:
        return DataError(
            f"tfds:{self.name}: {what} cannot be read from {self.builder.data_dir} "
            f"({type(error).__name__}: {error}): delete that folder and prepare it again"
        )

    @property
    def _tested(self) -> str | None:
        """What is tested on; None where that is a part of what is trained on."""
        splits = self.builder.info.splits
        if "train" not in splits:
            raise DataError(
                f"tfds:{self.name} has the splits {', '.join(splits)}: train is needed, and test "
                "or validation where there is one"
            )
        test = next((split for split in ("test", "validation") if split in splits), None)
        if self.test_split is not None:
            if self.test_split not in splits or self.test_split == "train":
                others = ", ".join(split for split in splits if split != "train")
                raise DataError(
                    f"config.data.test_split={self.test_split!r} is no split of tfds:{self.name} "
                    f"to test on: beside train there is {others or 'none'}"
                )
            test = self.test_split
        for split in ("train", test):
            if split is not None and not splits[split].num_examples:
                raise DataError(
                    f"tfds:{self.name}: the split {split} in {self.builder.data_dir} has no "
                    "examples"
                )
        return test

    @property
    def _features(self) -> Mapping[str, Any]:
        return self.builder.info.features

    @functools.cached_property
    def _label_key(self) -> str:
        from tensorflow_datasets.core.features import ClassLabel

        return self._one("class label", lambda feature: type(feature) is ClassLabel, place=1)

    @functools.cached_property
    def _id_key(self) -> str | None:
        """The feature ``id``, where there is one that is a text or a whole number."""
        feature = dict(self._features.items()).get(_ID)
        if feature is None or feature.shape != () or self._label_key == _ID:
            return None
        return _ID if np.dtype(feature.np_dtype).kind in "iuOSU" else None

    @functools.cached_property
    def _text_key(self) -> str | None:
        """The feature that is the text; None where there are images, or no texts."""
        from tensorflow_datasets.core.features import Image, Text

        kinds = {kind for kind in (Image, Text) for f in self._features.values() if type(f) is kind}
        if kinds != {Text}:
            return None
        return self._one("text", lambda feature: type(feature) is Text, place=0)

    @functools.cached_property
    def _sized(self) -> bool:
        """Whether images are of one size: those that are come before others."""
        return any(map(functools.partial(_is_image, sized=True), self._features.values()))

    @property
    def _image_key(self) -> str:
        """The feature that is the image."""
        return self._key_of_images(sized=self._sized)

    def _key_of_images(self, *, sized: bool) -> str:
        kind = "uint8 image of a fixed size" if sized else "uint8 image"
        return self._one(kind, functools.partial(_is_image, sized=sized), place=0)

    def _refuse_unread(self) -> None:
        """Raises :class:`DataError` if it is said how to read images that are arrays."""
        said = {"image_size": self.reading.image_size, "augment": self.reading.crop}
        default = {"image_size": Reading.image_size, "augment": Reading.crop}
        for key, value in said.items():
            if value != default[key]:
                shape = "x".join(map(str, self._features[self._image_key].shape))
                raise DataError(
                    f"config.data.{key}={value} is of images of several sizes, and those of "
                    f"tfds:{self.name} are all {shape}: remove it"
                )

    def _one(self, kind: str, fits: Callable[[Any], bool], place: int) -> str:
        """The name of the one feature that fits, or of the one that TFDS would learn from."""
        keys = [key for key, feature in self._features.items() if fits(feature)]
        supervised = self.builder.info.supervised_keys
        if supervised is not None and supervised[place] in keys:
            return str(supervised[place])
        if len(keys) != 1:
            raise DataError(
                f"tfds:{self.name} has the features {', '.join(sorted(self._features))}: a class "
                "label and either an image or a text are needed, and there are "
                f"{len(keys)} features that are a {kind}"
            )
        return keys[0]


class _Ids:
    """The ids of a split's examples; None where they have none."""

    def __init__(self, size: int, key: str | None) -> None:
        self._key = key
        self.found = None if key is None else np.empty(size, object)

    def read(self, row: int, example: Mapping[str, Any]) -> None:
        if self._key is not None and self.found is not None:
            id = example[self._key]
            self.found[row] = id.decode("utf-8", "replace") if isinstance(id, bytes) else str(id)


def _is_image(feature: Any, *, sized: bool) -> bool:
    """Whether a feature is an image of 8 bits, and of one size where that is asked for."""
    from tensorflow_datasets.core.features import Image

    is_image = isinstance(feature, Image) and feature.np_dtype == np.uint8
    return is_image and not (sized and None in feature.shape)
