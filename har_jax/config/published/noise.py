"""What the authors of methods for noisy labels chose, as changes of a config in place."""

from ml_collections import config_dict

from har_jax.config.published.shared import adam, fall, num_classes, sgd


def gce(config: config_dict.ConfigDict) -> None:
    """Generalized cross-entropy: Zhang & Sabuncu 2018 (arXiv 1805.07836), theirs a ResNet-34.

    Without their truncation, which from the first fall of the learning rate on would leave out
    the examples that the network gives less than 0.5.
    """
    classes = num_classes(config, 10, 100)
    config.methods = ("gce",)
    config.method.gce.q = 0.7
    sgd(config, rate=0.01, weight_decay=1e-4)
    fall(config, *((40.0, 80.0, 120.0) if classes == 10 else (80.0, 120.0, 150.0)), factor=0.1)


def dmi(config: config_dict.ConfigDict) -> None:
    """L_DMI: Xu et al. 2019 (arXiv 1909.03388), who have CIFAR-10 only; theirs is a ResNet-34.

    Their second stage takes a rate of 1e-6 for 100 epochs. Here it begins with that, and goes by
    the schedule of the first one.
    """
    num_classes(config, 10)
    config.methods = ("dmi",)
    config.method.dmi.rate = 1e-5
    sgd(config, rate=0.1, weight_decay=1e-4)
    fall(config, 40.0, 80.0, 120.0, factor=0.1)
    config.batch_size = 256


def co_teaching(config: config_dict.ConfigDict) -> None:
    """Co-teaching: Han et al. 2018 (arXiv 1804.06872), who train two nine-layer networks.

    Theirs have dropout and leaky ReLUs. The noise rate is estimated where the config does not say
    it; theirs is the true one. Their code counts 200 epochs from 0 and begins with the one after
    it, so that it trains for 199, and what they call epoch 80 is the 79 of ours.
    """
    late = 79.0 if num_classes(config, 10, 100) == 10 else 99.0
    config.methods = ("co_teaching",)
    config.method.co_teaching.gradual_epochs = 10
    config.method.co_teaching.exponent = 1.0
    adam(config, weight_decay=0.0)
    config.optimizer.late_b1 = (late, 0.1)
    config.optimizer.schedule = "linear"
    config.optimizer.decay_from = late
    config.train.epochs = config.pretrain.epochs = 199.0
    config.data.augment = "none"
    config.data.mean = config.data.std = None


def incv(config: config_dict.ConfigDict) -> None:
    """INCV: Chen et al. 2019 (arXiv 1905.05040), theirs a ResNet-32, as their code has it.

    Here every network goes by one schedule, and those of the selection through it in a quarter of
    the epochs: rates fall to a tenth at 80, 120 and 160 of 200 epochs, and at 20, 30 and 40 of 50.
    Theirs falls to half at 180 as well, with moments of Adam that begin anew at each fall; that of
    the selection is a half, a quarter and a tenth of the first one. Their decay of weights is of
    the blocks' convolutions only. Kinds of noise are the config's; whoever makes symmetric noise
    says so by ``config.method.incv.noise``.
    """
    num_classes(config, 10)
    config.methods = ("incv",)
    config.method.incv.rounds = 4
    config.method.incv.share = 0.25
    config.method.incv.gradual_epochs = 10
    adam(config, weight_decay=2e-4)
    fall(config, 80.0, 120.0, 160.0, 200.0, factor=0.1)
    config.data.augment = "crop_and_flip"
    config.data.mean = config.data.std = None


def elr(config: config_dict.ConfigDict) -> None:
    """Early-learning regularization: Liu et al. 2020 (arXiv 2007.00151), theirs a ResNet-34.

    For CIFAR-10 it is their choice for asymmetric noise, such as that of similar classes.
    """
    ten = num_classes(config, 10, 100) == 10
    config.methods = ("elr",)
    config.method.elr.beta = 0.9
    config.method.elr.factor = 1.0 if ten else 7.0
    sgd(config, rate=0.02, weight_decay=1e-3)
    fall(config, *((40.0, 80.0, 120.0) if ten else (80.0, 120.0, 150.0)), factor=0.01)


def l2rw(config: config_dict.ConfigDict) -> None:
    """Learning to reweight: Ren et al. 2018 (arXiv 1803.09050), who have CIFAR-10's 100 images.

    80,000 steps on 49,900 images; theirs is a ResNet-32, too, whose norms have no scale.
    """
    num_classes(config, 10)
    config.methods = ("l2rw",)
    config.data.meta_size = 100
    sgd(config, rate=0.1, weight_decay=2e-4)
    fall(config, 80.0, 120.0, 160.0, factor=0.1)
    config.batch_size = 100


def mw_net(config: config_dict.ConfigDict) -> None:
    """Meta-Weight-Net: Shu et al. 2019 (arXiv 1902.07379), the script they have now."""
    num_classes(config, 10, 100)
    config.methods = ("mw_net",)
    config.data.meta_size = 1000
    config.method.mw_net.meta_rate = 1e-3
    config.method.mw_net.meta_decay = 1e-4
    config.method.mw_net.normalize = False
    sgd(config, rate=0.1, weight_decay=5e-4)
    fall(config, 80.0, 100.0, 120.0, factor=0.1)
    config.batch_size = 100


def mentornet(config: config_dict.ConfigDict) -> None:
    """MentorNet PD: Jiang et al. 2018 (arXiv 1712.05055), theirs a residual network of 55 layers.

    Their 39,000 steps as epochs of 50,000 images, and their percentile for noise of 20% and 40%; at
    80% they take 0.5. The flag that their commands say it by is misspelt, and what they ran is
    probably its default, 0.7. Their decay is of convolutions and of the classifier only. For their
    data-driven weights the percentile is 0.8 at 20% and 0.6 at 40%.
    """
    num_classes(config, 10, 100)
    config.methods = ("mentornet",)
    config.method.mentornet.curriculum = "predefined"
    config.method.mentornet.percentile = 0.75
    config.method.mentornet.decay = 0.5
    config.method.mentornet.dropout = ((0.5, 17), (0.05, 83))
    sgd(config, rate=0.1, weight_decay=2e-4)
    steps = (19_531, 25_000, 30_000, 39_000)
    fall(config, *(count * config.batch_size / 50_000 for count in steps), factor=0.1)
