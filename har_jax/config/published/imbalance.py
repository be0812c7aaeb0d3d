"""What the authors of methods for imbalanced labels chose, as changes of a config in place."""

from ml_collections import config_dict

from har_jax.config.published.shared import fall, num_classes, sgd


def focal(config: config_dict.ConfigDict) -> None:
    """Focal loss, of a softmax: as the code of Cao et al. 2019 (arXiv 1906.07413) has it.

    Lin et al. 2017 (arXiv 1708.02002), who detect objects, take a gamma of 2.
    """
    num_classes(config, 10, 100)
    config.methods = ("focal",)
    config.method.focal.gamma = 1.0
    _two_falls(config, 160.0, 180.0)
    _warm_up(config, 4.0, start=0.2, by="epoch")


def cb_focal(config: config_dict.ConfigDict) -> None:
    """Class-balanced focal loss: Cui et al. 2019 (arXiv 1901.05555), as their scripts have it.

    They search a beta of 0.9 to 0.9999 and a gamma of 0.5 to 2. Their decay of weights is not of
    the last bias.
    """
    num_classes(config, 10, 100)
    config.methods = ("cb_focal",)
    config.method.cb_focal.gamma = 1.0
    config.method.cb_focal.beta = 0.9999
    _two_falls(config, 160.0, 180.0)
    _warm_up(config, 5.0, start=0.0, by="step")


def ldam(config: config_dict.ConfigDict) -> None:
    """LDAM with deferred reweighting: Cao et al. 2019 (arXiv 1906.07413)."""
    num_classes(config, 10, 100)
    config.methods = ("ldam",)
    config.method.ldam.max_margin = 0.5
    config.method.ldam.scale = 30.0
    config.reweighting.start_epoch = 160.0
    config.reweighting.beta = 0.9999
    _two_falls(config, 160.0, 180.0)
    _warm_up(config, 4.0, start=0.2, by="epoch")


def bbn(config: config_dict.ConfigDict) -> None:
    """BBN: Zhou et al. 2020 (arXiv 1912.02413), whose code has an imbalance of 50."""
    num_classes(config, 10, 100)
    config.methods = ("bbn",)
    _two_falls(config, 120.0, 160.0)
    _warm_up(config, 5.0, start=1 / 3, by="epoch")


def balanced_softmax(config: config_dict.ConfigDict) -> None:
    """Balanced softmax: Ren et al. 2020 (arXiv 2007.10740), without their meta-sampler.

    Their 13,000 steps as epochs of the long tail that they have, of an imbalance of 200. They
    augment by AutoAugment and Cutout, which is left out here.
    """
    images = 11_203 if num_classes(config, 10, 100) == 10 else 9_502
    config.methods = ("balanced_softmax",)
    sgd(config, rate=0.1, weight_decay=5e-4)
    config.batch_size = 512
    config.optimizer.schedule = "cosine"
    config.train.epochs = config.pretrain.epochs = 13_000 * config.batch_size / images
    _warm_up(config, 800 * config.batch_size / images, start=0.5, by="step")


def logit_adjustment(config: config_dict.ConfigDict) -> None:
    """Logit adjustment, as a loss: Menon et al. 2021 (arXiv 2007.07314), at an imbalance of 100.

    Their ResNet-32 has blocks of three convolutions and a norm at its end. They crop from 2 pixels
    more on each side, where it is 4 here, and their decay of weights is of the classifier's bias
    too.
    """
    ten = num_classes(config, 10, 100) == 10
    config.methods = ("logit_adjustment",)
    config.method.logit_adjustment.temperature = 1.0
    sgd(config, rate=0.1, weight_decay=2e-4)  # of half the square, theirs 1e-4 of all of it
    config.optimizer.weight_decay_of = "kernels"
    config.optimizer.nesterov = True
    falls = (604.0, 926.0, 1128.0, 1241.0) if ten else (691.0, 1059.0, 1290.0, 1419.0)
    fall(config, *falls, factor=0.1)
    _warm_up(config, 20.0 if ten else 22.0, start=0.0, by="step")
    config.data.mean, config.data.std = (0.5, 0.5, 0.5), (1.0, 1.0, 1.0)


def _two_falls(config: config_dict.ConfigDict, *epochs: float) -> None:
    """200 epochs of SGD whose rate falls to a hundredth at each of two."""
    sgd(config, rate=0.1, weight_decay=2e-4)
    fall(config, *epochs, 200.0, factor=0.01)


def _warm_up(config: config_dict.ConfigDict, epochs: float, *, start: float, by: str) -> None:
    config.optimizer.warmup_epochs = epochs
    config.optimizer.warmup_from = start
    config.optimizer.warmup_by = by
