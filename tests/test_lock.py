"""One process at a time in a workdir, and the one that is there is named."""

import os
import subprocess
import sys

import pytest

from har_jax.system import lock
from har_jax.system.lock import LockError, locked, refuse_moved


def test_a_second_one_is_refused_and_told_of_the_first(tmp_path):
    workdir = tmp_path / "new" / "runs"
    with locked(workdir):
        (workdir / "something").touch()
        with (
            pytest.raises(LockError, match=rf"runs is in use by process {os.getpid()} on .* since"),
            locked(workdir),
        ):
            pass
        (workdir / ".owner.json").write_text("{")
        with pytest.raises(LockError, match="runs is in use by another process"), locked(workdir):
            pass
    with locked(workdir):  # it was released
        pass
    assert sorted(path.name for path in workdir.iterdir()) == [".lock", "something"]


def test_what_a_dead_process_left_is_taken_over(tmp_path):
    program = (
        "import os, pathlib, sys; from har_jax.system.lock import locked\n"
        "with locked(pathlib.Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert killed.returncode == -9
    assert (tmp_path / ".owner.json").exists()
    with locked(tmp_path):
        assert str(os.getpid()) in (tmp_path / ".owner.json").read_text()


def test_an_empty_workdir_is_removed(tmp_path):
    workdir = tmp_path / "new"
    with pytest.raises(ZeroDivisionError), locked(workdir):
        _ = 1 / 0
    assert not workdir.exists()


def test_what_was_there_stays(tmp_path, small_disk):
    link = tmp_path / "link"
    (tmp_path / "folder").mkdir()
    link.symlink_to(tmp_path / "folder")
    for workdir in (link, small_disk):
        with pytest.raises(ZeroDivisionError), locked(workdir):
            _ = 1 / 0
        assert workdir.is_dir()


def test_a_workdir_that_was_moved_is_noticed(tmp_path):
    with locked(tmp_path / "run"):
        refuse_moved(tmp_path / "run")
        (tmp_path / "run").rename(tmp_path / "moved")
        with pytest.raises(LockError, match="run was moved or removed while this ran"):
            refuse_moved(tmp_path / "run")


def test_where_nothing_can_be_written(small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    message = r"disk/runs cannot be written to \(Read-only file system\): take another --workdir"
    with pytest.raises(LockError, match=message), locked(small_disk / "runs"):
        pass
    with pytest.raises(LockError, match="cannot be written to"), locked(small_disk):
        pass


def test_a_file_system_without_locks_is_told(tmp_path, monkeypatch):
    def acquire(self, timeout):
        raise NotImplementedError

    monkeypatch.setattr(lock.FileLock, "acquire", acquire)
    with pytest.warns(UserWarning, match="is on a file system without locks"), locked(tmp_path):
        pass
