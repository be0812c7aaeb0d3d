"""Writes small data sets as TFDS prepares them, without TensorFlow."""

import io
import json

import numpy as np
from array_record.python import array_record_module
from PIL import Image
from tensorflow_datasets.proto import tf_example_pb2

IMAGE = "tensorflow_datasets.core.features.image_feature.Image"


def write(folder, images, labels, class_names, *, sized=True, **options):
    """Writes images, uint8 [n, H, W, C] as PNG, and labels."""
    dimensions = [str(size) for size in images.shape[1:]] if sized else ["-1", "-1", "3"]
    feature = {
        "pythonClassName": IMAGE,
        "image": {"shape": {"dimensions": dimensions}, "dtype": "uint8", "encodingFormat": "png"},
    }
    encoded = [png(image) for image in images]
    _write(folder, "image", feature, encoded, labels, class_names, **options)


def write_texts(folder, texts, labels, class_names, **options):
    """Writes texts, bytes, and labels."""
    name = "tensorflow_datasets.core.features.text_feature.Text"
    feature = {"pythonClassName": name, "text": {}}
    _write(folder, "text", feature, texts, labels, class_names, **options)


def _write(
    folder, key, feature, values, labels, class_names, *, splits=("train", "test"), file_format=None
):
    """Writes the same examples as every split."""
    folder.mkdir(parents=True)
    name = folder.parent.name
    for split in splits:
        path = folder / f"{name}-{split}.array_record-00000-of-00001"
        writer = array_record_module.ArrayRecordWriter(str(path), "group_size:1")
        for value, label in zip(values, labels, strict=True):
            example = tf_example_pb2.Example()
            example.features.feature[key].bytes_list.value.append(value)
            example.features.feature["label"].int64_list.value.append(int(label))
            writer.write(example.SerializeToString())
        writer.close()
    label = {
        "pythonClassName": "tensorflow_datasets.core.features.class_label_feature.ClassLabel",
        "classLabel": {"numClasses": str(len(class_names))},
    }
    write_features(folder, {key: feature, "label": label})
    (folder / "label.labels.txt").write_text("\n".join(class_names) + "\n")
    information = {
        "name": name,
        "version": folder.name,
        "fileFormat": file_format or "array_record",
        "splits": [
            {
                "name": split,
                "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
                "shardLengths": [str(len(labels))],
                "numBytes": "1",
            }
            for split in splits
        ],
    }
    (folder / "dataset_info.json").write_text(json.dumps(information))


def write_features(folder, features):
    content = {
        "pythonClassName": "tensorflow_datasets.core.features.features_dict.FeaturesDict",
        "featuresDict": {"features": features},
    }
    (folder / "features.json").write_text(json.dumps(content))


def png(image):
    buffer = io.BytesIO()
    Image.fromarray(image.squeeze()).save(buffer, "png")
    return buffer.getvalue()


def random_images(size, shape, num_classes, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (size, *shape), np.uint8), rng.permutation(size) % num_classes
