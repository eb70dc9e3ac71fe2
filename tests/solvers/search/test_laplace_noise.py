import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from pmldesign.designs import scale_rule
from pmldesign.privacy import PML, Neighbours, PureDP, SampledAlpha, calibrate
from pmldesign_solvers.search import AddRemoveL1, Leakage, ReplaceL1, pairwise_l1


def rule_and_guarantee(kind, epsilon, alpha):
    if kind == "add-remove":
        return AddRemoveL1(epsilon), PureDP(epsilon)
    if kind == "replace":
        return ReplaceL1(epsilon), PureDP(epsilon, Neighbours.REPLACE)
    if kind == "sampled":
        counts = np.maximum(np.rint(1000 * alpha / alpha.sum()), 1)
        limits = 0.6 * counts / counts.sum()
        guarantee = PML(epsilon, SampledAlpha(limits.tolist(), counts.tolist(), 0.9, 0.3))
        return scale_rule(guarantee, alpha.size), guarantee
    return Leakage(epsilon, alpha), PML(epsilon, tuple(alpha))


@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(["add-remove", "replace", "leakage", "sampled"]),
    cells=st.integers(2, 6),
    epsilon=st.floats(0.05, 1.5),
    known=st.booleans(),
)
def test_the_scale_is_that_of_the_exact_calibrator(seed, kind, cells, epsilon, known):
    rng = np.random.default_rng(seed)
    R = rng.standard_normal((4, cells)) * 10.0 ** rng.integers(-3, 4)
    alpha = rng.dirichlet(np.ones(cells)) * (1.0 if known else 0.7)
    alpha = np.maximum(alpha, 1e-4) / max(1.0, np.maximum(alpha, 1e-4).sum())
    epsilon = min(epsilon, -0.9 * math.log(alpha.min()))
    rule, guarantee = rule_and_guarantee(kind, epsilon, alpha)
    exact = calibrate(R, guarantee, noise="laplace").scale
    # the calibrator rounds up by at most 1e-6
    assert exact / (1 + 1.1e-6) <= rule.scale(R) <= exact * (1 + 1e-9)


def test_leakage_of_two_cells_in_closed_form():
    # alpha + (1 - alpha) e^(-D/b) = e^-eps for the rarer cell, with the rest on the other one
    alpha, epsilon, distance = 0.2, 0.7, 3.0
    b = -distance / math.log((math.exp(-epsilon) - alpha) / (1 - alpha))
    R = np.array([[0.0, 1.0], [2.0, 0.0]])
    assert Leakage(epsilon, np.array([alpha, 0.6])).scale(R) == pytest.approx(b, rel=1e-13)


@pytest.mark.parametrize("rest", [0.0, 0.4])
@pytest.mark.parametrize("kind", ["replace", "leakage", "sampled"])
@pytest.mark.parametrize("temperature", [0.3, 0.02])
def test_the_gradient_of_the_smooth_scale(kind, temperature, rest):
    rng = np.random.default_rng(5)
    n = 5
    alpha = (1 - rest) * rng.dirichlet(np.ones(n))
    rule, _ = rule_and_guarantee(kind, 0.8, alpha)
    upper = np.triu_indices(n, 1)

    def symmetric(values):
        D = np.zeros((n, n))
        D[upper] = values
        return D + D.T

    distances = rng.uniform(0.5, 2, len(upper[0]))
    _, gradient = rule.smooth_log_scale(symmetric(distances), temperature)
    numerical = approx_fprime(
        distances, lambda v: rule.smooth_log_scale(symmetric(v), temperature)[0], 1e-7
    )
    np.testing.assert_allclose(gradient[upper], numerical, rtol=1e-5, atol=1e-6)
    # b is homogeneous of degree one in the distances
    assert gradient[upper] @ distances == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("kind", ["replace", "leakage"])
def test_smoothing_vanishes_and_never_underestimates(kind):
    rng = np.random.default_rng(6)
    R = rng.standard_normal((3, 6))
    rule, _ = rule_and_guarantee(kind, 0.8, np.full(6, 0.1))
    exact = math.log(rule.scale(R))
    values = [rule.smooth_log_scale(pairwise_l1(R), t)[0] - exact for t in (0.1, 1e-2, 1e-6)]
    assert values[0] > values[1] > values[2] >= -1e-12
    assert values[2] < 1e-4


@pytest.mark.parametrize("kind", ["leakage", "sampled"])
def test_merging_equal_cells_keeps_the_leakage(kind):
    rng = np.random.default_rng(7)
    R, alpha = rng.standard_normal((3, 4)), np.array([0.1, 0.2, 0.05, 0.1, 0.3])
    cell_of = np.array([0, 1, 2, 3, 1])
    rule, _ = rule_and_guarantee(kind, 0.6, alpha)
    merged = rule.on_cells(cell_of)
    assert merged.scale(R) == pytest.approx(rule.scale(R[:, cell_of]), rel=1e-13)


def test_a_probable_cell_needs_no_noise():
    # alpha_0 >= e^-eps: only the other two cells count
    rule = Leakage(1.0, np.array([0.5, 0.2, 0.3]))
    R = np.array([[0.0, 1.0, 2.5]])
    exact = calibrate(R, PML(1.0, (0.5, 0.2, 0.3)), noise="laplace").scale
    assert rule.scale(R) == pytest.approx(exact, rel=1.1e-6)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_epsilon_is_checked(epsilon):
    for make in (AddRemoveL1, ReplaceL1, lambda e: Leakage(e, np.full(3, 0.1))):
        with pytest.raises(ValueError, match="epsilon must be positive and finite"):
            make(epsilon)


def test_alpha_is_checked():
    for alpha in (np.array([0.5, 0.0]), np.array([0.7, 0.7]), np.array([[0.1]])):
        with pytest.raises(ValueError, match="alpha must be"):
            Leakage(1.0, alpha)
    with pytest.raises(ValueError, match="no noise is needed"):
        Leakage(1.0, np.array([0.4, 0.4]))


def test_equal_cells_that_are_probable_together_need_no_noise():
    # 0.05 e^2 < 1 for a cell, but 3 of them at distance 0 are 0.15 e^2 > 1 together: the scale is
    # that of the other cell, e^2 (0.05 + 0.95 e^(-1/b)) = 1 with the free mass far away
    strategy = np.array([[1.0, 0.0, 0.0, 0.0]])
    b = 1 / np.log(0.95 / (np.exp(-2) - 0.05))
    assert Leakage(2.0, np.full(4, 0.05)).scale(strategy) == pytest.approx(b, rel=1e-12)
