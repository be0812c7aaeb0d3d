"""The ways in: module and script, configs by name, help, and the library without the commands."""

import pathlib
import subprocess
import sys

import pytest

import har_jax
from har_jax.config import files as config_files
from har_jax.system import starting

ROOT = pathlib.Path(__file__).parent.parent
LIGHT = ("flax", "jax", "jaxlib", "jaxtyping", "numpy", "optax", "wadler_lindig")


def run(*command, **options):
    return subprocess.run(
        [sys.executable, *command], check=False, capture_output=True, text=True, **options
    )


def test_configs_go_by_name_and_by_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {file.stem for file in (ROOT / "configs").glob("[a-z]*.py")}
    assert set(config_files.packaged()) == names
    assert config_files.find("cifar10") == ROOT / "configs" / "cifar10.py"
    assert config_files.find("nothing") is None
    (tmp_path / "digits").write_text("")
    assert config_files.find("digits") == pathlib.Path("digits")  # what is there comes first


@pytest.mark.parametrize("module", ["har_jax", "har_jax.main"])
def test_the_module_is_the_command(module, tmp_path):
    told = run("-m", module, "--config=digits", "--config.sed=1", cwd=tmp_path)
    assert told.returncode == 2
    assert told.stderr == "har_jax: config.sed does not exist: did you mean config.seed?\n"


@pytest.mark.parametrize("module", ["har_jax", "har_jax.reproduce"])
def test_help_is_no_failure(module):
    told = run("-m", module, "--help", cwd=ROOT)
    assert told.returncode == 0
    assert "--config" in told.stdout or "--table" in told.stdout


def test_an_unknown_config_is_told_of_with_those_that_are_there(tmp_path):
    told = run("-m", "har_jax", "--config", "cifar", cwd=tmp_path)
    assert told.returncode == 2
    assert "there is no config file cifar: " in told.stderr
    assert "cifar10, " in told.stderr


def test_the_library_needs_little():
    """Everything of the public interface, with all but a few packages blocked."""
    code = f"""
import sys

own = {{name.partition(".")[0] for name in sys.stdlib_module_names}} | {{*{LIGHT!r}, "har_jax"}}
import flax.linen, jax, jaxtyping, optax  # whatever these need


class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in own:
            raise ModuleNotFoundError(f"blocked: {{name}}", name=name)


sys.meta_path.insert(0, Block())
import har_jax

assert all(hasattr(har_jax, name) for name in har_jax.__all__)
statistics = har_jax.group_statistics([0, 0, 1, 1], [0, 1], [True, False], smoothing=None)
assert len(har_jax.scale_to_maximum(statistics.tau, 1.0)) == 2
import har_jax.methods, har_jax.models
"""
    told = run("-c", code)
    assert told.returncode == 0, told.stderr


def test_what_the_commands_lack_is_said(monkeypatch):
    monkeypatch.setattr(starting, "_is_installed", lambda name: name not in ("pyarrow", "orbax"))
    assert starting._missing() == ["pyarrow"]
    monkeypatch.setattr(starting, "_is_installed", lambda name: True)
    assert starting._missing() == []


@pytest.mark.slow
def test_a_wheel_runs_in_an_empty_folder(tmp_path):
    build = run("-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(ROOT))
    assert build.returncode == 0, build.stderr
    (wheel,) = tmp_path.glob("har_jax-*.whl")
    site = tmp_path / "site"
    install = run("-m", "pip", "install", "-q", "--no-deps", "--target", str(site), str(wheel))
    assert install.returncode == 0, install.stderr
    packages = {path.parent.relative_to(ROOT) for path in ROOT.glob("har_jax/**/__init__.py")}
    assert all((site / package / "__init__.py").is_file() for package in packages)
    (tmp_path / "empty").mkdir()
    flags = ("--config=digits", "--config.methods='erm',", "--config.train.epochs=1")
    environment = {"PYTHONPATH": str(site), "PATH": "", "HOME": str(tmp_path)}
    options = {"cwd": tmp_path / "empty", "env": environment}
    done = run("-m", "har_jax", *flags, **options)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "empty" / "runs" / "digits" / "report" / "index.html").is_file()
    assert str(site) in run("-c", "import har_jax; print(har_jax.__file__)", **options).stdout


def test_the_package_is_this_one():
    assert pathlib.Path(har_jax.__file__).is_relative_to(ROOT)
