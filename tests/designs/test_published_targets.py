"""Releases are as accurate as a target asks, also in the digits that are published."""

import numpy as np
import pytest

import pmldesign as pml
from pmldesign.designs import Targets


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("level", [0.5, 0.95])
@pytest.mark.parametrize("name", ["histogram:7", "prefix:16", "marginals:3,4,2,ways=2"])
def test_published_intervals_are_no_wider_than_their_target(name, level, noise):
    promise, target = pml.ApproxDP(1, 1e-6), Targets(10.0, level=level)
    found = pml.least_budget(name, promise, targets=target, noise=noise, effort="quick")
    counts = np.arange(found.workload.shape[1])
    table = found.mechanism.release(counts, level=level).table
    widest = (table.upper - table.lower).max() / 2
    assert 9.99 < widest <= 10.0
