"""Jobs that are killed, interrupted, or lose their disk or their data, and go on."""

import contextlib
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from matplotlib.figure import Figure

from benchmarks import kill
from har_jax import config as har_config
from har_jax.data.examples import DataError, Examples
from har_jax.data.listing.folders import list_folder
from har_jax.data.listing.tables import list_table
from har_jax.data.reading.encoded import ImageFiles, Reading
from har_jax.data.reading.texts import Vocabulary
from har_jax.experiment.algorithm import Experiment
from har_jax.experiment.workdir import StageError
from har_jax.report.figures import svg
from har_jax.system import interruption
from har_jax.system.files import read_arrays
from har_jax.train.evaluate import ByExample
from har_jax.train.metrics import MetricsWriter
from tests import tiny_tfds
from tests.own_images import write_folder

ROOT = pathlib.Path(__file__).parent.parent
TINY = (
    *kill.JOB,
    "--config.pretrain.epochs=3",
    "--config.train.epochs=2",
)


def start(*arguments):
    command = [sys.executable, "-m", "har_jax.main", *TINY, *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True)


def run(*arguments):
    process = start(*arguments)
    out, said = process.communicate(timeout=100)
    return process.returncode, out, said


@pytest.mark.slow
def test_a_job_that_is_killed_twice_leaves_what_one_that_is_not_does(tmp_path, monkeypatch):
    monkeypatch.setattr(kill, "JOB", TINY)
    kill.finish(TINY, tmp_path / "whole")
    expected = kill.contents(tmp_path / "whole")
    assert len(expected) == 19
    for workdir, ended in kill.trials(tmp_path / "killed", 2, seed=0):
        assert [result.code for result in ended] == [-9] * len(ended)
        found = kill.contents(workdir)
        assert found.keys() == expected.keys()
        assert not [key for key in expected if found[key] != expected[key]]


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_signal_saves_and_ends_the_job_in_time(tmp_path, number):
    workdir = f"--workdir={tmp_path}"
    slow = ("--config.pretrain.epochs=5000", "--config.checkpoint_every=100000")
    process = start(workdir, *slow, "--stage=pretrain")
    while "step" not in process.stdout.readline():
        assert process.poll() is None, process.stderr.read()
    process.send_signal(number)
    begun = time.monotonic()
    out, said = process.communicate(timeout=20)
    assert time.monotonic() - begun < 10
    assert process.returncode == 128 + number
    assert said == f"har_jax: interrupted by {number.name}: the same command goes on from there\n"
    (saved,) = [line.split()[4] for line in out.splitlines() if "saved after step" in line]
    process = start(workdir, *slow, "--stage=pretrain")
    while "goes on from step" not in (line := process.stdout.readline()):
        assert process.poll() is None, process.stderr.read()
    assert line == f"pretrain: goes on from step {saved}\n"
    process.kill()
    process.communicate()


# Sends a signal from where an exception is printed and dropped: the callback of a weak reference.
DROPPING = """
import signal, sys, weakref
from har_jax import main
from har_jax.experiment import workdir
from har_jax.train import evaluate

def signalled(owner, name, number):
    function = getattr(owner, name)
    def call(*arguments):
        thing = set()
        reference = weakref.ref(thing, lambda _: signal.raise_signal(number))
        del thing
        print("signal", file=sys.stderr)
        return function(*arguments)
    setattr(owner, name, call)

"""


@pytest.mark.parametrize(
    ("place", "number"),
    [
        pytest.param("evaluate.ByExample, '__call__'", signal.SIGTERM, marks=pytest.mark.slow),
        ("workdir.StageFolder, 'finish'", signal.SIGINT),  # the last that a job does
    ],
)
def test_a_signal_is_honoured_wherever_it_comes(tmp_path, place, number):
    program = f"{DROPPING}signalled({place}, {int(number)})\nmain.run()"
    command = [sys.executable, "-c", program, *TINY, f"--workdir={tmp_path}", "--stage=pretrain"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 128 + number, ended.stderr
    message = f"har_jax: interrupted by {number.name}: the same command goes on from there"
    assert ended.stderr.splitlines() == ["signal", message]
    assert kill.is_complete(tmp_path / "pretrain") == ("finish" in place)


def test_a_signal_during_imports_ends_the_process_without_a_word():
    process = start()
    maps = pathlib.Path(f"/proc/{process.pid}/maps")
    while maps.exists() and "jaxlib" not in maps.read_text():  # is being imported
        assert process.poll() is None, process.stderr.read()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (-signal.SIGINT, "")


def test_signals_that_were_ignored_at_the_start_stay_so():
    program = (
        "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from har_jax.system import interruption\n"
        "interruption.end_in_time(9)\nsignal.raise_signal(signal.SIGHUP)\ninterruption.check()\n"
        "interruption.end_at_once()\nsignal.raise_signal(signal.SIGHUP)\ninterruption.check()\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


@pytest.fixture
def noted(monkeypatch):
    monkeypatch.setattr(interruption, "_came", [int(signal.SIGTERM)])


def test_what_goes_over_many_examples_can_be_left(noted, tmp_path):
    write_folder(tmp_path, {"a": 1})
    images = ImageFiles(tmp_path, np.array(["a/000.jpg"]), Reading(image_size=8))
    evaluate = ByExample(lambda variables, inputs, labels: {"label": labels}, 2)
    table = tmp_path / "table.csv"
    table.write_text("text,label\nwords,a\n")
    for leave in (
        lambda: evaluate({}, Examples(np.zeros((3, 2)), np.zeros(3, np.int32))),
        lambda: list_folder(tmp_path),
        lambda: list_table(table, None),
        images.checksum,
        lambda: Vocabulary.of(["words"], 3),
        lambda: svg(Figure()),
    ):
        with pytest.raises(interruption.Interrupted, match="interrupted by SIGTERM"):
            leave()


def test_an_interrupt_goes_from_one_process_to_another_as_it_is():
    sent = pickle.loads(pickle.dumps(interruption.Interrupted(signal.SIGTERM)))
    assert (sent.signal, str(sent)) == (signal.SIGTERM, "interrupted by SIGTERM")


def test_a_process_that_does_not_come_to_its_end_is_ended():
    program = (
        "import signal, time\nfrom har_jax.system import interruption\n"
        "interruption.end_in_time(0.5)\n"
        "with interruption.deferred():\n    signal.raise_signal(signal.SIGTERM)\n"
        "    while True: time.sleep(10)"
    )
    begun = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert time.monotonic() - begun < 8
    assert ended.returncode == 143
    assert "interrupted by SIGTERM and ended before it could save" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_the_job_goes_on_when_there_is_room(small_disk):
    workdir = f"--workdir={small_disk}/runs"
    big = ("--config.model.widths=128,", "--stage=pretrain")
    code, _, said = run(workdir, *big)
    assert code == 1
    assert len(said.splitlines()) == 1
    assert "cannot be saved in" in said
    assert "No space left on device" in said
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    code, out, said = run(workdir, *big)
    assert code == 0, said
    assert "pretrain: step 20/20" in out


def test_a_full_disk_is_told_of_metrics_too(small_disk):
    def write_many():
        with MetricsWriter(small_disk, 0) as writer:
            writer.write({"step": 1, "loss": 1.0}, {})
            with contextlib.suppress(OSError), (small_disk / "filler").open("wb", 0) as filler:
                while True:
                    filler.write(bytes(4096))
            for step in range(2, 10_000):
                writer.write({"step": step, "loss": 1.0}, {})

    with pytest.raises(OSError, match=r"step \d+ cannot be written to .*No space left"):
        write_many()


@pytest.mark.filterwarnings("ignore:of what was held out")
class TestOtherData:
    @pytest.fixture
    def experiment(self, tmp_path):
        names = ("<script>alert(1)</script>", "a & b", "$x^2$")
        images, labels = tiny_tfds.random_images(24, (6, 6, 3), 3)
        tiny_tfds.write(tmp_path / "tiny" / "1.0.0", images, labels, names)
        config = har_config.base()
        config.data.source = "tfds:tiny"
        config.data.data_dir = str(tmp_path)
        config.data.on_leak = "keep"  # both splits are the same
        config.model.widths = (4,)
        config.batch_size = 4
        config.devices = 1
        config.pretrain.epochs = config.train.epochs = 1.0
        har_config.validate(config)
        return lambda: Experiment(config, tmp_path / "run")

    @pytest.mark.slow
    def test_names_from_data_do_nothing_in_the_page(self, experiment, tmp_path):
        experiment().run()
        page = (tmp_path / "run" / "report" / "index.html").read_text()
        assert set(re.findall("<script.*", page)) == {"<script>"}  # of the page's own
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert "a &amp; b" in page
        (tmp_path / "tiny").rename(tmp_path / "gone")
        experiment().run()  # all is complete, and nothing is read

    def test_data_that_are_not_what_they_were_are_refused(self, experiment, tmp_path):
        experiment().run("pretrain")
        images, labels = tiny_tfds.random_images(24, (6, 6, 3), 3, seed=1)
        tiny_tfds.write(tmp_path / "tiny" / "2.0.0", images, labels, "abc")
        with pytest.raises(StageError, match="pretrain was made from other data than there are"):
            experiment().run()
        (tmp_path / "tiny").rename(tmp_path / "gone")
        with pytest.raises(DataError, match=f"tfds:tiny is not prepared in {tmp_path}"):
            experiment().run()

    def test_a_damaged_file_is_named_with_what_to_do(self, experiment, tmp_path):
        experiment().run("pretrain")
        path = tmp_path / "run" / "pretrain" / "held_out.npz"
        path.write_bytes(path.read_bytes()[:-40])
        with pytest.raises(
            OSError, match=r"held_out.npz is damaged .*: delete .*/pretrain and run"
        ):
            experiment().run()


def test_nothing_is_unpickled(tmp_path):
    path = tmp_path / "objects.npz"
    np.savez(path, a=np.array([print], dtype=object))
    with pytest.raises(OSError, match=r"objects.npz is damaged \(ValueError: Object arrays"):
        read_arrays(path)


@pytest.mark.slow
def test_data_do_not_depend_on_the_number_of_devices():
    program = (
        "import jax\nfrom har_jax import data\n"
        "from har_jax.data import corruption, sources\n"
        "noise = corruption.Groups(groups=((3, 8), (4, 9)), rate=0.4)\n"
        "rare = corruption.Step(classes=(3, 4, 8, 9), ratio=4)\n"
        "given = dict(train_size=900, validation_fraction=0.2)\n"
        "d = data.load(sources.digits(), noise, rare, 0, **given)\n"
        "batches = data.Batches(len(d.train), 64, 0)\n"
        "split = data.stratified_split(d.train.labels, 100, 0)[0]\n"
        "print(jax.device_count(), d.digest, batches(17).tolist(), split.tolist())"
    )
    seen = {}
    for devices in (1, 8):
        out = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={"PATH": "/usr/bin", "JAX_NUM_CPU_DEVICES": str(devices), "JAX_PLATFORMS": "cpu"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        count, seen[devices] = out.split(" ", 1)
        assert int(count) == devices
    assert seen[1] == seen[8]


def test_the_switch_for_gpus_reaches_xla():
    program = (
        "import har_jax.experiment.algorithm\nfrom har_jax.train import compilation\n"
        "compilation.make_deterministic()\n"
        "import jax, os\njax.devices()\nprint(os.environ['XLA_FLAGS'])"
    )
    environment = {"PATH": "/usr/bin", "XLA_FLAGS": "--xla_cpu_enable_fast_math=false"}
    out = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**environment, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,  # XLA ends a process that gives it a flag that it does not know
    ).stdout
    assert out == "--xla_cpu_enable_fast_math=false --xla_gpu_deterministic_ops=true\n"
