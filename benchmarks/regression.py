"""Heteroskedastic regression over seeds: plain, uniform, HAR by the paper's rule and by ours.

python -m benchmarks.regression [--seeds=20] [--data=diabetes]

The data and the network are those of examples/regression.py. The largest strength is chosen for
each rule and data alike, by the mean over groups of the squared test error, on as many other seeds.
Gains are paired, plain training minus the rule at the same seed. Prints lines of Markdown.
"""

import argparse

import numpy as np

from examples import regression

_STRENGTHS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_DATA = ("synthetic", "diabetes")
_FIRST_TUNING_SEED = 100


def of_seeds(data, seeds):
    """Gives a function of a rule and a strength: the error of each seed and group."""
    drawn = [data(seed) for seed in seeds]
    x, y, groups, *test = (np.stack(each) for each in zip(*drawn, strict=True))
    residuals = regression.held_out_residuals(seeds, x, y)
    rules = [regression.taus(*each) for each in zip(groups, residuals, strict=True)]

    def errors(rule, largest):
        tau = np.stack([each[rule] for each in rules])
        strength = np.stack([each / max(each.max(), 1e-9) * largest for each in tau])
        found = regression.train_and_predict(seeds, x, y, strength, test[0])
        return regression.errors(found, *test[1:])

    return errors


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20, help="how many (20)")
    parser.add_argument(
        "--data", nargs="+", choices=_DATA, default=_DATA, help="which; both if not given"
    )
    options = parser.parse_args()
    count = options.seeds
    for data in (getattr(regression, name) for name in options.data):
        tuning = of_seeds(data, np.arange(_FIRST_TUNING_SEED, _FIRST_TUNING_SEED + count))
        final = of_seeds(data, np.arange(count))
        plain = final("plain", 0.0)
        found = {"plain": plain}
        print(f"\n{data.__name__}\n")
        for rule in ("uniform", "HAR, I = 1", "HAR"):
            tried = {largest: float(tuning(rule, largest).mean()) for largest in _STRENGTHS}
            chosen = min(tried, key=lambda largest: tried[largest])
            told = ", ".join(f"{each:g}: {error:.4f}" for each, error in tried.items())
            print(f"{rule}: {chosen:g} of {told}", flush=True)
            found[rule] = final(rule, chosen)
        print()
        for rule, errors in found.items():
            gains = (plain - errors).mean(axis=1)
            gain = "" if rule == "plain" else _with_error(gains)
            groups = " | ".join(_with_error(of) for of in errors.T)
            print(f"| {rule} | {_with_error(errors.mean(axis=1))} | {gain} | {groups} |")
        over = {r: (found[r] - found["HAR"]).mean(axis=1) for r in ("uniform", "HAR, I = 1")}
        print("\n" + "; ".join(f"HAR against {r}: {_with_error(g)}" for r, g in over.items()))


def _with_error(values) -> str:
    return f"{values.mean():.4f} ± {values.std(ddof=1) / np.sqrt(len(values)):.4f}"


if __name__ == "__main__":
    main()
