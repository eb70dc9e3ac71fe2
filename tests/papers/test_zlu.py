"""Statements of [ZLU], Optimality of matrix mechanism on l_p^p-metric, by direct computation."""

import itertools
import math

import mpmath
import numpy as np
import pytest

from pmldesign.calibration import analytic_gaussian_scale, classical_gaussian_scale


def width(A, theta):
    """max - min of theta^T A x over the vertices of the l1 ball."""
    values = np.concatenate([theta @ A, -(theta @ A)])
    return values.max() - values.min()


def test_lemma_2_14_fails_for_two_prefix_sums():
    theta = np.array([2, -1]) / math.sqrt(5)
    assert width(np.tril(np.ones((2, 2))), theta) == pytest.approx(2 / math.sqrt(5))
    assert width(np.tril(np.ones((2, 2))), theta) < 0.9


@pytest.mark.parametrize("n", range(1, 13))
def test_kappa_of_the_prefix_sums(n):
    A = np.tril(np.ones((n, n)))
    # kappa = 2 / max{||theta|| : |A^T theta| <= 1}; the norm is convex: enumerate the vertices
    vertices = np.array(list(itertools.product([-1.0, 1.0], repeat=n)))
    thetas = np.linalg.solve(A.T, vertices.T).T
    kappa = 2 / np.linalg.norm(thetas, axis=1).max()
    assert kappa == pytest.approx(2 / math.sqrt(4 * n - 3), rel=1e-12)
    best = thetas[np.linalg.norm(thetas, axis=1).argmax()]
    assert width(A, best / np.linalg.norm(best)) == pytest.approx(kappa, rel=1e-12)
    for theta in np.random.default_rng(n).standard_normal((200, n)):
        assert width(A, theta / np.linalg.norm(theta)) >= kappa - 1e-12


def test_theorem_2_1_case_1_needs_15_over_128():
    # w = 1; Var at its limit 1/(256 d): the printed constant is not below what is proved
    for d in np.linspace(1e-6, 1 / 16, 50):
        proved = (0.5 - 2 * d) / 2 - 17 / 8 * math.sqrt(d / (256 * d))
        assert proved == pytest.approx(15 / 128 - d, rel=1e-12)
        assert proved < (1 - 8 * d) / 8 - 0.007


@pytest.mark.parametrize(("p", "m", "n"), [(3, 4, 4), (4, 100, 20), (8, 5, 50)])
def test_theorem_2_1_exponents(p, m, n):
    # 3 d ||E z||_2 <= w/4 with ||E z||_2 = gamma m^((p-2)/(2p)) / eps, for w = gamma = eps = 1
    bias = m ** ((p - 2) / (2 * p))
    needed = m ** ((2 - p) / (2 * p)) / 12
    assert 3 * needed * bias == pytest.approx(1 / 4)
    for printed in (n ** (1 - 2 / p) / 12, n ** ((p - 2) / (2 * p)) / 12):
        assert 3 * printed * bias > 1 / 4
    # ||z||_2 <= m^(1/2 - 1/p) ||z||_p, with equality for constant vectors: the power is attained
    z = np.full(m, 0.3)
    assert np.linalg.norm(z) == pytest.approx(bias * np.linalg.norm(z, p))


def exact_delta(scale, epsilon):
    """Phi(1/2s - eps s) - e^eps Phi(-1/2s - eps s) in 50 digits."""
    with mpmath.workdps(50):
        s, e = mpmath.mpf(scale), mpmath.mpf(epsilon)
        above = mpmath.erfc((e * s - 1 / (2 * s)) / mpmath.sqrt(2)) / 2
        return above - mpmath.exp(e) * mpmath.erfc((e * s + 1 / (2 * s)) / mpmath.sqrt(2)) / 2


def classical(epsilon, delta):
    return math.sqrt(9 * math.log(1 / delta) / (2 * epsilon**2))


def test_lemma_a_12_fails_for_delta_near_one():
    assert classical(1, 0.999) == pytest.approx(0.0671, abs=5e-5)
    assert exact_delta(classical(1, 0.999), 1) > 1 - 1e-12
    assert exact_delta(classical(0.1, 0.999999), 0.1) > 0.999999


def test_lemma_a_12_does_not_extend_to_larger_epsilon():
    assert float(exact_delta(classical(30, 0.1), 30)) == pytest.approx(0.908, abs=5e-4)
    assert exact_delta(classical(20, 0.1), 20) > 0.1


def test_lemma_a_12_holds_where_it_is_offered():
    for epsilon in np.geomspace(1e-4, 1, 15):
        for delta in [*np.geomspace(1e-200, 1e-3, 12), 0.05, 0.2, 0.5]:
            scale = classical_gaussian_scale(1.0, epsilon=epsilon, delta=delta)
            assert scale == pytest.approx(classical(epsilon, delta))
            assert exact_delta(scale, epsilon) <= delta
            assert analytic_gaussian_scale(1.0, epsilon=epsilon, delta=delta) < scale
