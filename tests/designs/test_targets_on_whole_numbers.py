"""The least epsilon where noise is on the grid of whole measurements, and bounds below it."""

import math

import numpy as np
import pytest

import pmldesign as pml

OWN = "integer-laplace"


def needed(deviation, sensitivity=1):
    """The epsilon of the geometric law, with the variance 1/(2 sinh(epsilon/2)^2)."""
    return 2 * sensitivity * math.asinh(1 / (math.sqrt(2) * deviation))


@pytest.mark.parametrize("target", [0.1, 0.3, 0.8])
def test_counts_need_what_the_geometric_law_has(target):
    found = pml.least_budget("histogram:5", pml.PureDP(1), targets=target, effort="quick")
    assert found.mechanism.own_grid
    assert found.enough == pytest.approx(needed(target), rel=1e-7)
    assert found.enough >= needed(target)
    assert found.at_least <= found.enough
    assert found.at_least == pytest.approx(found.enough, rel=1e-6)  # no mechanism does with less
    assert found.mechanism.max_std <= target
    assert found.tightest == pytest.approx(1)
    assert found.tightest <= 1
    assert "every mechanism, worst case over data of any size needs" in repr(found)


def test_running_sums_by_counts():
    found = pml.least_budget("prefix:32", pml.PureDP(1), targets=0.5, effort="quick")
    assert found.enough == pytest.approx(needed(0.5 / math.sqrt(32)), rel=1e-7)
    assert found.at_least < found.enough
    value, noise = found.budget_of(pml.baseline("identity", pml.workload("prefix:32")))
    assert (value, noise) == (found.enough, OWN)
    value, noise = found.budget_of(pml.baseline("tree", pml.workload("prefix:32")))
    assert noise == OWN
    assert value > found.enough


def test_targets_for_each_query_and_deltas():
    targets = np.array([0.2, 0.5, 0.3])
    found = pml.least_budget("histogram:3", pml.ApproxDP(1, 1e-9), targets=targets, effort="quick")
    assert found.mechanism.own_grid
    assert found.enough <= needed(0.2) * (1 + 1e-7)
    assert (found.mechanism.standard_deviations <= targets).all()
    assert found.at_least <= found.enough


def test_large_targets_and_widths_have_laplace_noise():
    for targets in (5.0, pml.Targets(0.5, level=0.9)):
        found = pml.least_budget("histogram:4", pml.PureDP(1), targets=targets, effort="quick")
        assert not found.mechanism.own_grid
        assert found.bounded == "laplace noise on any strategy"
    found = pml.least_budget(
        "histogram:4", pml.PureDP(1), targets=5.0, effort="quick", noise="integer-laplace"
    )
    assert found.mechanism.own_grid
    assert found.enough == pytest.approx(needed(5.0), rel=1e-7)
    found = pml.least_budget(
        "histogram:4", pml.PureDP(1), targets=0.2, effort="quick", noise="laplace"
    )
    assert not found.mechanism.own_grid
    assert found.enough == pytest.approx(math.sqrt(2) / 0.2, rel=1e-7)


def test_files_of_targets_hold(tmp_path):
    found = pml.least_budget("prefix:6", pml.PureDP(1), targets=0.4, effort="quick")
    pml.write(tmp_path / "t.npz", found.mechanism)
    assert pml.verify(tmp_path / "t.npz").holds
