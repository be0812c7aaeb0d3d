"""What a person's own network, method, source or filter has to be."""

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flax import linen as nn
from ml_collections import config_dict

from har_jax.config.errors import ConfigError
from har_jax.methods import METHODS, StepOptions
from har_jax.methods.shared.entry import GIVEN_TO_LOSSES
from har_jax.options import NEEDED, Parameter, parameters


def check_method(said: str, name: str, make: Any) -> None:
    """Raises :class:`ConfigError` unless it is a function that makes a method."""
    if not callable(make) or len(positional(make)) != 2:
        raise ConfigError(
            f"{said} is no method: a function (model, optimizer, *, ..., **options) that returns a "
            "har_jax.methods.Method is needed, or a har_jax.methods.Entry"
        )
    if not takes(make, StepOptions.__annotations__):
        raise ConfigError(
            f"{said} takes no **options: it is given {', '.join(StepOptions.__annotations__)}, "
            "which har_jax.methods.single_network takes"
        )
    if name in METHODS:
        raise ConfigError(f"{said}: {name} is one of this program's own: call yours otherwise")
    if hasattr(config_dict.ConfigDict, name):
        raise ConfigError(f"{said}: a method cannot be called {name} in a config")


def positional(choice: Callable[..., Any]) -> list[str]:
    """The parameters that have to be given by position."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    found = inspect.signature(choice).parameters.values()
    return [each.name for each in found if each.kind in kinds and each.default is each.empty]


def takes(choice: Callable[..., Any], names: Iterable[str]) -> bool:
    """Whether all of these can be given by keyword."""
    found = inspect.signature(choice).parameters
    rest = any(parameter.kind is parameter.VAR_KEYWORD for parameter in found.values())
    return rest or set(names) <= set(found)


def refuse_unsayable(said: str, parts: list[Any] | tuple[Any, ...], given: frozenset[str]) -> None:
    for parameter in (each for part in parts for each in parameters(part)):
        needed = parameter.default is NEEDED and parameter.name not in given
        if needed and not is_sayable(parameter) and parameter.name not in ("parent", "name"):
            raise ConfigError(
                f"{said} needs {parameter.name}, which a config cannot say: give it a default, or "
                "a type of bool, int, float, str or tuple and a name that sections of a config do "
                "not have"
            )


def is_sayable(parameter: Parameter) -> bool:
    return parameter.says is not None and not hasattr(config_dict.ConfigDict, parameter.name)


def as_linen(network: Any) -> Any:
    """A network's class as one of Linen modules, where it is one of NNX."""
    if issubclass(network, nn.Module):
        return network
    from har_jax.nnx.network import linen_class  # Flax loads NNX for whoever has such a network

    return linen_class(network)


def _check_network(said: str, network: Any) -> None:
    nnx = sys.modules.get("flax.nnx")  # whoever has a module of it has imported it
    if nnx is not None and isinstance(network, type) and issubclass(network, nnx.Module):
        _check_nnx(said, network)
        return
    if not (isinstance(network, type) and issubclass(network, nn.Module)):
        raise ConfigError(
            f"{said} is no network: the class of a Flax module, of Linen or of NNX, is needed"
        )
    if "num_classes" not in inspect.signature(network).parameters:
        raise ConfigError(
            f"{said} has no field num_classes: it is made as "
            f"{network.__name__}(num_classes=K, **options)"
        )
    if not _has_call(network) or not takes(network.__call__, ["train"]):
        raise ConfigError(
            f"{said} has no argument train: it is called as (inputs, train=True) in "
            "training, and with False in prediction"
        )


def _has_call(network: type) -> bool:
    """Whether its modules can be called, of a class, which itself can always be."""
    return any("__call__" in vars(each) for each in network.__mro__)


def _check_nnx(said: str, network: Any) -> None:
    from har_jax.nnx.network import given

    taken = given(network)
    if missing := [name for name in ("num_classes", "rngs") if name not in taken]:
        raise ConfigError(
            f"{said} takes no {' and no '.join(missing)} by keyword: a module of NNX is made as "
            f"{network.__name__}(num_classes=K, rngs=rngs, **options)"
        )
    reserved = {*dir(nn.Module), "parent", "scope"}
    if clash := [name for name in taken if name in reserved]:
        raise ConfigError(f"{said}: no option can be called {clash[0]}: call it otherwise")
    if not _has_call(network) or len(set(positional(network.__call__)) - {"train"}) != 2:
        raise ConfigError(
            f"{said} cannot be called as (inputs), or, where it has an argument train, as "
            "(inputs, train=True) in training and with False in prediction"
        )


def _check_source(said: str, source: Any) -> None:
    if not callable(source) or positional(source):
        raise ConfigError(
            f"{said} is no source: a function with keyword-only options that returns a "
            "har_jax.data.Source is needed"
        )


def _check_filter(said: str, layers: Any) -> None:
    if not callable(layers) or isinstance(layers, type) or len(positional(layers)) != 2:
        raise ConfigError(
            f"{said} is no filter: a function (module, method_name) -> bool is needed"
        )


def _check_loss(said: str, loss: Any) -> None:
    if not callable(loss) or set(positional(loss)) - GIVEN_TO_LOSSES:
        raise ConfigError(
            f"{said} is no choice of a loss: a class of har_jax.losses.Loss, or a function with "
            "keyword-only options that returns a function (logits, labels) -> [B], is needed"
        )


CONTRACTS: Mapping[str, Callable[[str, Any], None]] = {
    "model.name": _check_network,
    "data.source": _check_source,
    "regularizer.layers": _check_filter,
    "loss.name": _check_loss,
}
