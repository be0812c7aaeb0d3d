"""What is on disk is a whole checkpoint or none, and no damage goes unseen."""

import pathlib
import re
import shutil
import warnings

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from har_jax.train.checkpoints import CheckpointError, Checkpoints


def test_what_an_interrupted_save_left_is_not_taken_for_a_checkpoint(tmp_path):
    tree = {"a": jnp.arange(3.0)}
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.restore_latest(tree) is None
        for step in (1, 2, 3):
            checkpoints.save(step, {"a": tree["a"] + step})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2", "3"]
    (tmp_path / "9").mkdir()
    (tmp_path / "10.orbax-checkpoint-tmp").mkdir()
    with pytest.warns(UserWarning, match="9 is an incomplete checkpoint and is removed"):
        checkpoints = Checkpoints(tmp_path)
    with checkpoints:
        np.testing.assert_array_equal(checkpoints.restore_latest(tree)["a"], [3, 4, 5])
        checkpoints.save(4, tree)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3", "4"]


def tree_of(step):
    return {"a": jnp.arange(1000.0), "step": jnp.array(step, jnp.int32)}


def test_a_relative_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Checkpoints(pathlib.Path("here")) as checkpoints:
        checkpoints.save(1, tree_of(1))
        assert checkpoints.latest() == tmp_path / "here" / "1"


class TestDamage:
    @pytest.fixture
    def directory(self, tmp_path):
        with Checkpoints(tmp_path / "whole") as checkpoints:
            for step in (1, 2):
                checkpoints.save(step, tree_of(step))
        return tmp_path / "whole"

    @pytest.mark.parametrize("damage", ["truncate", "flip", "delete"])
    def test_no_file_of_a_checkpoint_can_be_damaged_unseen(self, directory, damage, tmp_path):
        names = [path.relative_to(directory) for path in directory.glob("2/**/*")]
        names = [name for name in names if (directory / name).is_file()]
        assert len(names) > 5
        for number, name in enumerate(names):
            copy = tmp_path / str(number)
            shutil.copytree(directory, copy)
            content = bytearray((copy / name).read_bytes())
            if damage == "truncate":
                (copy / name).write_bytes(content[: len(content) // 2])
            elif damage == "flip":
                content[len(content) // 2] ^= 1
                (copy / name).write_bytes(content)
            else:
                (copy / name).unlink()
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                with Checkpoints(copy) as checkpoints:
                    assert checkpoints.restore_latest(tree_of(0))["step"] == 1
            assert len(seen) == 1, name
            assert re.search("is (damaged|an incomplete checkpoint)", str(seen[0].message))
        with Checkpoints(copy) as checkpoints:
            checkpoints.save(2, tree_of(2))
            assert checkpoints.latest().name == "2"

    def test_if_all_are_damaged_nothing_is_touched(self, directory):
        for step in ("1", "2"):
            (directory / step / "state" / "manifest.ocdbt").unlink()
        with (
            pytest.raises(CheckpointError, match=r"damaged \(2: state/manifest.ocdbt is missing"),
            Checkpoints(directory) as checkpoints,
        ):
            checkpoints.restore_latest(tree_of(0))
        assert sorted(path.name for path in directory.iterdir()) == ["1", "2"]

    def test_a_whole_one_of_another_tree_is_kept(self, directory):
        other = {"b": jnp.zeros(3)}
        with (
            pytest.raises(CheckpointError, match="is whole, but does not fit what is trained now"),
            Checkpoints(directory) as checkpoints,
        ):
            checkpoints.restore_latest(other)
        assert sorted(path.name for path in directory.iterdir()) == ["1", "2"]

    def test_a_full_disk_leaves_the_last_checkpoint(self, small_disk):
        keys = jax.random.split(jax.random.key(0), 4)
        noise = [{"a": jax.random.normal(key, (256, 256))} for key in keys]
        with Checkpoints(small_disk / "checkpoints") as checkpoints:
            for step in (1, 2):
                checkpoints.save(step, noise[step])
            with pytest.raises(CheckpointError, match=r"step 3 cannot be saved .*No space left"):
                checkpoints.save(3, noise[3])
        with Checkpoints(small_disk / "checkpoints", keep=1) as checkpoints:
            chex.assert_trees_all_equal(checkpoints.restore_latest(noise[0]), noise[2])


def test_another_number_of_devices_restores_the_same_numbers(tmp_path):
    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    placed = lambda *axes: jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))
    rng = np.random.default_rng(0)
    numbers = {"split": rng.normal(size=(16, 3)), "same": rng.normal(size=5).astype(np.float32)}
    on_eight = {
        "split": jax.device_put(numbers["split"], placed("data")),
        "same": jax.device_put(numbers["same"], placed()),
    }
    on_one = jax.device_put(numbers, jax.devices()[3])
    for name, saved, like in (("8 to 1", on_eight, on_one), ("1 to 8", on_one, on_eight)):
        with Checkpoints(tmp_path / name) as checkpoints:
            checkpoints.save(1, saved)
        with Checkpoints(tmp_path / name) as checkpoints:
            restored = checkpoints.restore_latest(like)
        chex.assert_trees_all_equal(restored, jax.device_get(saved))
        for key, array in restored.items():
            assert array.sharding.is_equivalent_to(like[key].sharding, array.ndim)
