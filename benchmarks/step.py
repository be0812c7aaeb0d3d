"""A training step of this library beside the peer's, and HAR's beside plain training.

python -m benchmarks.step
python -m benchmarks.step --depth=20 --batch_size=64 --rounds=21 --json=step.json

All are measured in turn, round by round, and compared within a round.
"""

import argparse
import functools
import os
import pathlib

import jax
import numpy as np
import torch

from benchmarks import peer
from benchmarks.candidates import PRECISIONS, Candidate, Setup, ours
from benchmarks.timing import alternate, ratio
from har_jax.system.files import write_json

RATIOS = {
    "HAR / ERM": ("HAR", "ERM"),
    "HAR of first order / ERM": ("HAR, first order", "ERM"),
    "HAR of first order / HAR": ("HAR, first order", "HAR"),
    "HAR at every 2nd step / ERM": ("HAR, every 2", "ERM"),
    "HAR at every 4th step / ERM": ("HAR, every 4", "ERM"),
    "HAR of first order at every 2nd step / ERM": ("HAR, first order, every 2", "ERM"),
    "HAR with remat / ERM": ("HAR, remat", "ERM"),
    "HAR in 2 microbatches / ERM": ("HAR, 2 microbatches", "ERM"),
    "HAR in 4 microbatches / ERM": ("HAR, 4 microbatches", "ERM"),
    "ERM / PyTorch's ERM": ("ERM", "PyTorch ERM"),
    "HAR / PyTorch's HAR": ("HAR", "PyTorch HAR"),
    "HAR of first order / PyTorch's HAR": ("HAR, first order", "PyTorch HAR"),
    "PyTorch's HAR / its ERM": ("PyTorch HAR", "PyTorch ERM"),
}

# The peer's layouts, of which its best stands for it.
PEERS = {
    f"PyTorch {name}": (f"PyTorch {name}", f"PyTorch {name}, channels last")
    for name in ("ERM", "HAR")
}


def measure(setup: Setup, rounds: int) -> dict:
    """Measures every candidate at one setup, for :func:`show` and for JSON."""
    candidates = {
        "ERM": ours("erm", setup),
        "HAR": ours("har", setup),
        "HAR, first order": ours("har", setup, derivative="first_order"),
        "HAR, every 2": ours("har", setup, every=2),
        "HAR, every 4": ours("har", setup, every=4),
        "HAR, first order, every 2": ours("har", setup, derivative="first_order", every=2),
        "HAR, remat": ours("har", setup, remat=True),
        "HAR, 2 microbatches": ours("har", setup, microbatches=2),
        "HAR, 4 microbatches": ours("har", setup, microbatches=4),
    }
    for method, names in zip(("erm", "har"), PEERS.values(), strict=True):
        for name, channels_last in zip(names, (False, True), strict=True):
            candidates[name] = theirs(method, setup, channels_last=channels_last)
    times = alternate({name: each.run for name, each in candidates.items()}, rounds)
    times = {name: values / candidates[name].several for name, values in times.items()}
    best = {
        name: min(names, key=lambda name: float(np.median(times[name])))
        for name, names in PEERS.items()
    }
    return {
        "device": jax.devices()[0].device_kind,
        "threads": torch.get_num_threads(),
        "jax": jax.__version__,
        "torch": torch.__version__,
        "setup": vars(setup),
        "seconds": {name: list(values) for name, values in times.items()},
        "compiled": {
            name: _compiled(each) for name, each in candidates.items() if each.temporary_bytes
        },
        "ratios": {
            name: _ratios(times, candidates, *(best.get(one, one) for one in pair))
            for name, pair in RATIOS.items()
        },
    }


def theirs(method: str, setup: Setup, *, channels_last: bool = False) -> Candidate:
    """A step of the peer, on the device that this library computes on."""
    device = "cuda" if jax.default_backend() == "gpu" else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = (
        setup.precision == "tf32"
    )
    layout = torch.channels_last if channels_last else torch.contiguous_format
    torch.manual_seed(0)
    model = peer.ResNet(10, setup.depth).to(device, memory_format=layout)
    batch = setup.batch()
    images = torch.tensor(batch["inputs"].transpose(0, 3, 1, 2)).contiguous(memory_format=layout)
    labels = torch.tensor(batch["labels"], dtype=torch.int64, device=device)
    strength = torch.tensor(batch["strength"], device=device) if method == "har" else None
    images, optimizer = images.to(device), peer.sgd(model)
    step = functools.partial(
        peer.step, model, optimizer, images, labels, strength, reduction="sum_of_norms"
    )

    def run(steps: int) -> None:
        with torch.autocast(device, torch.bfloat16, enabled=setup.precision == "bfloat16"):
            for _ in range(steps):
                step()
        if device == "cuda":
            torch.cuda.synchronize()

    return Candidate(run)


def _compiled(candidate: Candidate) -> dict:
    return {
        "flops": candidate.flops,
        "temporary_bytes": candidate.temporary_bytes,
        "compile_seconds": candidate.compile_seconds,
    }


def _ratios(times, candidates, name, reference):
    one, other = candidates[name], candidates[reference]
    of = lambda x, y: x / y if x and y else None
    return {
        "time": ratio(times[name], times[reference]),
        "flops": of(one.flops, other.flops),
        "memory": of(one.temporary_bytes, other.temporary_bytes),
    }


def show(results: dict) -> None:
    """Prints two Markdown tables."""
    setup = results["setup"]
    print(
        f"ResNet-{setup['depth']}, batch {setup['batch_size']}, {setup['precision']}; "
        f"{results['device']}, {results['threads']} threads; jax {results['jax']}, "
        f"torch {results['torch']}\n"
    )
    print("| step | median, s | GFLOP | temporary memory, MiB | compiling, s |")
    print("| --- | --- | --- | --- | --- |")
    for name, values in results["seconds"].items():
        compiled = results["compiled"].get(name)
        cells = ["", "", ""]
        if compiled:
            cells[0] = f"{compiled['flops'] / 1e9:.1f}" if compiled["flops"] else ""
            cells[1] = f"{compiled['temporary_bytes'] / 2**20:.0f}"
            cells[2] = f"{compiled['compile_seconds']:.1f}"
        print(f"| {name} | {np.median(values):.4f} | " + " | ".join(cells) + " |")
    print("\n| ratio | time (quartiles of rounds) | FLOPs | temporary memory |")
    print("| --- | --- | --- | --- |")
    for name, ratios in results["ratios"].items():
        median, low, high = ratios["time"]
        rest = ["" if ratios[key] is None else f"{ratios[key]:.2f}" for key in ("flops", "memory")]
        print(f"| {name} | {median:.2f} ({low:.2f}-{high:.2f}) | " + " | ".join(rest) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--depth", type=int, default=32)
    parser.add_argument("--batch_size", type=int, default=128)
    parser.add_argument("--precision", choices=PRECISIONS, default="float32")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    results = measure(Setup(args.depth, args.batch_size, args.precision), args.rounds)
    if args.json:
        write_json(args.json, results)
    show(results)


if __name__ == "__main__":
    main()
