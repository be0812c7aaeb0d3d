"""From candidates to what is chosen: runs, scores, choices, and what is written of them."""

import pathlib
from collections.abc import Sequence

from har_jax.config.command_line import Given
from har_jax.experiment.build import make_source
from har_jax.experiment.workdir import StageError
from har_jax.system.files import write_json, write_text
from har_jax.system.lock import locked
from har_jax.tune.candidates import Candidates
from har_jax.tune.choice import choose
from har_jax.tune.earlier import kept
from har_jax.tune.scores import scores
from har_jax.tune.trials import Trials
from har_jax.tune.written import command, config_file, remarks, summary, table


def tune(
    given: Given,
    tuned: Sequence[Candidates],
    seeds: Sequence[int],
    workdir: pathlib.Path,
    *,
    fraction: float,
    score: str,
    jobs: int,
) -> None:
    """Makes all runs, chooses, prints a table, and writes ``tuned.json`` and ``tuned.py``.

    Args:
      given: The config, and where it comes from.
      tuned: What is chosen, of each method.
      seeds: All values are run at each.
      workdir: Where; what is complete there is not made again.
      fraction: Of the training set, held out.
      score: One of :data:`har_jax.tune.scores.SCORES`.
      jobs: See :func:`har_jax.experiment.runs.execute`.

    Raises:
      ConfigError: if a config is impossible.
      DataError: if the data are not there, or too few.
      StageError: if what is in the workdir was made from another config, or all runs of a method
        diverge.
      LockError: if another process is at work in the workdir.
    """
    trials = Trials(given.config, tuned, seeds, workdir, fraction)
    trials.check()
    source = make_source(given.config.data)  # tells of data that are not there
    with locked(workdir):
        for each in tuned:
            print(
                f"{each.name}: {len(each.values)} values of config.{each.key} at {len(seeds)} "
                f"seeds, {len(each.values) * len(seeds)} runs",
                flush=True,
            )
        if trials.shared:
            print(f"and {len(trials.shared)} runs of what the others share", flush=True)
        made = trials.make(jobs)
        methods = {}
        for each in tuned:
            by_value = [[made[each.method, value, seed] for seed in seeds] for value in each.values]
            shares = scores(by_value, each.name, score)
            choice = choose(each.values, shares)
            if choice.failed.sum() == shares.size:
                raise StageError(
                    f"{each.name}: all runs diverged, or could not train it: see {workdir}, and "
                    "lower config.optimizer.learning_rate"
                )
            methods[each.name] = summary(each, choice, shares, seeds)
        terms = {
            "config": str(given.file.resolve()),
            "changes": given.changes,
            "score": score,
            "fraction": fraction,
            "seeds": list(seeds),
        }
        before, said = kept(workdir / "tuned.json", terms, methods)
        methods = {**before, **methods}
        write_json(workdir / "tuned.json", {**terms, "methods": methods})
        write_text(workdir / "tuned.py", config_file(given.file, given.changes, methods))
    print(f"\n{score} on {fraction:g} of the training set, held out with its labels, in percent,")
    print(f"at seed {', '.join(map(str, seeds))}, ± standard error; * is chosen:\n")
    print(table(methods))
    chance = 1 / len(source.class_names) if score == "mean_per_class" else None
    for remark in [*remarks(methods, chance=chance), *said]:
        print(f"har_jax: warning: {remark}")
    names = dict.fromkeys([*given.config.methods, *(each["method"] for each in methods.values())])
    print(f"\n{command(workdir / 'tuned.py', given.config.methods, tuple(names))}")
