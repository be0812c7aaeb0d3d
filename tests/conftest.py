import contextlib
import subprocess

import jax
import pytest

jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_platforms", "cpu")


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
