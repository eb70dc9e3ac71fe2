"""Descents end when they are told to, with the best point so far."""

import numpy as np
import pytest

from pmldesign_solvers.operators import StoppedError, descend


def bowl(x):
    """A quadratic function with a gradient."""
    scales = np.arange(1.0, x.size + 1)
    return float(scales @ (x - 1.0) ** 2), 2.0 * scales * (x - 1.0)


@pytest.mark.parametrize("evaluations", [1, 2, 5])
def test_a_report_ends_a_descent_with_the_best_point(evaluations):
    seen = []

    def report(value):
        seen.append(value)
        return len(seen) == evaluations

    found = descend(bowl, np.full(6, 5.0), report=report)
    assert len(seen) == evaluations
    assert found.value == seen[-1] == min(seen) == bowl(found.point)[0]
    assert isinstance(found.stopped, StoppedError)
    assert found.unless_interrupted() is found.point


def test_a_descent_that_nobody_stops_ends_at_the_bottom():
    found = descend(bowl, np.zeros(6), report=lambda _: False)
    assert found.settled
    assert np.allclose(found.point, 1.0, atol=1e-4)
