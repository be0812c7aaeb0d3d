"""What a run will need, from the compiled step: FLOPs, memory, hours.

python -m benchmarks.estimate --network=resnet50 --images=65944 --epochs=90 --batch_size=128 \
  --devices=8 --teraflops=15.7

Compiles one step of plain training and of HAR for a small batch on this machine; FLOPs and memory
per image hardly depend on the batch. Time is FLOPs over what the devices can do at most, times the
share of it that convolutional networks reach (--utilization).
"""

import argparse

import jax
import jax.numpy as jnp
import optax

from har_jax import methods
from har_jax.models import CifarResNet, ImageNetResNet, InceptionResNetV2

NETWORKS = {
    "cifar_resnet32": (CifarResNet(10, depth=32), 32),
    "resnet50": (ImageNetResNet(1000), 224),
    "inception_resnet_v2": (InceptionResNetV2(1000), 299),
}


def cost(make, model, size: int, batch_size: int, *, compiled: bool) -> dict[str, float]:
    """Per image: FLOPs, and MiB of temporary memory; and MiB of the state."""
    method = make(model, optax.sgd(0.1, momentum=0.9))
    shape = jax.ShapeDtypeStruct
    batch = {
        "inputs": shape((batch_size, size, size, 3), jnp.float32),
        "labels": shape((batch_size,), jnp.int32),
        "strength": shape((batch_size,), jnp.float32),
    }
    key = jax.eval_shape(lambda: jax.random.key(0))
    state = jax.eval_shape(method.init, key, batch)
    lowered = jax.jit(method.step).lower(state, batch, key)
    costs = {
        "GFLOP": lowered.cost_analysis()["flops"] / batch_size / 1e9,
        "state": sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state)) / 2**20,
    }
    if compiled:
        memory = lowered.compile().memory_analysis().temp_size_in_bytes
        costs["MiB"] = memory / batch_size / 2**20
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", choices=NETWORKS, default="resnet50")
    parser.add_argument("--image_size", type=int, help="that of the network if not given")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--images", type=int, default=65_944, help="of mini WebVision: 65,944")
    parser.add_argument("--epochs", type=float, default=90.0)
    parser.add_argument("--batch_size", type=int, default=128, help="over all devices")
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--teraflops", type=float, default=15.7, help="of one; a V100 has 15.7")
    parser.add_argument("--utilization", type=float, default=0.35)
    parser.add_argument("--compiled_batch", type=int, default=4)
    parser.add_argument("--memory", action="store_true", help="compile, for memory: minutes")
    options = parser.parse_args()
    model, size = NETWORKS[options.network]
    size = options.image_size or size
    model = model.clone(dtype=jnp.dtype(options.dtype))
    print("| step | GFLOP / image | state, MiB | memory / image, MiB | hours |")
    print("| --- | --- | --- | --- | --- |")
    rate = options.devices * options.teraflops * 1e12 * options.utilization
    for name, make in (("ERM", methods.erm), ("HAR", methods.har)):
        costs = cost(make, model, size, options.compiled_batch, compiled=options.memory)
        hours = costs["GFLOP"] * 1e9 * options.images * options.epochs / rate / 3600
        memory = f"{costs['MiB']:.0f}" if "MiB" in costs else ""
        print(f"| {name} | {costs['GFLOP']:.1f} | {costs['state']:.0f} | {memory} | {hours:.1f} |")


if __name__ == "__main__":
    main()
