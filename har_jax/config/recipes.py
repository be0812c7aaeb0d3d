"""The configs of the paper's experiments (sections 4.1 and 4.2, appendices B and C), and those for
a person's own images and texts.

The recipe and the protocols are Cao et al.'s (2021); for CIFAR it leaves the initial learning rate
open, and 0.1 is that of He et al. 2016 and of the authors' code.
"""

from ml_collections import config_dict

from har_jax.config.defaults import base

_NOISY_CLASSES = {
    10: (("cat", "dog"), ("truck", "automobile")),
    100: (
        ("bicycle", "bus", "motorcycle", "pickup_truck", "train"),  # "vehicles 1"
        ("lawn_mower", "rocket", "streetcar", "tank", "tractor"),  # "vehicles 2"
    ),
}
_CLEAN_CLASSES = ("airplane", "bird", "deer", "frog", "horse", "ship")  # of CIFAR-10


def _sgd_and_regularizer() -> config_dict.ConfigDict:
    """What all recipes for images have in common."""
    config = base()
    config.batch_size = 128
    config.optimizer.learning_rate = 0.1
    config.optimizer.momentum = 0.9
    config.optimizer.weight_decay = 1e-4
    config.regularizer.layers = "normalization_but_stem"
    config.regularizer.reduction = "sum_of_norms"
    config.regularizer.strength = 0.1
    return config


def cifar(num_classes: int) -> config_dict.ConfigDict:
    """ResNet-32 on CIFAR-10 or -100 as they are, for plain training and HAR."""
    config = _sgd_and_regularizer()
    config.data.source = f"tfds:cifar{num_classes}"
    config.data.on_leak = "keep"  # as everybody's numbers of these data have it
    config.data.augment = "crop_and_flip"
    config.estimate.smoothing = 0.0
    config.data.mean = (0.4914, 0.4822, 0.4465)
    config.data.std = (0.2023, 0.1994, 0.2010)
    config.model.name = "cifar_resnet"
    config.model.depth = 32
    config.optimizer.schedule = "step"
    config.optimizer.decay_epochs = (80.0, 100.0)
    config.optimizer.decay_factor = 0.1
    config.pretrain.epochs = 120.0
    config.train.epochs = 120.0
    config.regularizer.uniform_strength = 0.1
    config.log_every = 100
    config.checkpoint_every = 1000
    return config


def heteroskedastic(num_classes: int) -> config_dict.ConfigDict:
    """40% of the labels of some similar classes are exchanged among them."""
    config = cifar(num_classes)
    config.data.noise.kind = "groups"
    config.data.noise.groups = _NOISY_CLASSES[num_classes]
    config.data.noise.rate = 0.4
    return config


def annotated(num_classes: int, labels: str) -> config_dict.ConfigDict:
    """CIFAR-10N or -100N (Wei et al. 2022): labels that people gave, from a file by ids.

    Args:
      num_classes: 10 or 100.
      labels: The file; docs/labels.md says how it is made of what they publish.
    """
    config = cifar(num_classes)
    config.data.labels = labels
    return config


def noisy_and_rare(ratio: float) -> config_dict.ConfigDict:
    """Heteroskedastic CIFAR-10 whose noisy classes have ``1 / ratio`` of the examples."""
    config = heteroskedastic(10)
    config.data.imbalance.kind = "step"
    config.data.imbalance.classes = sum(_NOISY_CLASSES[10], ())
    config.data.imbalance.ratio = float(ratio)
    return config


def clean_and_rare(ratio: float) -> config_dict.ConfigDict:
    """Heteroskedastic CIFAR-10 whose other classes are the rare ones: the benign variant."""
    config = noisy_and_rare(ratio)
    config.data.imbalance.classes = _CLEAN_CLASSES
    return config


def long_tailed(num_classes: int, ratio: float) -> config_dict.ConfigDict:
    """No noise; class sizes fall exponentially, down to ``1 / ratio`` of the first."""
    config = cifar(num_classes)
    config.data.imbalance.kind = "exponential"
    config.data.imbalance.ratio = float(ratio)
    return config


def step(num_classes: int, ratio: float) -> config_dict.ConfigDict:
    """No noise; the last half of the classes has ``1 / ratio`` of the examples."""
    config = cifar(num_classes)
    config.data.imbalance.kind = "step"
    config.data.imbalance.classes = tuple(range(num_classes // 2, num_classes))
    config.data.imbalance.ratio = float(ratio)
    return config


def own_images() -> config_dict.ConfigDict:
    """ResNet-50 on images in files, for plain training and HAR of first order.

    That gains as much as exact derivatives on the digits, and nearly as much on small CIFAR-10
    (docs/results/), in the memory of plain training.
    """
    config = _sgd_and_regularizer()
    config.regularizer.derivative = "first_order"
    config.data.source = "folder"
    config.data.image_size = 224
    config.data.augment = "resized_crop_and_flip"
    config.data.mean = (0.485, 0.456, 0.406)  # of ImageNet
    config.data.std = (0.229, 0.224, 0.225)
    config.model.name = "imagenet_resnet"
    config.model.depth = 50
    config.pretrain.epochs = config.train.epochs = 60.0
    return config


def webvision(subset: str) -> config_dict.ConfigDict:
    """Inception-ResNet-v2 on WebVision: ``"mini"`` or ``"full"``, as the paper's appendix B has it.

    Mini's learning rate falls "at epoch 60 and 90" of 90, so that the second fall never acts.
    """
    config = own_images()
    config.regularizer.derivative = "exact"
    config.data.source = "webvision"
    config.data.on_leak = "keep"
    config.data.root = "webvision"
    config.data.subset = subset
    config.data.image_size = 299
    config.data.mean = config.data.std = (0.5, 0.5, 0.5)
    config.model.name = "inception_resnet_v2"
    config.model.depth = None
    mini = subset == "mini"
    config.batch_size = 128 if mini else 256
    config.pretrain.epochs = config.train.epochs = 90.0 if mini else 50.0
    config.optimizer.schedule = "step"
    config.optimizer.decay_epochs = (60.0, 90.0) if mini else (30.0, 40.0)
    config.optimizer.decay_factor = 0.1
    config.estimate.smoothing = 0.0
    return config


def imdb() -> config_dict.ConfigDict:
    """A bidirectional LSTM on IMDB's reviews, 40% of the positive called negative, 5% the reverse.

    Appendices B and C: two layers of 256 units, dropout of 0.5, 20 epochs of Adam, a maximum
    strength of 0.1. The paper does not say the rest, which is chosen here: the last 256 words of a
    review, out of 20,000; embeddings of 128; batches of 64; a learning rate of 1e-3 that falls to 0
    as a cosine; no weight decay; the terms of R those of the embedding and of each layer, summed.
    """
    config = own_texts()
    config.regularizer.derivative = "exact"
    config.data.source = "tfds:imdb_reviews"
    config.data.on_leak = "keep"
    config.data.noise.kind = "asymmetric"
    config.data.noise.flips = (("neg", "pos", 0.05), ("pos", "neg", 0.4))
    config.estimate.smoothing = 0.0
    return config


def own_texts() -> config_dict.ConfigDict:
    """A bidirectional LSTM on texts in a table, for plain training and HAR of first order.

    Its activations are smooth, so that this is all but the exact derivative, at less cost.
    """
    config = base()
    config.regularizer.derivative = "first_order"
    config.data.source = "csv"
    config.data.vocabulary_size = 20_000
    config.data.length = 256
    config.model.name = "bilstm"
    config.model.widths = (256, 256)
    config.model.embedding = 128
    config.model.dropout = 0.5
    config.batch_size = 64
    config.optimizer.name = "adam"
    config.optimizer.learning_rate = 1e-3
    config.optimizer.schedule = "cosine"
    config.optimizer.weight_decay = 0.0
    config.pretrain.epochs = config.train.epochs = 20.0
    config.regularizer.layers = "embeddings_and_recurrent"
    config.regularizer.reduction = "sum_of_norms"
    config.regularizer.strength = config.regularizer.uniform_strength = 0.1
    config.log_every = 100
    config.checkpoint_every = 1000
    return config


def shrink(config: config_dict.ConfigDict) -> None:
    """Makes a config of this module small enough for two CPU cores, in place: a fixed reduction."""
    if config.model.name == "bilstm":
        _shrink_texts(config)
    else:
        _shrink_images(config)


def _shrink_texts(config: config_dict.ConfigDict) -> None:
    """LSTMs of 32 units on the last 64 words of 10,000 reviews, for 16 epochs.

    Strengths are multiplied by (32 / 256)^(1/2): the fewer units a layer has, the larger is the
    gradient with respect to it of a loss that depends on it as much.
    """
    width = 32
    scale = (width / config.model.widths[0]) ** 0.5
    config.data.train_size = 10_000
    config.data.vocabulary_size = 5000
    config.data.length = 64
    config.model.widths = (width, width)
    config.model.embedding = width
    config.pretrain.epochs = config.train.epochs = 16.0
    config.regularizer.strength *= scale
    config.regularizer.uniform_strength *= scale


def _shrink_images(config: config_dict.ConfigDict) -> None:
    """A ResNet-8 of twice the width that halves images at its stem, for half of the epochs.

    It is trained on 10,000 images (before imbalance) in batches of 32, with the schedule to match.
    Images are mirrored but not cropped: small networks do not overfit noisy labels in so few epochs
    of cropped images, and where nothing overfits there is nothing to regularize. HAR's strength is
    that of a term of the regularizer times their number, since a ResNet-8 has fewer layers to sum.
    """
    depth = 8
    config.data.train_size = 10000
    if config.data.meta_size is not None:
        config.data.meta_size //= 5  # as the training set is
    config.data.augment = "flip"
    config.regularizer.strength *= (config.model.depth - 2) / (depth - 2)
    config.model.depth = depth
    config.model.widths = (32, 64, 128)
    config.model.stem_strides = 2
    config.batch_size = 32
    config.pretrain.epochs = config.train.epochs = 60.0
    config.optimizer.decay_epochs = (40.0, 50.0)
    if config.reweighting.start_epoch is not None:
        config.reweighting.start_epoch /= 2
