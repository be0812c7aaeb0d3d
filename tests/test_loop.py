"""Training resumes to the same bits, tells of itself, and evaluates every example once."""

import json
import signal

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn

from har_jax import methods
from har_jax.data import Examples
from har_jax.system import interruption
from har_jax.train.evaluate import Evaluator
from har_jax.train.loop import fit
from har_jax.train.mesh import AXIS, data_mesh
from har_jax.train.metrics import MetricsWriter, read_metrics
from har_jax.train.optimizer import make_optimizer, make_schedule
from har_jax.train.progress import Progress


class Linear(nn.Module):
    @nn.compact
    def __call__(self, x, *, train):
        return nn.Dense(3)(nn.Dropout(0.1, deterministic=not train)(x))


class Smooth(nn.Module):
    @nn.compact
    def __call__(self, x, *, train):
        return nn.Dense(3)(nn.tanh(nn.LayerNorm()(nn.Dense(4)(x))))


def data(size=10):
    rng = np.random.default_rng(0)
    return {
        "inputs": rng.normal(size=(size, 4)).astype(np.float32),
        "labels": rng.integers(0, 3, size),
        "strength": rng.uniform(size=size).astype(np.float32),
    }


def run(directory, *, rate=0.1, steps=7, method=None, **changes):
    method = method or methods.erm(Linear(), optax.sgd(rate, momentum=0.9))
    options = dict(batch_size=4, seed=0, log_every=3, checkpoint_every=2, title="test")
    return fit(method, data(), directory, steps=steps, **options | changes)


CHANGING = {  # from the fourth step on, after which it is cut
    "name": "adam",
    "late_b1": (3.0, 0.1),
    "learning_rate": 0.1,
    "schedule": "linear",
    "decay_from": 3.0,
    "weight_decay": 0.0,
}


@pytest.mark.parametrize("config", [None, CHANGING], ids=["sgd", "adam"])
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(tmp_path, cut_after_saving, config):
    method = config and methods.erm(Linear(), make_optimizer(config, 7, 1.0))
    whole = run(tmp_path / "whole", method=method)
    # The cut, after step 4, falls into the window of the record of step 6.
    cut_after_saving(4, run, tmp_path / "cut", method=method)
    resumed = run(tmp_path / "cut", method=method)
    chex.assert_trees_all_equal(whole, resumed)
    files = [(tmp_path / name / "metrics.jsonl").read_text() for name in ("whole", "cut")]
    assert files[0] == files[1]
    assert [json.loads(line)["step"] for line in files[0].splitlines()] == [3, 6, 7]
    chex.assert_trees_all_equal(run(tmp_path / "cut", method=method), whole)  # nothing left to do
    with pytest.raises(ValueError, match="holds a run of 7 steps, more than 3"):
        run(tmp_path / "cut", method=method, steps=3)


def test_several_steps_in_one_dispatch_are_the_same_steps(tmp_path, capsys):
    options = dict(steps=23, log_every=6, checkpoint_every=10)
    single = run(tmp_path / "1", **options, steps_per_dispatch=1)
    several = run(tmp_path / "4", **options, steps_per_dispatch=4)
    chex.assert_trees_all_close(single, several, rtol=1e-6)
    chex.assert_trees_all_equal(
        several, run(tmp_path / "5", steps=23, log_every=23, steps_per_dispatch=5)
    )
    one, four = (read_metrics(tmp_path / name / "metrics.jsonl") for name in ("1", "4"))
    assert [r["step"] for r in one] == [r["step"] for r in four] == [6, 12, 18, 23]
    chex.assert_trees_all_close(one, four, rtol=1e-6)
    assert sorted(path.name for path in (tmp_path / "4/checkpoints").iterdir()) == ["20", "23"]
    shown = [line.split(",")[0] for line in capsys.readouterr().out.splitlines()]
    shown = [line for line in shown if "/23" in line][:8]
    assert shown == 2 * [f"test: step {step}/23" for step in (6, 12, 18, 23)]


@pytest.mark.parametrize(("per_dispatch", "devices"), [(1, 1), (3, 1), (1, 2)])
def test_a_step_is_traced_once(tmp_path, per_dispatch, devices):
    mesh, traced = data_mesh(jax.devices()[:devices]), []
    axis = AXIS if devices > 1 else None
    method = methods.erm(Linear(), optax.sgd(0.1), axis=axis)
    method = method.with_steps(lambda step: lambda *args: (traced.append(args), step(*args))[1])
    run(tmp_path, method=method, mesh=mesh, steps_per_dispatch=per_dispatch)
    assert len(traced) == 1


@pytest.mark.slow
@pytest.mark.parametrize("per_dispatch", [1, 3])
def test_r_at_each_third_step_resumes_and_is_told_of_those_steps(
    tmp_path, cut_after_saving, per_dispatch
):
    method = methods.har(Smooth(), optax.sgd(0.1), every=3)
    options = dict(method=method, steps=8, log_every=2, steps_per_dispatch=per_dispatch)
    whole = run(tmp_path / "whole", **options)
    cut_after_saving(4, run, tmp_path / "cut", **options)
    chex.assert_trees_all_equal(run(tmp_path / "cut", **options), whole)
    records = [read_metrics(tmp_path / name / "metrics.jsonl") for name in ("whole", "cut")]
    assert records[0] == records[1]
    # R is of the steps from 0, 3 and 6: in the records of the steps up to 2, 4 and 8.
    assert ["norm" in record for record in records[0]] == [True, True, False, True]
    assert all(np.isfinite(record["loss"]) for record in records[0])


def test_devices_make_the_same_run_and_a_run_goes_on_with_another_number(tmp_path):
    model, optimizer = Smooth(), optax.sgd(0.1, momentum=0.9)
    one = run(tmp_path / "one", method=methods.har(model, optimizer), batch_size=8)
    split = lambda: methods.har(model, optimizer, axis=AXIS)
    options = dict(batch_size=8, mesh=data_mesh())
    eight = run(tmp_path / "eight", method=split(), **options)
    chex.assert_trees_all_close(jax.device_get(eight), jax.device_get(one), rtol=1e-5, atol=1e-6)
    run(tmp_path / "both", method=split(), steps=4, **options)
    both = run(tmp_path / "both", method=methods.har(model, optimizer), batch_size=8)
    chex.assert_trees_all_close(both, one, rtol=1e-5, atol=1e-6)
    records = [read_metrics(tmp_path / name / "metrics.jsonl") for name in ("one", "eight")]
    chex.assert_trees_all_close(*records, rtol=1e-5)


def test_metrics_are_means_over_their_window(tmp_path, capsys):
    run(tmp_path)
    records = read_metrics(tmp_path / "metrics.jsonl")
    assert set(records[0]) == {"step", "epoch", "loss", "accuracy"}
    assert records[-1]["epoch"] == pytest.approx(2.8)
    assert any(tmp_path.glob("tensorboard/events*"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "test: compiling"
    assert len(lines) == 4
    assert lines[1].startswith("test: step 3/7, loss ")
    assert "examples/s" in lines[1]
    assert "s left" in lines[1]


def test_records_of_steps_to_be_made_again_are_dropped(tmp_path):
    with MetricsWriter(tmp_path, 0) as writer:
        for step in (1, 2, 3):
            writer.write({"step": step, "loss": 1.0}, {})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "lo')  # cut in the middle of a line
    with MetricsWriter(tmp_path, 2) as writer:
        writer.write({"step": 3, "loss": 2.0}, {})
    assert [record["loss"] for record in read_metrics(tmp_path / "metrics.jsonl")] == [1, 1, 2]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_saves_the_step_that_is_under_way(tmp_path, monkeypatch, capsys, number):
    whole = run(tmp_path / "whole")
    handlers = [signal.getsignal(each) for each in interruption.SIGNALS]
    update = Progress.update

    def pressed(self, step):
        if step == 3:
            signal.raise_signal(number)
        update(self, step)

    with monkeypatch.context() as patch:
        patch.setattr(Progress, "update", pressed)
        with pytest.raises(interruption.Interrupted, match=number.name):
            run(tmp_path / "cut", checkpoint_every=100)
    assert [path.name for path in (tmp_path / "cut/checkpoints").iterdir()] == ["3"]
    assert "test: saved after step 3 of 7" in capsys.readouterr().out
    assert [signal.getsignal(each) for each in interruption.SIGNALS] == handlers
    chex.assert_trees_all_equal(run(tmp_path / "cut", checkpoint_every=100), whole)
    files = [(tmp_path / name / "metrics.jsonl").read_text() for name in ("whole", "cut")]
    assert files[0] == files[1]


def unsteady(bad_steps, what):
    """Plain training whose loss, R or gradient is NaN at some steps."""
    erm = methods.erm(Linear(), optax.sgd(0.1, momentum=0.9))

    def step(state, batch, key):
        bad = jnp.isin(state.step + 1, jnp.array(bad_steps))
        new, metrics = erm.step(state, batch, key)
        spoil = lambda tree: jax.tree.map(lambda x: jnp.where(bad, jnp.nan, x), tree)
        metrics["norm"] = metrics["loss"]
        if what == "parameters":
            return new.replace(params=spoil(new.params)), metrics
        return new, {**metrics, what: spoil(metrics[what])}

    return erm._replace(step=step)


@pytest.mark.parametrize("per_dispatch", [1, 3])
@pytest.mark.parametrize(("what", "name"), [("loss", "loss"), ("norm", "R"), ("parameters", "par")])
def test_a_run_stops_at_the_step_that_is_not_finite(tmp_path, what, name, per_dispatch):
    expected = rf"test: at step 5 not finite: .*{name}.*; the last checkpoint is .*checkpoints/4"
    with pytest.raises(FloatingPointError, match=expected):
        run(tmp_path, method=unsteady([5], what), steps_per_dispatch=per_dispatch)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["2", "4"]
    assert [record["step"] for record in read_metrics(tmp_path / "metrics.jsonl")] == [3]


@pytest.mark.slow
@pytest.mark.parametrize("what", ["loss", "parameters"])
def test_steps_that_are_not_finite_can_be_skipped(tmp_path, what):
    state = run(tmp_path / "skip", method=unsteady([2, 6], what), on_nonfinite="skip")
    assert int(state.step) == 7
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(state))
    records = read_metrics(tmp_path / "skip" / "metrics.jsonl")
    assert [record["skipped"] for record in records] == [1, 1, 0]
    assert all(np.isfinite(record["loss"]) for record in records)
    steady = run(tmp_path / "none", method=unsteady([], what), on_nonfinite="skip", steps=1)
    one = run(tmp_path / "one", method=unsteady([2], what), on_nonfinite="skip", steps=2)
    chex.assert_trees_all_equal(one.params, steady.params)
    with pytest.raises(
        FloatingPointError, match="none of the last 7 steps up to step 7 was finite"
    ):
        run(tmp_path / "all", method=unsteady(range(1, 8), what), on_nonfinite="skip")
    run(tmp_path / "first", method=unsteady([1, 2, 3, 7], what), on_nonfinite="skip")
    records = read_metrics(tmp_path / "first" / "metrics.jsonl")
    assert [record["skipped"] for record in records] == [3, 0, 1]
    assert ["loss" in record for record in records] == [False, True, False]


def test_evaluation_takes_every_example_once_whatever_the_batch():
    examples = Examples(data(11)["inputs"], data(11)["labels"])
    model = Linear()
    variables = model.init(jax.random.key(0), examples.inputs, train=False)
    predict = lambda variables, inputs: model.apply(variables, inputs, train=False)
    results = [Evaluator(predict, size)(variables, examples) for size in (3, 4, 11, 64)]
    results.append(Evaluator(predict, 3, data_mesh())(variables, examples))
    for result in results:
        assert result.loss.shape == result.prediction.shape == (11,)
        np.testing.assert_allclose(result.loss, results[0].loss, rtol=1e-6)
        np.testing.assert_array_equal(result.prediction, results[0].prediction)


def test_schedules():
    config = dict(learning_rate=1.0, schedule="step", decay_epochs=(2, 3), decay_factor=0.1)
    step = make_schedule(config, total_steps=40, steps_per_epoch=10)
    np.testing.assert_allclose([step(i) for i in (0, 19, 21, 29, 31)], [1, 1, 0.1, 0.1, 0.01])
    close = make_schedule({**config, "decay_epochs": (2, 2.01)}, 40, 10)
    np.testing.assert_allclose([close(i) for i in (19, 21)], [1, 0.01])
    cosine = make_schedule({**config, "schedule": "cosine"}, 40, 10)
    np.testing.assert_allclose([cosine(i) for i in (0, 20, 40)], [1, 0.5, 0], atol=1e-6)
    assert make_schedule({**config, "schedule": "constant"}, 40, 10)(7) == 1
