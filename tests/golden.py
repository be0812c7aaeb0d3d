"""The values that the authors' code computes, in this library's layout.

Both files hold what the authors' PyTorch network, loss, penalty and SGD give in float64.
"""

import dataclasses
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).parent
RESNET8 = HERE / "data" / "authors_resnet8_cifar10.npz"
RESNET32 = HERE.parent.parent / "shared" / "golden" / "authors_resnet32_cifar10.npz"


def our_path(name: str) -> tuple[str, ...]:
    """``layer1.layers.0.bn1.gamma`` -> ``("stage1_block1", "norm1", "scale")``."""
    *modules, leaf = name.split(".")
    if modules[0].startswith("layer"):
        block = (f"stage{modules[0][5:]}_block{int(modules[2]) + 1}",)
        module = modules[3]
    else:
        block = ()
        module = modules[0]
    if module == "linear":
        path, leaves = ("classifier",), {"weight": "kernel", "bias": "bias"}
    else:
        kind, number = module[:-1].replace("bn", "norm"), module[-1]
        path = (*block, kind + number) if block else (f"stem_{kind}",)
        leaves = {"weight": "kernel", "gamma": "scale", "beta": "bias"}
    if leaf.startswith("running"):
        return (*path, "BatchNorm_0", {"running_mean": "mean", "running_var": "var"}[leaf])
    return (*path, leaves[leaf])


def to_ours(value: np.ndarray) -> np.ndarray:
    """Convolutions from OIHW to HWIO, matrices from [out, in] to [in, out]; float64."""
    order = {4: (2, 3, 1, 0), 2: (1, 0)}.get(value.ndim, range(value.ndim))
    return value.transpose(tuple(order)).astype(np.float64)


def to_theirs(value: np.ndarray) -> np.ndarray:
    order = {4: (3, 2, 0, 1), 2: (1, 0)}.get(value.ndim, range(value.ndim))
    return np.asarray(value).transpose(tuple(order))


@dataclasses.dataclass
class Golden:
    """One file: ``arrays`` as it is; images as NHWC; trees keyed by our paths."""

    path: pathlib.Path

    def __post_init__(self):
        with np.load(self.path, allow_pickle=False) as file:
            self.arrays = dict(file)
        self.images = self.arrays["x"].transpose(0, 1, 3, 4, 2).astype(np.float64)
        self.labels = self.arrays["y"]
        self.weights = self.arrays["w"].astype(np.float64)

    def tree(self, prefix: str) -> dict[tuple[str, ...], np.ndarray]:
        return {path: to_ours(value) for path, value in self.raw(prefix).items()}

    def raw(self, prefix: str) -> dict[tuple[str, ...], np.ndarray]:
        names = [name for name in self.arrays if name.startswith(prefix)]
        return {our_path(name[len(prefix) :]): self.arrays[name] for name in names}
