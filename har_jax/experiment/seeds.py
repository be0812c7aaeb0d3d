"""One config at several seeds, one after the other, and what they say together."""

import pathlib
from collections.abc import Sequence

from ml_collections import config_dict

from har_jax.experiment.algorithm import Experiment
from har_jax.experiment.workdir import WorkdirError
from har_jax.report.runs import read_run
from har_jax.system.interruption import check
from har_jax.system.processes import is_first


def run_seeds(
    config: config_dict.ConfigDict,
    workdir: pathlib.Path,
    seeds: Sequence[int],
    stage: str | None = None,
) -> list[int]:
    """Runs a config at each seed, in ``WORKDIR/seed-N``, and writes ``WORKDIR/report``.

    What is complete is skipped, and what was cut goes on. A seed at which training diverges is told
    of and left out; the others are run.

    Args:
      config: Validated; its seed does not count.
      workdir: Of no run of one seed.
      seeds: Different ones.
      stage: The one stage to run at each, all if None. Without the report there is none of all.

    Returns:
      The seeds that are missing.

    Raises:
      WorkdirError: if the workdir is one of a run of one seed.
      Exception: as :meth:`har_jax.experiment.algorithm.Experiment.run` does, at the first seed
        that ends in another way.
    """
    refuse_one_seed(workdir)
    missing, folders = {}, {seed: workdir / f"seed-{seed}" for seed in seeds}
    for place, (seed, folder) in enumerate(folders.items(), 1):
        check()
        print(f"== {folder}: seed {seed}, {place} of {len(seeds)}", flush=True)
        own = config.copy_and_resolve_references()
        own.seed = seed
        try:
            Experiment(own, folder).run(stage)
        except FloatingPointError as error:
            missing[seed] = str(error)
            print(f"seed {seed}: {error}", flush=True)
    there = [seed for seed in seeds if seed not in missing]
    if stage in (None, "report") and there and is_first():
        from har_jax.report.seeds_page import report  # brings Matplotlib, as in stages.py

        runs = [read_run(folders[seed]) for seed in there]
        source = config.data.source
        title = f"{' and '.join(runs[0].results['means'])} on {source}, {len(there)} seeds"
        lines = report(runs, workdir / "report" / "index.html", title=title, missing=missing)
        print("\n".join(["", *lines]))
    return list(missing)


def refuse_one_seed(workdir: pathlib.Path) -> None:
    """Raises :class:`WorkdirError` if a run of one seed lies in this folder."""
    own = [path.parent.relative_to(workdir) for path in workdir.glob("*/stage.json")]
    own += [path.parent.relative_to(workdir) for path in workdir.glob("train/*/stage.json")]
    if own:
        raise WorkdirError(
            f"{workdir} has a run of one seed ({', '.join(map(str, sorted(own)))}): give --seeds "
            "another --workdir"
        )


def refuse_several_seeds(workdir: pathlib.Path) -> None:
    """Raises :class:`WorkdirError` if the report of several seeds lies in this folder."""
    if (workdir / "report" / "seeds.json").exists():
        raise WorkdirError(
            f"{workdir} has the report of several seeds: give --seeds, or another --workdir"
        )
