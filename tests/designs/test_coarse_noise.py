"""Noise where time is short: for the largest distance alone, private and not much too large."""

import numpy as np
import pytest
from leakages import gaussian_envelope_delta, gaussian_slack_delta, laplace_leakage_bound

import pmldesign as pml
from pmldesign.privacy import calibrate, columns
from pmldesign.strategies import Strategy

CASES = [
    ("gaussian", pml.ApproxPML(1.0, 1e-4, alpha=0.05)),
    ("gaussian", pml.EnvelopePML(1.0, 1e-4, alpha=0.05)),
    ("laplace", pml.PML(1.0, alpha=0.05)),
]
RNG = np.random.default_rng(5)
COLUMNS = [
    RNG.standard_normal((3, 6)),
    RNG.integers(0, 2, (5, 9)).astype(float),
    np.array([[0.0, 1.0, 1.0, 1.0]]),
    np.array([[0.0, 1.0], [0.0, 3.0]]),
]


@pytest.mark.parametrize(("noise", "guarantee"), CASES)
def test_it_is_private_and_exact_where_all_cells_are_as_far_apart(noise, guarantee):
    for R in [*COLUMNS, np.eye(7)]:
        strategy = Strategy("R", R)
        exact = calibrate(strategy, guarantee, noise=noise).scale
        coarse = calibrate(strategy.coarse(), guarantee, noise=noise)
        if noise == "laplace":
            lost = laplace_leakage_bound(R, scale=coarse.scale, alpha=0.05)
        else:
            envelope = guarantee.failure == "envelope"
            delta_of = gaussian_envelope_delta if envelope else gaussian_slack_delta
            lost = delta_of(R, scale=coarse.scale, epsilon=1.0, alpha=0.05)
        assert lost <= coarse.achieved * (1 + 1e-9)
        assert coarse.scale >= exact * (1 - 1e-6)
    assert coarse.scale <= exact * (1 + 2e-6)


@pytest.mark.parametrize("first", [False, True])
def test_distances_do_not_depend_on_which_was_asked_first(first, monkeypatch):
    """The largest distance of a strategy, 5, and the bound of its coarse form."""
    monkeypatch.setattr(columns, "MOST_PAIRED", {1: 0})
    strategy = Strategy("R", [[3.0, 0.0, 0.0, 0.0], [0.0, 2.0, 1.0, -2.0]])
    _ = strategy.sensitivity  # what the copy knows as well
    asked = [strategy.coarse(), strategy]
    known = {
        one.by_diameter: one.sensitivity_under(pml.Neighbours.REPLACE, "l1")
        for one in (asked if first else asked[::-1])
    }
    assert known[None] == 5.0
    assert known[True] == pytest.approx(2.5 + 3.0)  # the largest distances from the mean
