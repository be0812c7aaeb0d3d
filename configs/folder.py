"""ResNet-50 on a person's own images: --config.data.root=FOLDER, with a folder for each class.

For a table of paths and labels: --config.data.source=csv --config.data.table=FILE.csv. A trial on
a CPU: --config.model.depth=14 --config.data.image_size=64 --config.batch_size=32.
"""

from har_jax import recipes


def get_config():
    return recipes.own_images()
