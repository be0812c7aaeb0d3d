"""The configs of data whose classes are unevenly frequent by nature, or were made so by others.

Images of 224 pixels, stochastic gradient descent with a momentum of 0.9 and a learning rate that
falls to 0 as a cosine are Kang et al.'s (2020), whose 0.2 for batches of 512 images is 0.1 for the
256 here. Methods are plain training and HAR of first order, as of
:func:`har_jax.config.recipes.own_images`; the strength is not tuned.
"""

from ml_collections import config_dict

from har_jax.config.recipes import own_images


def _long_tailed(epochs: float, weight_decay: float) -> config_dict.ConfigDict:
    config = own_images()
    config.data.on_leak = "keep"  # as everybody's numbers of these data have it
    config.batch_size = 256
    config.optimizer.schedule = "cosine"
    config.optimizer.weight_decay = weight_decay
    config.pretrain.epochs = config.train.epochs = epochs
    config.log_every = 100
    config.checkpoint_every = 1000
    return config


def _listed(name: str) -> config_dict.ConfigDict:
    """What is listed as Liu et al. 2019 do, who made both: training, validation and test set."""
    config = _long_tailed(epochs=90.0, weight_decay=5e-4)
    config.data.source = "list"
    config.data.train_list = f"{name}_train.txt"
    config.data.test_list = f"{name}_test.txt"
    return config


def imagenet_lt() -> config_dict.ConfigDict:
    """ResNet-50 on ImageNet-LT (Liu et al. 2019): 115,846 images, from 1,280 to 5 a class.

    90 epochs are Kang et al.'s; others train for up to 200. The weight decay of 5e-4 is common in
    the field. ResNeXt-50, with which many of its numbers are, is not here.
    """
    config = _listed("ImageNet_LT")
    config.data.root = "imagenet"
    return config


def places_lt() -> config_dict.ConfigDict:
    """ResNet-152 on Places-LT (Liu et al. 2019): 62,500 images, from 4,980 to 5 a class.

    The field's numbers begin with weights of ImageNet, which are not here: this begins at random,
    and is not to be compared with them. The rest is as of :func:`imagenet_lt`, which is chosen
    here.
    """
    config = _listed("Places_LT")
    config.data.root = "places"
    config.model.depth = 152
    return config


def inaturalist2018() -> config_dict.ConfigDict:
    """ResNet-50 on iNaturalist 2018: 437,513 images of 8,142 species, as they are found.

    It is tested on the validation set, since the labels of the test set are not published. The
    weight decay of 1e-4 is chosen here.
    """
    config = _long_tailed(epochs=90.0, weight_decay=1e-4)
    config.data.source = "tfds:i_naturalist2018"
    config.data.test_split = "validation"
    return config
