"""From the same weights the library computes what eager PyTorch computes."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install -e '.[bench]'")

from benchmarks.exactness import differences
from har_jax.jacobian import REDUCTIONS


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_ten_steps_in_float64(reduction):
    found = differences("float64", depth=8, batch_size=8, reduction=reduction, steps=10)
    assert len(found) == 6
    assert max(found.values()) < 1e-9, found


def test_a_step_in_float32():
    found = differences("float32", depth=8, batch_size=8, reduction="root_sum_square", steps=1)
    assert max(found.values()) < 1e-4, found
