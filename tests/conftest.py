import atexit
import contextlib
import gc
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from har_jax.system.starting import SELDOM
from har_jax.train.checkpoints import Checkpoints

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells start what they do not wait for
    signal.signal(signal.SIGINT, signal.default_int_handler)  # or the jobs of tests ignore it too
# Most of the time goes into compiling, which takes two thirds without XLA's optimizations, here and
# in the jobs that are started. JAX_DISABLE_MOST_OPTIMIZATIONS=0 tests with them.
fast = os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1") != "0"
jax.config.update("jax_disable_most_optimizations", fast)
# A third less again without the emitters of fusions. XLA ends at a flag that it does not know.
if jax.__version_info__ < (0, 11):
    os.environ["XLA_FLAGS"] = (
        f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_use_fusion_emitters=false".strip()
    )
# A fifteenth without the lines of Python that each instruction comes from.
os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"
jax.config.update("jax_traceback_in_locations_limit", 0)
# What one test or job has compiled, others need not.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
gc.set_threshold(*SELDOM)
jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_platforms", "cpu")


GOLDEN = pathlib.Path(__file__).parent / "data" / "baselines"
OTHERS = GOLDEN.parents[3] / "shared" / "golden" / "baselines"


class Cut(Exception):
    """A run ends, as if it were killed."""


@pytest.fixture(scope="module")
def optimized():
    """Compiles with all optimizations, where running takes longer than compiling."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", fast)


@pytest.fixture
def wide():
    """Computes in float64."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=[GOLDEN, OTHERS], ids=["golden", "shared"])
def golden(request):
    """Reads what the authors' code of a baseline computes, by its name."""
    if not request.param.exists():
        pytest.skip(f"{request.param} is not there")

    def read(name):
        with np.load(request.param / f"{name}.npz", allow_pickle=False) as file:
            return {key: jnp.asarray(value) for key, value in file.items()}

    return read


@pytest.fixture
def cut_after_saving(monkeypatch):
    """Calls a function that trains, and ends it as soon as it has saved a step."""

    def call(last, train, *arguments, **options):
        save = Checkpoints.save

        def failing_save(self, step, tree):
            save(self, step, tree)
            if step == last:
                raise Cut

        with monkeypatch.context() as patch:
            patch.setattr(Checkpoints, "save", failing_save)
            with pytest.raises(Cut):
                train(*arguments, **options)

    return call


@pytest.fixture
def assert_cut_twice_is_the_same(tmp_path, cut_after_saving):
    """Compares a run of so many steps with the same that is cut twice at random, bit for bit.

    It is given what trains in a folder of ``tmp_path``, by name, and saves each step.
    """

    def compare(train, steps):
        whole = train("whole")
        cuts = np.random.default_rng(0).choice(np.arange(1, steps), 2, replace=False)
        for step in np.sort(cuts).tolist():
            cut_after_saving(step, train, "cut")
        chex.assert_trees_all_equal(train("cut"), whole)
        records = [(tmp_path / folder / "metrics.jsonl").read_text() for folder in ("whole", "cut")]
        assert records[0] == records[1]

    return compare


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of 800 kB; where it cannot be mounted the test is skipped."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=800k", "tmpfs", str(folder)]
    with contextlib.suppress(OSError):
        if subprocess.run(mount, check=False, capture_output=True).returncode == 0:
            try:
                yield folder
            finally:
                subprocess.run(["umount", "--lazy", str(folder)], check=True)
            return
    pytest.skip("no small disk can be mounted here: that takes root")
