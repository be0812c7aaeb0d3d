"""Makes small folders of image files, as a person has them."""

import numpy as np
from PIL import Image


def write_folder(root, counts, *, size=(40, 32), seed=0):
    """Noise whose mean tells the classes apart: ``counts`` has files by ``split/class`` path."""
    rng = np.random.default_rng(seed)
    for number, (folder, count) in enumerate(counts.items()):
        (root / folder).mkdir(parents=True)
        base = np.array([(60 * number + 90 * channel) % 256 for channel in range(3)])
        for index in range(count):
            pixels = np.clip(base + rng.normal(0, 20, (*size[::-1], 3)), 0, 255).astype(np.uint8)
            kind = ("jpg", "png")[index % 2]
            Image.fromarray(pixels).save(root / folder / f"{index:03}.{kind}")
