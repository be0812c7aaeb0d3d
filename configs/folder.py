"""ResNet-50 on a person's own images: --config.data.root=FOLDER, with a folder for each class.

For a table of paths and labels: --config.data.source=csv --config.data.table=FILE.csv.
docs/own_data.md has the options for a trial on a CPU.
"""

from har_jax.config import recipes


def get_config():
    return recipes.own_images()
