"""Writes small data sets as TFDS prepares them, without TensorFlow."""

import io
import json

import numpy as np
from array_record.python import array_record_module
from PIL import Image
from tensorflow_datasets.proto import tf_example_pb2

IMAGE = "tensorflow_datasets.core.features.image_feature.Image"
TEXT = {"pythonClassName": "tensorflow_datasets.core.features.text_feature.Text", "text": {}}
_NUMBER = {
    "pythonClassName": "tensorflow_datasets.core.features.scalar.Scalar",
    "tensor": {"shape": {}, "dtype": "int64", "encoding": "none"},
}


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
    _write(folder, "text", TEXT, texts, labels, class_names, **options)


def _write(
    folder,
    key,
    feature,
    values,
    labels,
    class_names,
    *,
    splits=("train", "test"),
    file_format=None,
    ids=None,
):
    """Writes the same examples as every split, with ids SPLIT_ID, or numbers as they are."""
    folder.mkdir(parents=True)
    name = folder.parent.name
    for split in splits:
        path = folder / f"{name}-{split}.array_record-00000-of-00001"
        writer = array_record_module.ArrayRecordWriter(str(path), "group_size:1")
        for row, (value, label) in enumerate(zip(values, labels, strict=True)):
            example = tf_example_pb2.Example()
            example.features.feature[key].bytes_list.value.append(value)
            example.features.feature["label"].int64_list.value.append(int(label))
            if ids is not None and isinstance(ids[row], int):
                example.features.feature["id"].int64_list.value.append(ids[row])
            elif ids is not None:
                id = f"{split}_{ids[row]}".encode()
                example.features.feature["id"].bytes_list.value.append(id)
            writer.write(example.SerializeToString())
        writer.close()
    label = {
        "pythonClassName": "tensorflow_datasets.core.features.class_label_feature.ClassLabel",
        "classLabel": {"numClasses": str(len(class_names))},
    }
    features = {key: feature, "label": label}
    if ids is not None:
        features["id"] = _NUMBER if isinstance(ids[0], int) else TEXT
    write_features(folder, features)
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
