"""Noise where pairs of columns are too many: for the largest distance alone, private."""

import numpy as np
import pytest
from leakages import gaussian_envelope_delta, gaussian_slack_delta, laplace_leakage_bound

import pmldesign as pml
from pmldesign.privacy import calibrate
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


class Many(Strategy):
    """A strategy that has too many columns for all pairs of them."""

    _many_columns = True


@pytest.mark.parametrize(("noise", "guarantee"), CASES)
def test_it_is_private_and_exact_where_all_cells_are_as_far_apart(noise, guarantee):
    for R in [*COLUMNS, np.eye(7)]:
        strategy = Strategy("R", R)
        exact = calibrate(strategy, guarantee, noise=noise).scale
        coarse = calibrate(Many("R", R), guarantee, noise=noise)
        if noise == "laplace":
            lost = laplace_leakage_bound(R, scale=coarse.scale, alpha=0.05)
        else:
            envelope = guarantee.failure == "envelope"
            delta_of = gaussian_envelope_delta if envelope else gaussian_slack_delta
            lost = delta_of(R, scale=coarse.scale, epsilon=1.0, alpha=0.05)
        assert lost <= coarse.achieved * (1 + 1e-9)
        assert coarse.scale >= exact * (1 - 1e-6)
    assert coarse.scale <= exact * (1 + 2e-6)
