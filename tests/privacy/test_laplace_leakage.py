import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from leakages import laplace_leakage_bound, pml_from_dp

from pmldesign.errors import InvalidInputError
from pmldesign.privacy import PML, calibrate, extreme_output_leakage
from pmldesign.privacy import laplace_leakage as module


def corollary_1(R, scale, least):
    """The formula of [ZSO] in 50 digits, cell by cell."""
    with mpmath.workdps(50):
        cells = range(R.shape[1])
        worst = mpmath.mpf(0)
        for r in cells:
            D = [
                mpmath.fsum(
                    abs(mpmath.mpf(a) - mpmath.mpf(b))
                    for a, b in zip(R[:, j], R[:, r], strict=True)
                )
                for j in cells
            ]
            kept = mpmath.fsum(
                mpmath.mpf(a) * mpmath.exp(-d / mpmath.mpf(scale))
                for a, d in zip(least, D, strict=True)
            )
            rest = 1 - mpmath.fsum(mpmath.mpf(a) for a in least)
            worst = max(worst, -mpmath.log(kept + rest * mpmath.exp(-max(D) / mpmath.mpf(scale))))
        return worst


@given(
    seed=st.integers(0, 2**32 - 1),
    cells=st.integers(2, 6),
    log_scale=st.floats(-3, 12),
    log_share=st.floats(-20, -0.1),
)
def test_corollary_1_against_50_digits(seed, cells, log_scale, log_share):
    rng = np.random.default_rng(seed)
    R = rng.integers(-4, 5, (3, cells)).astype(float)
    least = rng.dirichlet(np.ones(cells)) * 10**log_share + 1e-25
    value = laplace_leakage_bound(R, scale=10**log_scale, alpha=least)
    assert value == pytest.approx(
        float(corollary_1(R, 10**log_scale, least)), rel=1e-11, abs=1e-300
    )


def test_without_noise_only_equal_columns_protect():
    R = np.array([[0.0, 0.0, 1.0, 2.0]])
    # outputs tell cells 2 and 3 from the rest: P(cell) is least alpha there
    assert laplace_leakage_bound(R, scale=0, alpha=0.1) == pytest.approx(math.log(10))
    assert laplace_leakage_bound(R, scale=0, alpha=(0.1, 0.15, 0.3, 0.4)) == pytest.approx(
        math.log(4)
    )
    assert laplace_leakage_bound(R, scale=1e-320, alpha=0.1) == pytest.approx(math.log(10))
    assert laplace_leakage_bound(np.ones((2, 3)), scale=0, alpha=0.1) == 0


def test_a_known_prior_needs_no_free_mass():
    # sum of alpha = 1: the leakage of one record at y = R e_r, by Bayes
    prior, R = np.array([0.2, 0.3, 0.5]), np.array([[0.0, 1.0, 3.0]])
    densities = np.exp(-np.abs(R[0][:, None] - R[0][None, :]))
    worst = max(-math.log(densities[r] @ prior) for r in range(3))
    assert laplace_leakage_bound(R, scale=1, alpha=prior) == pytest.approx(worst, rel=1e-14)


@given(seed=st.integers(0, 2**32 - 1), scale=st.floats(0.7, 50))
def test_leakage_is_monotone_and_invariant(seed, scale):
    rng = np.random.default_rng(seed)
    R = rng.standard_normal((4, 5))
    least = rng.dirichlet(np.ones(5)) * 0.7
    value = laplace_leakage_bound(R, scale=scale, alpha=least)
    dp = np.abs(R[:, :, None] - R[:, None, :]).sum(axis=0).max() / scale
    assert 0 < value <= min(dp, math.log(1 / least.min())) + 1e-12
    assert value <= pml_from_dp(dp, min(0.5, least.min())) + 1e-12
    assert laplace_leakage_bound(R, scale=1.1 * scale, alpha=least) < value
    assert laplace_leakage_bound(R, scale=scale, alpha=0.9 * least) > value
    order = rng.permutation(5)
    same = laplace_leakage_bound(7 * R[:, order] + 3, scale=7 * scale, alpha=least[order])
    assert same == pytest.approx(value, rel=1e-9)
    split = laplace_leakage_bound(
        np.hstack([R, R[:, :1]]), scale=scale, alpha=[least[0] / 3, *least[1:], 2 * least[0] / 3]
    )
    assert split == pytest.approx(value, rel=1e-12)


def test_blocks_do_not_change_the_value(monkeypatch):
    R = np.random.default_rng(0).standard_normal((3, 11))
    whole = laplace_leakage_bound(R, scale=1, alpha=0.05)
    monkeypatch.setattr(module, "BLOCK_BYTES", 8 * 11 * 3)
    assert laplace_leakage_bound(R, scale=1, alpha=0.05) == whole


def test_conversion_holds_for_randomized_response():
    # k-RR is epsilon-DP; its leakage for the prior (alpha, ..., rest) is at most the conversion,
    # with equality for two cells
    for cells, epsilon in itertools.product((2, 3, 5), (0.3, 1.0, 2.0)):
        channel = np.ones((cells, cells)) + (math.exp(epsilon) - 1) * np.eye(cells)
        channel /= channel.sum(axis=1, keepdims=True)
        alpha = 0.8 / cells
        priors = alpha + (1 - cells * alpha) * np.eye(cells)
        leaked = max(np.log(channel.max(axis=0) / (prior @ channel)).max() for prior in priors)
        assert leaked <= pml_from_dp(epsilon, alpha) + 1e-12
        if cells == 2:
            assert leaked == pytest.approx(pml_from_dp(epsilon, alpha))


def enumerate_signs(R, scale, least):
    rest, worst = 1 - least.sum(), 0.0
    for signs in itertools.product([-1, 1], repeat=len(R)):
        c = np.array(signs) @ R / scale
        kept = least @ np.exp(c.min() - c) + rest * np.exp(c.min() - c.max())
        worst = max(worst, -math.log(kept))
    return worst


@given(seed=st.integers(0, 2**32 - 1), scale=st.floats(0.2, 5))
def test_extreme_outputs_by_enumeration_with_equal_and_constant_rows(seed, scale):
    rng = np.random.default_rng(seed)
    R = rng.integers(-2, 3, (4, 4)).astype(float)
    R = np.vstack([R, R[0], -R[1] + 2, R[0], np.full(4, 3.0)])
    least = rng.dirichlet(np.ones(4)) * 0.8
    value = extreme_output_leakage(R, scale=scale, alpha=least)
    assert value == pytest.approx(enumerate_signs(R, scale, least), rel=1e-12)
    assert value <= laplace_leakage_bound(R, scale=scale, alpha=least) + 1e-12


def test_equal_rows_may_be_at_opposite_extremes():
    # with all equal rows at the same extreme the leakage would be smaller on some strategy
    rng = np.random.default_rng(5)
    found = 0.0
    for _ in range(200):
        row, other = rng.integers(-3, 4, (2, 4)).astype(float)
        least = np.full(4, 0.1)
        together = enumerate_signs(np.array([2 * row, other]), 1.0, least)
        apart = enumerate_signs(np.array([row, row, other]), 1.0, least)
        merged = extreme_output_leakage([row, row, other], scale=1, alpha=0.1)
        assert merged == pytest.approx(apart, rel=1e-12)
        found = max(found, apart - together)
    assert found > 0.01


def test_many_equal_rows_are_cheap_and_many_distinct_ones_refused():
    R = np.repeat(np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 0.0]]), 500, axis=0)
    assert extreme_output_leakage(R, scale=500, alpha=0.1) > 0
    with pytest.raises(InvalidInputError, match="take Corollary 1"):
        extreme_output_leakage(np.eye(25), scale=1, alpha=0.01)
    assert extreme_output_leakage(np.ones((3, 3)), scale=1, alpha=0.1) == 0


@pytest.mark.parametrize("scale", [-1, math.inf, math.nan])
def test_scales_are_checked(scale):
    with pytest.raises(InvalidInputError, match="scale"):
        extreme_output_leakage(np.eye(2), scale=scale, alpha=0.1)


def test_distances_of_too_many_cells_are_refused_before_they_are_taken():
    with pytest.raises(InvalidInputError, match=r"30000 x 30000 entries .*fewer cells"):
        laplace_leakage_bound(np.ones((1, 30_000)), scale=1.0, alpha=1e-5)


def test_equal_cells_of_very_many_have_their_probabilities_together():
    """Two kinds of cells, of 0.1 and 0.2 at least: log 1/(a + (1 - a) e^(-1/b)) at a = 0.1."""
    matrix = (np.arange(30_000) < 10_000).astype(float)[None]
    scale = calibrate(matrix, PML(0.5, 1e-5), noise="laplace").scale
    assert scale == pytest.approx(-1 / math.log((math.exp(-0.5) - 0.1) / 0.9), rel=1e-6)
