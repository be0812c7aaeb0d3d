"""What a step needs in memory, as the compiler says, and that it is not run without."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from har_jax import methods
from har_jax.models import CifarResNet, ConvNet
from har_jax.train import memory
from har_jax.train.compilation import compiler_options
from har_jax.train.loop import fit
from har_jax.train.mesh import data_mesh

pytestmark = pytest.mark.usefixtures("optimized")


def temporary_bytes(make, **options):
    method = make(CifarResNet(num_classes=10, depth=32), optax.sgd(0.1), **options)
    shape = jax.ShapeDtypeStruct
    batch = {
        "inputs": shape((128, 32, 32, 3), jnp.float32),
        "labels": shape((128,), jnp.int32),
        "strength": shape((128,), jnp.float32),
    }
    key = jax.eval_shape(lambda: jax.random.key(0))
    state = jax.eval_shape(method.init, key, batch)
    program = jax.make_jaxpr(method.step)(state, batch, key)
    step = jax.jit(method.step, compiler_options=compiler_options(program))
    return step.lower(state, batch, key).compile().memory_analysis().temp_size_in_bytes


@pytest.mark.slow
def test_har_takes_less_than_twice_the_memory_and_microbatches_less_than_plain_training():
    plain = temporary_bytes(methods.erm)
    assert temporary_bytes(methods.har) < 1.8 * plain
    assert temporary_bytes(methods.har, microbatches=2) < plain


class TestCheck:
    @pytest.fixture
    def step(self):
        return jax.jit(lambda x: (jnp.sin(x @ x) @ x).sum())

    def check(self, step, mesh=None):
        return memory.checked(step, mesh or data_mesh(jax.devices()[:1]), "erm")

    def test_a_step_that_does_not_fit_is_refused_before_it_runs(self, step, monkeypatch):
        x = jnp.ones((1000, 1000))
        assert self.check(step)(x) == step(x)
        monkeypatch.setattr(memory, "available", lambda device: 1000)
        ran = []
        jitted = jax.jit(lambda x: (jax.debug.callback(ran.append, x[0, 0]), jnp.sin(x @ x) @ x)[1])
        message = (
            r"erm: a step needs \d+\.\d MB of memory beside what is in use, and there are 0\.0 MB: "
            r"take a smaller config\.batch_size, more config\.microbatches, "
            r"config\.model\.remat=True or config\.model\.dtype=bfloat16"
        )
        with pytest.raises(memory.MemoryShortage, match=message):
            self.check(jitted)(x)
        jax.effects_barrier()
        assert ran == []

    def test_what_nobody_can_say_is_not_refused(self, step, monkeypatch):
        monkeypatch.setattr(memory, "available", lambda device: None)
        assert self.check(step)(jnp.ones((3, 3))) == step(jnp.ones((3, 3)))

    def test_devices_of_one_host_share_its_memory(self, step, monkeypatch):
        x = jnp.ones((1000, 1000))
        most = 1.5 * step.lower(x).compile().memory_analysis().temp_size_in_bytes
        monkeypatch.setattr(memory, "available", lambda device: most)
        self.check(step)(x)
        with pytest.raises(memory.MemoryShortage):
            self.check(step, data_mesh(jax.devices()[:2]))(x)

    def test_it_is_compiled_once(self, step):
        times = []

        def count(name, seconds, **_):
            times.extend([seconds] if name.endswith("backend_compile_duration") else [])

        x = jnp.ones((30, 30))
        jax.monitoring.register_event_duration_secs_listener(count)
        call = self.check(step)
        for _ in range(2):
            call(x)
        jax.monitoring.unregister_event_duration_listener(count)
        assert len(times) == 1


def test_a_run_that_does_not_fit_ends_before_its_first_step(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda device: 10)
    data = {"inputs": np.zeros((8, 4, 4, 1), np.float32), "labels": np.zeros(8, np.int32)}
    method = methods.erm(ConvNet(2, (8,)), optax.sgd(0.1))
    sizes = dict(steps=2, batch_size=4, seed=0, log_every=1, checkpoint_every=1, title="erm")
    with pytest.raises(memory.MemoryShortage, match="erm: a step needs"):
        fit(method, data, tmp_path, **sizes)
    assert not list(tmp_path.glob("checkpoints/*"))


@pytest.mark.parametrize("version", [1, 2])
def test_limits_of_control_groups(tmp_path, version):
    membership, root = tmp_path / "membership", tmp_path / "cgroup"
    base = root if version == 2 else root / "memory"
    membership.write_text("0::/a/b\n" if version == 2 else "5:cpu:/x\n4:memory:/a/b\n")
    names = (
        ("max", "current", "") if version == 2 else ("limit_in_bytes", "usage_in_bytes", "total_")
    )

    def limit(folder, most, used, cached):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"memory.{names[0]}").write_text(f"{most}\n")
        (folder / f"memory.{names[1]}").write_text(f"{used}\n")
        (folder / "memory.stat").write_text(f"anon 1\n{names[2]}inactive_file {cached}\n")

    limits = lambda: memory._left_by_cgroups(membership, root)
    assert limits() == []
    limit(base / "a" / "b", "max" if version == 2 else 2**63 - 4096, 10, 0)
    limit(base / "a", 1000, 600, 100)
    assert min(limits()) == 500
    limit(base / "a", 1000, 1100, 0)
    assert min(limits()) == 0
    assert memory._left_by_cgroups(tmp_path / "none", root) == []


def test_memory_that_runs_out_is_one_line():
    assert memory.shortage(ValueError("x")) is None
    error = jax.errors.JaxRuntimeError(
        "RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes.\nmore"
    )
    told = memory.shortage(error)
    assert told.startswith("memory ran out (RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes")
    assert "config.microbatches" in told
    assert memory.shortage(MemoryError()).startswith("memory ran out (the host has no more)")


def test_the_host_says_what_is_left():
    assert 10**6 < memory.available(jax.devices()[0]) < 10**14
