"""Statements of [SYG], A tight context-aware privacy bound for histogram publication."""

import numpy as np
import pytest
from exact_pml import extreme_priors, laplace_leakage_of_first
from leakages import laplace_leakage_bound, pml_from_dp


def by_quadratic(b, alpha):
    """Eq. (4)."""
    return 2 * (1 - alpha) / b + 2 * alpha**2 / b**2


def by_composition(b, alpha, cells):
    """Section IV: all counts but one, each of them a release."""
    return (cells - 1) * ((1 - alpha) / b + alpha**2 / (2 * b**2))


@pytest.mark.parametrize("cells", range(2, 51))
def test_theorem_4_is_corollary_1_of_the_histogram(cells):
    for scale in (0.3, 1.0, 20.0):
        for alpha in (1 / cells, 0.3 / cells, 1e-9):
            closed = pml_from_dp(2 / scale, alpha)
            assert laplace_leakage_bound(np.eye(cells), scale=scale, alpha=alpha) == pytest.approx(
                closed, rel=1e-12
            )
            direct = 2 / scale - np.log(1 - alpha + alpha * np.exp(2 / scale))
            assert closed == pytest.approx(direct, rel=1e-11)


def test_theorem_4_is_attained_by_one_record_of_least_probability():
    for cells, scale in ((2, 1.0), (3, 0.5), (4, 2.0)):
        prior = extreme_priors(np.full(cells, 0.1))[-1:]
        value = laplace_leakage_of_first(np.eye(cells), prior, np.eye(cells), scale).max()
        assert value == pytest.approx(pml_from_dp(2 / scale, 0.1), rel=1e-12)


@pytest.mark.parametrize("scale", [0.2, 1.0, 5.0, 100.0])
@pytest.mark.parametrize("alpha", [1e-6, 0.05, 0.2, 0.33])
def test_equation_4_and_composition_are_looser_from_three_cells_on(scale, alpha):
    tight = pml_from_dp(2 / scale, alpha)
    assert tight <= by_quadratic(scale, alpha)
    for cells in range(3, int(1 / alpha) + 1 if alpha > 0.01 else 20):
        assert tight <= by_composition(scale, alpha, cells=cells)


def test_bounds_in_closed_form():
    # b = 2, alpha = 1/10: 2 (9/10)/2 + 2/100/4 and 4 ((9/10)/2 + 1/100/8)
    assert by_quadratic(2, 0.1) == pytest.approx(0.905)
    assert by_composition(2, 0.1, cells=5) == pytest.approx(1.805)


def test_composition_of_one_count_is_below_the_leakage_of_two():
    # two cells, both counts released: the leakage reached exceeds the bound printed for k - 1 = 1
    prior = np.array([[0.1, 0.9]])
    value = laplace_leakage_of_first(np.eye(2), prior, np.eye(2), 1.0).max()
    assert value == pytest.approx(1.506, abs=5e-4)
    assert by_composition(1.0, 0.1, cells=2) == pytest.approx(0.905)
    # with one count released it holds
    one = laplace_leakage_of_first(np.eye(2)[:1], prior, np.array([[0.0], [1.0]]), 1.0).max()
    assert one <= by_composition(1.0, 0.1, cells=2)
