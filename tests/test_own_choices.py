"""A person's own network, method, source and layers, in files beside a config, by import path."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from absl import flags
from ml_collections import config_flags

from har_jax import config as har_config
from har_jax.config import files, overrides
from har_jax.data import DataError
from har_jax.experiment.workdir import StageError

NETWORK = """\
from typing import Any

from flax import linen as nn


class MLP(nn.Module):
    num_classes: int
    depth: int = 2
    rate: float = 0
    dtype: Any = None

    @nn.compact
    def __call__(self, images, train):
        x = images.reshape(len(images), -1)
        for _ in range(self.depth):
            x = nn.relu(nn.LayerNorm(dtype=self.dtype)(nn.Dense(16, dtype=self.dtype)(x)))
        x = nn.Dropout(self.rate, deterministic=not train)(x)
        return nn.Dense(self.num_classes, dtype=self.dtype)(x)


class Deaf(MLP):
    @nn.compact
    def __call__(self, images):
        return images


class Wide(MLP):
    @nn.compact
    def __call__(self, images, train):
        return nn.Dense(self.num_classes + 1)(images.reshape(len(images), -1))


class Bare(MLP):
    @nn.compact
    def __call__(self, images, train):
        return nn.Dense(self.num_classes)(images.reshape(len(images), -1))


class Empty(MLP):
    @nn.compact
    def __call__(self, images, train):
        return images.reshape(len(images), -1)[:, : self.num_classes]


class Reader(MLP):
    reads = "sounds"


class Plain(nn.Module):
    num_classes: int
    scale: float | None = None
    keys: int = 3

    def __call__(self, images, train):
        return images
"""
METHOD = """\
from typing import Annotated

import jax.numpy as jnp

from har_jax.losses import cross_entropy
from har_jax.methods import accuracy, single_network
from har_jax.objective import weighted_sum
from har_jax.options import Option


def bounded(
    model,
    optimizer,
    *,
    q: Annotated[float, Option("0 is cross entropy, 1 the mean absolute error", gt=0, le=1)] = 0.7,
    **options,
):
    def objective(variables, batch, weights, apply_options):
        logits, collections = model.apply(variables, batch["inputs"], **apply_options)
        probability = jnp.exp(-cross_entropy(logits, batch["labels"]))
        loss = (1 - probability**q) / q
        hit = accuracy(logits, batch["labels"])
        metrics = {"loss": weighted_sum(loss), "accuracy": hit}
        return weighted_sum(loss, weights), (collections, metrics)

    return single_network(model, optimizer, objective, **options)
"""
SOURCE = """\
import numpy as np
from sklearn.datasets import load_digits

from har_jax.data import Dataset, Examples, Source

NAMES = tuple("0123456789")


def some_digits(*, size: int, shuffled: bool = True):
    def load(seed):
        images, labels = load_digits(return_X_y=True)
        images = (images / 16).astype(np.float32).reshape(-1, 8, 8, 1)
        rng = np.random.default_rng(seed)
        rows = rng.permutation(len(labels)) if shuffled else np.arange(len(labels))
        examples = Examples(images[rows], labels[rows].astype(np.int32))
        train, test = np.arange(size), np.arange(size, 2 * size)
        return Dataset(examples.take(train), examples.take(test), NAMES)

    return Source("images", NAMES, load)
"""
ODD = """\
import sys

import jax.numpy as jnp
import numpy as np

from har_jax.data import Dataset, Examples, Source
from har_jax.methods import Entry, erm, har


def narrow(model, optimizer, *, q=0.5):
    return erm(model, optimizer)


def nothing(model, optimizer, **options):
    return None


def bounded(model, optimizer, **options):
    return erm(model, optimizer, **options)


negative = Entry(har, lambda setting, *, scale=1.0: -scale * np.ones(len(setting.groups)))
short = Entry(har, lambda setting: np.ones(3))
blind = Entry(bounded, sees_meta=lambda options: options["eyes"])


def untyped(*, size=40, test_shape=(4,), classes="ab", fill=0.0):
    def load(seed):
        rng = np.random.default_rng(seed)
        labels = np.arange(size, dtype=np.int32) % 2
        part = lambda shape: Examples(rng.normal(size=(size, *shape)) + 10 * fill, labels)
        return Dataset(part((4,)), part(test_shape), tuple(classes))

    return Source("images", tuple(classes), load)


def loads_none():
    return Source("images", ("a", "b"), lambda seed: None)


def no_source():
    return 3
"""
LAYERS = """\
def dense(module, method_name, *, least: int = 1):
    is_dense = method_name == "__call__" and type(module).__name__ == "Dense"
    return is_dense and module.features >= least
"""
CONFIG = """\
from har_jax import config as har_config


def get_config():
    config = har_config.base()
    config.methods = ("erm", "my_method:bounded", "har")
    config.data.source = "my_source:some_digits"
    config.data.options.size = 200
    config.model.name = "my_network:MLP"
    config.model.options.depth = 1
    config.devices = 1
    config.train.epochs = config.pretrain.epochs = 3.0
    return config
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("mine")
    texts = {"network": NETWORK, "method": METHOD, "source": SOURCE, "layers": LAYERS, "odd": ODD}
    for name, text in texts.items():
        (path / f"my_{name}.py").write_text(text)
    (path / "my_exit.py").write_text("import sys\n\nsys.exit(0)\n")
    (path / "mine.py").write_text(CONFIG)
    return path


def test_toys_are_short():
    toy = NETWORK.partition("class Deaf")[0]
    assert max(len(text.splitlines()) for text in (toy, METHOD, SOURCE, LAYERS)) <= 40


def run(folder, *arguments, workdir="w"):
    command = [sys.executable, "-m", "har_jax", f"--config={folder / 'mine.py'}", *arguments]
    command.append(f"--workdir={folder / workdir}")
    options = {"cwd": folder.parent, "capture_output": True, "text": True, "check": False}
    return subprocess.run(command, **options)


@pytest.mark.slow
def test_all_of_them_go_through_the_command(folder):
    own = ("--config.model.options.rate=0.25", "--config.method.bounded.q=0.5")
    layers = (
        "--config.regularizer.layers=my_layers:dense",
        "--config.regularizer.options.least=12",
    )
    done = run(folder, *own, *layers)
    assert done.returncode == 0, done.stderr
    results = json.loads((folder / "w" / "report" / "results.json").read_text())
    assert results["config"]["model.options.rate"] == 0.25
    assert results["config"]["model.options.depth"] == 1
    for name in ("erm", "bounded", "har"):
        with np.load(folder / "w" / "train" / name / "evaluation.npz") as found:
            assert found["test_prediction"].shape == (200,)
    curve = (folder / "w" / "train" / "bounded" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(curve[-1])["loss"] < 1 / 0.5  # which is its bound
    predicted = run(folder, *own, *layers, "--stage=predict")
    assert predicted.returncode == 0, predicted.stderr
    assert len((folder / "w" / "predict" / "bounded.csv").read_text().splitlines()) == 1 + 400
    other = run(folder, *own, *layers[:1])
    assert other.returncode == 1
    assert "regularizer.options.least was 12, now 1" in other.stderr


def checked(folder, *arguments):
    """The config that a command line comes to."""
    config = files.load(folder / "mine.py")
    argv = overrides.prepare(config, ["har_jax", *arguments])
    values = flags.FlagValues()
    config_flags.DEFINE_config_dict("config", config, flag_values=values, sys_argv=argv)
    values(argv)
    har_config.validate(config)
    return config


def test_options_have_the_types_and_defaults_of_fields_and_parameters(folder):
    config = checked(folder, "--config.model.options.rate=0.5")
    assert dict(config.model.options) == {"depth": 1, "rate": 0.5}
    assert dict(config.data.options) == {"size": 200, "shuffled": True}
    assert config.method.bounded.q == 0.7
    assert dict(config.regularizer.options) == {}


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("model.options.dept=3", r"config.model.options.dept does not exist: did you mean "
                                 r"config.model.options.depth\?"),
        ("model.options.num_classes=3", "config.model.options.num_classes does not exist"),
        ("method.bounded.q=1.5", r"config.method.bounded.q=1.5 is impossible: it must be above 0 "
                                 "and at most 1"),
        ("method.bounded.p=0.5", r"config.method.bounded.p does not exist"),
        ("method.bound.q=0.5", r"config.method.bound.q does not exist: did you mean "
                               r"config.method.bounded.q\?"),
        ("data.options.sizes=3", r"config.data.options.sizes does not exist: did you mean "
                                 r"config.data.options.size\?"),
        ("model.depth=8", r"model.depth=8 is not read by config.model.name='my_network:MLP', only"),
        ("model.name=my_network:MPL", r"my_network.py has no MPL: did you mean MLP\?"),
        ("model.name=my_net:MLP", "there is no module my_net: put my_net.py beside the config"),
        ("model.name=my_network:nn", "is no network: the class of a Flax module"),
        ("model.name=flax.nnx:Linear", "takes no num_classes by keyword: a module of NNX is"),
        ("model.name=flax.linen:Dense", "has no field num_classes: it is made as Dense"),
        ("model.name=my_network:Deaf", "has no argument train: it is called as"),
        ("model.name=convnet", "options.depth=1 is not read by config.model.name='convnet', only"),
        ("model.name=mlp", "is unknown: take one of convnet, .*; or package.module:NAME"),
        ("data.source=my_source:NAMES", "is no source: a function with keyword-only options"),
        ("regularizer.layers=my_network:MLP", "is no filter: a function"),
        ("methods=('my_source:some_digits',)", "is no method: a function .model, optimizer"),
        ("methods=('erm','my_method:bounded','my_method:bounded')", "names a method twice"),
        ("model.name=my_network:Reader", "reads 'sounds': reads must be one of images, texts"),
        ("model.name=my_exit:Net", "my_exit cannot be imported: SystemExit: 0"),
        ("methods=my_odd:har", "har is one of this program's own: call yours otherwise"),
        ("methods=my_odd:narrow", r"takes no \*\*options: it is given augment, preprocess, loss_"),
        ("methods=('my_odd:blind',)", "methods='my_odd:blind': sees_meta fails: KeyError: 'eyes'"),
        ("methods=('my_method:bounded','my_odd:bounded')", "two methods that are called bounded, "
                                                           "as would"),
        ("methods=('bounded',)", "config.methods='bounded' is unknown: take some of erm, .*, or "
                                 "package"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_in_one_line(folder, flag, message):
    with pytest.raises(har_config.ConfigError, match=message) as caught:
        checked(folder, f"--config.{flag}")
    assert "\n" not in str(caught.value)


def test_what_is_said_of_own_options_in_a_file_and_in_flags(folder):
    unset = ("--config.model.name=my_network:Plain", "--config.model.options.scale=None")
    config = files.load(folder / "mine.py")
    config.model.options, config.model.name = {"scale": 0.5}, "my_network:Plain"
    config.method.bounded.q = 0.25  # a section that comes when it is named
    argv = overrides.prepare(config, ["har_jax", *unset])
    assert argv == ["har_jax", unset[0]]
    assert config.model.options.scale is None
    assert "keys" not in config.model.options  # which is a method of every section
    assert config.method.bounded.q == 0.25
    config = files.load(folder / "mine.py")
    config.model.options.depth = None
    with pytest.raises(har_config.ConfigError, match=r"depth=None is impossible: .* default is 2"):
        har_config.validate(config)
    config = files.load(folder / "mine.py")
    config.method.gcd.q = 0.25
    with pytest.raises(har_config.ConfigError, match=r"config.method.gcd is of a method that"):
        har_config.validate(config)
    single = checked(folder, "--config.methods=my_method:bounded", "--config.method.bounded.q=0.5")
    assert single.methods == ("my_method:bounded",)


def checked_and_run(config, workdir):
    from har_jax.experiment.algorithm import Experiment

    har_config.validate(config)
    Experiment(config, workdir).run()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": ("my_odd:nothing",)}, "returns a NoneType: a har_jax.methods.Method is"),
        ({"methods": ("my_odd:negative",)}, "its strengths must be an array of shape .200,. of"),
        ({"methods": ("my_odd:short",)}, "its strengths must be an array of shape .200,. of"),
        ({"data.source": "my_odd:no_source"}, "returns a int: a har_jax.data.Source is needed"),
        ({"data.source": "my_odd:loads_none"}, "my_odd:loads_none loads a NoneType: a har_jax"),
        ({"data.source": "my_odd:untyped", "test_shape": (5,)}, "test: inputs have the shape .5,."),
        (
            {"data.source": "my_odd:untyped", "classes": "aa"},
            "classes a, a of my_odd:untyped are not all",
        ),
        (
            {"data.source": "my_odd:untyped", "fill": float("nan")},
            "fill=nan is impossible: it must",
        ),
        (
            {"data.source": "my_odd:untyped", "fill": 1e308},
            "train: the inputs of 40 examples are not",
        ),
    ],
)
def test_what_a_method_or_a_source_gives_is_looked_at(folder, tmp_path, changes, message):
    config = files.load(folder / "mine.py")
    config.methods = ("erm",)
    if "data.source" in changes:
        config.data.options = {k: v for k, v in changes.items() if k not in ("data.source",)}
    config.update_from_flattened_dict({k: v for k, v in changes.items() if "." in k or "met" in k})
    refused = pytest.raises((har_config.ConfigError, DataError, StageError), match=message)
    with refused:  # by the config, or with the data
        checked_and_run(config, tmp_path)
    assert not any(tmp_path.glob("**/checkpoints"))


def test_a_method_of_another_module_does_not_take_over_a_folder(folder, tmp_path):
    from har_jax.experiment.artefacts import Artefacts

    folders = []
    for name in ("erm", "my_odd:bounded", "my_method:bounded"):
        config = checked(folder, f"--config.methods=('{name}',)")
        (folder_of,) = Artefacts(config, tmp_path).train.values()
        folders.append(folder_of)
    first, second = folders[1:]
    first.begin("digest")
    assert second.differences()["methods: bounded"] == ("my_odd:bounded", "my_method:bounded")
    assert not any(key.startswith("methods") for key in folders[0].fingerprint)


def test_an_option_that_is_needed_has_to_be_set(folder):
    config = files.load(folder / "mine.py")
    config.data.options = {}
    with pytest.raises(har_config.ConfigError, match=r"data.options.size is not set, but .*some_d"):
        har_config.validate(config)


def test_a_wrong_type_is_one_line_of_the_command(folder):
    told = run(folder, "--config.data.options.size=many")
    assert told.returncode == 2
    assert told.stderr == (
        "har_jax: config.data.options.size='many' has the wrong type: int needed\n"
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "Wide",
            r"returns float32 of shape \(2, 11\) for 2 inputs of 10 classes: .* shape \(2, 10\)",
        ),
        ("Bare", "regularizer.layers='normalization': .*"),
    ],
)
def test_what_a_network_lacks_is_told_once_data_are_there(folder, tmp_path, name, message):
    from har_jax.experiment.algorithm import Experiment

    config = checked(folder, f"--config.model.name=my_network:{name}")
    with pytest.raises(har_config.ConfigError, match=message):
        Experiment(config, pathlib.Path(tmp_path)).run()
    assert not any(tmp_path.glob("*/checkpoints"))
