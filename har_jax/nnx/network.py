"""A class of NNX modules as one of Linen modules, which all that takes a network can train."""

import functools
import inspect
import operator
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import jax
from flax import linen as nn
from flax import nnx
from flax.traverse_util import unflatten_dict
from jaxtyping import Array, Float

from har_jax import linen
from har_jax.linen.calls import Asked, asked_now
from har_jax.nnx.calls import collecting_calls, mark_calls
from har_jax.nnx.layers import FILTERS, Filter, Path, selected_layers
from har_jax.nnx.state import Before
from har_jax.options import hints

_COLLECTIONS = ((nnx.Param, "params"), (nnx.BatchStat, "batch_stats"), (nnx.Variable, "state"))


class Network(nn.Module):
    """What classes that :func:`linen_class` makes have in common.

    Attributes:
      _network: The class of NNX modules.
      _given: The names of the fields that it is made with.
      asks_itself: See :class:`har_jax.linen.calls.Asked`.
    """

    _network: ClassVar[type[nnx.Module]]
    _given: ClassVar[tuple[str, ...]]
    asks_itself: ClassVar[bool] = True

    @nn.compact
    def __call__(self, inputs: Array, *, train: bool) -> Float[Array, "B K"]:
        """Makes the network, gives it its variables, calls it and keeps what that changes.

        Raises:
          TypeError: if that is anything but Variables that there were.
        """
        begins = self.is_initializing()
        rngs = nnx.Rngs(self.make_rng("params") if begins else 0)
        make: Callable[..., nnx.Module] = self._network
        net = make(rngs=rngs, **{name: getattr(self, name) for name in self._given})
        if begins:
            self._keep(net)
        else:
            self._give(net)
        options = {}
        if "train" in inspect.signature(self._network.__call__).parameters:
            options["train"] = train
        elif train:
            net.train()
        else:
            net.eval()
        call = functools.partial(_call, net, inputs, **options)
        asked = asked_now.get()
        outputs, changed = call() if asked is None else self._tapped(net, call, asked)
        if changed and not begins:
            self._keep(net)
        return outputs

    def _tapped(self, net: nnx.Module, call: Callable[[], Any], asked: Asked) -> Any:
        """What the call returns, with marks on what selected modules return."""
        selected = selected_layers(net, _filter(asked.layers), "module, method_name")
        names = {path: "/".join([*self.path, name]) for path, name in selected.items()}
        mark_calls(net, names)
        with collecting_calls() as called:
            result = call()
        asked.uncalled.update(set(names.values()) - called)
        return result

    def _keep(self, net: nnx.Module) -> None:
        """Leaves Variables in collections, of which those that are not mutable stay as they are."""
        flat = {(_collection(each), *map(str, path)): each for path, each in _variables(net)}
        values = {path: each.get_raw_value() for path, each in flat.items()}
        for collection, subtrees in unflatten_dict(values).items():
            if self.is_mutable_collection(collection):
                for name, subtree in subtrees.items():
                    self.put_variable(collection, name, subtree)

    def _give(self, net: nnx.Module) -> None:
        """Takes Variables out of collections, and keys of streams out of Linen's ``dropout``."""
        for path, variable in _variables(net):
            first, *rest = map(str, path)
            start: Any = self.get_variable(_collection(variable), first)
            variable.set_raw_value(functools.reduce(operator.getitem, rest, start))
        # Where nothing is given, as in prediction, what is drawn is the same each time.
        key = self.make_rng("dropout") if self.has_rng("dropout") else jax.random.key(0)
        for index, stream in enumerate(_keys_of_streams(net)):
            own, shape = jax.random.fold_in(key, index), stream.get_raw_value().shape
            stream.set_raw_value(jax.random.split(own, shape) if shape else own)


def given(network: type[nnx.Module]) -> dict[str, inspect.Parameter]:
    """What the ``__init__`` of a class of NNX modules can be given by keyword."""
    _, *parameters = inspect.signature(network.__init__).parameters.values()
    return {
        each.name: each
        for each in parameters
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    }


@functools.cache
def linen_class(network: type[nnx.Module]) -> type[Network]:
    """A class of Linen modules that are called as ``(inputs, train=...)`` and do as NNX's do.

    A module has the parameters of the NNX class's ``__init__`` as its fields, but for ``rngs`` and
    for those whose defaults a dataclass cannot have. Every call makes the network anew and gives it
    its Variables, whose values lie in the collections ``params`` (of ``nnx.Param``),
    ``batch_stats`` and ``state`` (of all other types). Streams of random numbers are not kept:
    their keys come from Linen's ``dropout``. Arrays that are attributes and no Variables are made
    in every call with one and the same key. What a call changes of parameters is dropped. R's
    layers are asked for in the NNX module: :data:`har_jax.nnx.layers.FILTERS` stand for Linen's,
    and other filters are asked ``(module, "__call__")`` with modules of NNX.

    Args:
      network: Made as ``network(rngs=rngs, **fields)``, called as ``(inputs, train=...)``, or
        without ``train``, where ``nnx.Module.train`` and ``eval`` say it.
    """
    known = hints(network.__init__)
    fields = {name: each.default for name, each in given(network).items() if name != "rngs"}
    fields = {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}
    fields = {name: value for name, value in fields.items() if type(value).__hash__ is not None}
    first = [name for name, value in fields.items() if value is inspect.Parameter.empty]
    order = first + [name for name in fields if name not in first]
    kinds = {name: type(fields[name]) for name in order if fields[name] is not None}
    kinds |= dict.fromkeys(first, Any)
    namespace: dict[str, Any] = {
        "__module__": network.__module__,
        "__doc__": network.__doc__,
        "__annotations__": {name: known.get(name, kinds.get(name, Any)) for name in order},
        "_network": network,
        "_given": tuple(order),
        **{name: fields[name] for name in order if name not in first},
    }
    if hasattr(network, "reads"):
        namespace["reads"] = network.reads
    return type(network.__name__, (Network,), namespace)


def _call(net: nnx.Module, inputs: Array, **options: Any) -> tuple[Any, bool]:
    """The outputs, and whether the call changes something that is kept."""
    before, there = Before((net,)), dict(_variables(net))
    call: Any = net
    outputs = call(inputs, **options)
    changed = False
    for (_, *path), value in before.changes().items():
        if isinstance(value, (nnx.RngState, nnx.Intermediate)):
            continue
        name = "/".join(map(str, path))
        if tuple(path) not in there:
            raise TypeError(
                f"a call makes or changes {name}, which is no Variable that __init__ makes: make "
                "it there, such as nnx.Variable(jnp.zeros(3))"
            )
        # Transformations of NNX write parameters back, also where they are what they were.
        changed = changed or not isinstance(value, nnx.Param)
    return outputs, changed


def _variables(net: nnx.Module) -> Iterator[tuple[Path, nnx.Variable]]:
    """Those that are kept, by path."""
    for path, value in nnx.iter_graph(net):
        if isinstance(value, nnx.Variable) and not isinstance(
            value, (nnx.RngState, nnx.Intermediate)
        ):
            yield path, value


def _keys_of_streams(net: nnx.Module) -> list[nnx.RngKey]:
    """In the order of their paths."""
    found = {str(path): each for path, each in nnx.iter_graph(net) if isinstance(each, nnx.RngKey)}
    return [found[path] for path in sorted(found)]


def _collection(variable: nnx.Variable) -> str:
    return next(name for kind, name in _COLLECTIONS if isinstance(variable, kind))


def _filter(layers: linen.Filter) -> Filter:
    """What stands for a filter of Linen's calls: one of NNX's modules."""
    same = (own for each, own in FILTERS if each is layers)
    asks: Any = layers  # modules of NNX, by a person who knows that they are
    return next(same, lambda path, module: bool(asks(module, "__call__")))
