"""Least variances against linear programs, numerical minimisation and explicit distributions."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog, minimize_scalar

from pmldesign.error_bounds import least_deviation, staircase_deviation, total_variation_deviation
from pmldesign.errors import InvalidInputError
from pmldesign.privacy import analytic_gaussian_scale

EPSILONS = st.floats(0.02, 6)
DELTAS = st.floats(1e-9, 0.95)


def least_variance_by_program(epsilon, delta, *, half, offsets):
    """min E x^2 over the laws on the cosets c + Z, c in `offsets`; both excesses at most delta."""
    lattice = np.arange(-half, half + 1)
    x = np.concatenate([lattice + c for c in offsets])
    size, count = lattice.size, x.size
    growth = math.exp(epsilon)
    blocks = sparse.eye(len(offsets))
    right = sparse.kron(blocks, sparse.eye(size) - growth * sparse.eye(size, k=1))
    left = sparse.kron(blocks, sparse.eye(size) - growth * sparse.eye(size, k=-1))
    none, one = sparse.csr_array((count, count)), sparse.eye(count)
    zeros, ones = np.zeros((1, count)), np.ones((1, count))
    found = linprog(
        np.concatenate([x**2, np.zeros(2 * count)]),
        A_ub=sparse.vstack(
            [
                sparse.hstack([right, -one, none]),
                sparse.hstack([left, none, -one]),
                sparse.csr_array(np.hstack([zeros, ones, zeros])),
                sparse.csr_array(np.hstack([zeros, zeros, ones])),
            ]
        ),
        b_ub=np.concatenate([np.zeros(2 * count), [delta, delta]]),
        A_eq=sparse.csr_array(np.hstack([ones, zeros, zeros])),
        b_eq=[1.0],
    )
    return found.fun


@pytest.mark.sweep
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("delta", [1e-4, 0.01, 0.1, 0.3, 0.6, 0.9])
def test_least_variance_is_the_value_of_the_linear_program(epsilon, delta):
    offsets = np.arange(-20, 20) / 40
    value = least_variance_by_program(epsilon, delta, half=25, offsets=offsets)
    bound = least_deviation(epsilon, delta) ** 2
    # cosets 1/40 apart: a law centred up to 1/80 beside its mean costs 1/6400 more
    assert bound <= value * (1 + 1e-7)
    assert value <= bound + 1 / 6400 + 1e-6 * bound


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 5.0])
def test_without_delta_it_is_the_two_sided_geometric_law(epsilon):
    i = np.arange(-int(60 / epsilon) - 60, int(60 / epsilon) + 61)
    law = np.exp(-epsilon * np.abs(i))
    variance = (law * i.astype(float) ** 2).sum() / law.sum()
    assert least_deviation(epsilon) == pytest.approx(math.sqrt(variance), rel=3e-9)
    assert least_deviation(epsilon) < math.sqrt(variance)
    assert least_deviation(epsilon, 1e-300) == pytest.approx(least_deviation(epsilon), rel=1e-9)


@pytest.mark.parametrize("points", [1, 2, 3, 10, 57])
def test_without_epsilon_it_is_the_uniform_law(points):
    # k equally likely whole numbers: total variation 1/k with their shift, variance (k^2 - 1)/12
    expected = math.sqrt((points**2 - 1) / 12)
    delta = 1 / points if points > 1 else 1 - 1e-12
    assert least_deviation(1e-9, delta) == pytest.approx(expected, rel=1e-6, abs=1e-5)


@given(EPSILONS, st.floats(-9, 0), st.floats(0, 1), st.integers(0, 40), st.integers(0, 40))
def test_truncated_geometric_noise_is_never_better(epsilon, rate, mix, a, b):
    """P on -b ... a with ratios e^rate, mixed with its mirror image."""
    i = np.arange(-b, a + 1)
    law = np.exp(rate * np.abs(i))
    law /= law.sum()
    variance = law @ i.astype(float) ** 2 - (law @ i) ** 2
    ends = np.pad(law, 1)
    right = np.maximum(ends[:-1] - math.exp(epsilon) * ends[1:], 0).sum()
    left = np.maximum(ends[1:] - math.exp(epsilon) * ends[:-1], 0).sum()
    delta = max(mix * right + (1 - mix) * left, mix * left + (1 - mix) * right)
    if delta < 1:
        assert least_deviation(epsilon, delta) <= math.sqrt(max(variance, 0)) + 1e-9


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.3, 1.0, 5.0, 50.0])
@pytest.mark.parametrize("bits", [1, 2, 10, 24, 30, 40, 47, 50, 51, 52, 53])
def test_close_to_delta_one_it_is_noise_on_three_points(epsilon, bits):
    """With probability 2 (1 - delta) an equal mixture of (1, w)/(1 + w) and its mirror, mean 0.

    Each half has variance w/(1 + w)^2, and its excess over the two directions is 1/(1 + w) and
    w/(1 + w); without noise it is 1. So delta is reached exactly.
    """
    delta = 1 - 2.0**-bits
    with mpmath.workdps(50):
        w = mpmath.exp(-mpmath.mpf(epsilon))
        share = 2 * mpmath.mpf(2) ** -bits
        assert mpmath.almosteq(share * (1 + w) / (1 + w) / 2 + 1 - share, mpmath.mpf(delta))
        reached = mpmath.sqrt(share * w) / (1 + w)
        assert (1 - 2e-9) * reached <= least_deviation(epsilon, delta) <= reached


@pytest.mark.sweep
@pytest.mark.parametrize("delta", [5e-324, 1e-310, 0.5])
@pytest.mark.parametrize("epsilon", [5e-324, 1e-310, 1e-160])
def test_tiny_products_of_epsilon_and_delta(epsilon, delta):
    # tau_n = (e^(n eps) - 1 + 2 d_n)/(e^(n eps) + 1) in 50 digits, on a grid of n up to 1e300,
    # fine about the best of a coarse one
    value = total_variation_deviation(epsilon, delta)
    assert 0 <= least_deviation(epsilon, delta) < math.inf
    with mpmath.workdps(50):
        e = mpmath.mpf(epsilon)

        def deviation(i):
            n = mpmath.floor(mpmath.mpf(10) ** (i / 8))
            growth = mpmath.expm1(n * e)
            tau = (growth + 2 * delta * growth / mpmath.expm1(e)) / (growth + 2)
            return 0 if tau >= 1 or n * e > 20 else n * mpmath.sqrt((1 - tau) / tau) / 2

        near = max(range(0, 2401, 12), key=deviation)
        best = max(map(deviation, range(max(near - 12, 0), min(near + 13, 2401))))
        assert value == pytest.approx(min(float(best), 1e307), rel=0.02)


@given(EPSILONS, DELTAS)
def test_order_of_the_bounds(epsilon, delta):
    least = least_deviation(epsilon, delta)
    assert total_variation_deviation(epsilon, delta) <= least
    assert least <= least_deviation(epsilon) < staircase_deviation(epsilon)
    assert least < analytic_gaussian_scale(1, epsilon=epsilon, delta=delta)
    assert staircase_deviation(epsilon) < math.sqrt(2) / epsilon  # Laplace noise
    assert least_deviation(epsilon * 1.1, delta) <= least
    assert least_deviation(epsilon, min(1.1 * delta, 0.99)) <= least


@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 1e-3), (0.3, 1e-4), (1.0, 0.02)])
def test_groups_of_steps_cost_little(monkeypatch, epsilon, delta):
    direct = least_deviation(epsilon, delta)
    monkeypatch.setattr("pmldesign.error_bounds.one_dimensional.TABLE", 60)
    grouped = least_deviation(epsilon, delta)
    assert 0.8 * direct < grouped <= direct


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 3.0, 8.0])
def test_staircase_variance_by_numerical_minimisation(epsilon):
    """Density e^(-k eps) on [k, k + g), e^(-(k+1) eps) on [k + g, k + 1), symmetric."""
    k = np.arange(int(50 / epsilon) + 2)
    weight = np.exp(-epsilon * k)

    def variance(g):
        mass = weight * (g + (1 - g) * math.exp(-epsilon))
        inner, outer = (k + g) ** 3 - k**3, (k + 1.0) ** 3 - (k + g) ** 3
        return (weight * (inner + outer * math.exp(-epsilon)) / 3).sum() / mass.sum()

    best = minimize_scalar(variance, bounds=(0, 1), method="bounded", options={"xatol": 1e-10})
    assert staircase_deviation(epsilon) ** 2 == pytest.approx(best.fun, rel=1e-8)


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_staircase_by_a_linear_program_over_all_shifts(epsilon):
    """Densities constant on cells of width 1/q: private for every real shift up to 1."""
    parts = 12
    half = parts * math.ceil(14 / epsilon + 2)
    x = np.arange(-half, half + 1) / parts
    one = sparse.eye(x.size, format="csr")
    growth = math.exp(epsilon)
    pairs = [one[:-s] - growth * one[s:] for s in range(1, parts + 1)]
    pairs += [one[s:] - growth * one[:-s] for s in range(1, parts + 1)]
    rules = sparse.vstack(pairs)
    found = linprog(
        x**2, A_ub=rules, b_ub=np.zeros(rules.shape[0]), A_eq=np.ones((1, x.size)), b_eq=[1.0]
    )
    # the program sees the centres of the cells; uniform on a cell adds 1/(12 q^2). Cutting off
    # the tails at e^-14 is worth less than 1e-3
    variance = found.fun + 1 / (12 * parts**2)
    assert staircase_deviation(epsilon) ** 2 <= variance + 1e-3
    assert variance <= 1.02 * staircase_deviation(epsilon) ** 2
    assert least_deviation(epsilon) ** 2 < variance


@given(st.integers(2, 7), st.integers(0, 2**32 - 1), st.floats(0.05, 2))
def test_total_variation_of_explicit_pairs(size, seed, epsilon):
    """Any P, Q: the least delta at epsilon gives tau <= (e^eps - 1 + 2 delta)/(e^eps + 1)."""
    generator = np.random.default_rng(seed)
    p, q = generator.dirichlet(np.full(size, 0.5), 2)
    delta = max(
        np.maximum(p - math.exp(epsilon) * q, 0).sum(),
        np.maximum(q - math.exp(epsilon) * p, 0).sum(),
    )
    tau = np.abs(p - q).sum() / 2
    assert tau <= (math.exp(epsilon) - 1 + 2 * delta) / (math.exp(epsilon) + 1) + 1e-12
    # equal variances a/2 apart from the midpoint: tau >= a^2/(a^2 + 4 s^2), with s^2 their mean
    x = generator.standard_normal(size)
    a = p @ x - q @ x
    centred = x - (p @ x + q @ x) / 2
    mean_variance = (p @ centred**2 + q @ centred**2) / 2 - a**2 / 4
    assert tau * (a**2 + 4 * mean_variance) >= a**2 - 1e-12


def test_total_variation_bound_is_attained_by_two_point_laws():
    # mass 1 - tau at 0 in both, mass tau at +-c: means +-tau c, variance tau (1 - tau) c^2
    for tau, c in ((0.1, 1.0), (0.5, 2.0)):
        a, variance = 2 * tau * c, tau * (1 - tau) * c**2
        assert tau == pytest.approx(a**2 / (a**2 + 4 * variance))


def test_total_variation_for_small_epsilon():
    # n = x/eps: x sqrt((1 - tau)/(4 tau)) with tau = (e^x - 1)/(e^x + 1) is x / sqrt(2 (e^x - 1))
    x = np.linspace(0.1, 5, 100001)
    best = (x / np.sqrt(2 * np.expm1(x))).max()
    assert best == pytest.approx(0.569, abs=5e-4)
    assert 1e-4 * total_variation_deviation(1e-4) == pytest.approx(best, rel=1e-4)
    for epsilon in (1e-14, 1e-17, 1e-100, 1e-300):  # where 1 - 2/(1 + e^eps) has no digits
        assert 0.9 * best <= epsilon * total_variation_deviation(epsilon) <= best


@pytest.mark.parametrize("function", [least_deviation, total_variation_deviation])
def test_extreme_and_wrong_arguments(function):
    assert 0 <= function(1000.0, 1e-300) < 1e-60
    assert function(1e-300, 0.5) == pytest.approx(function(1e-9, 0.5), rel=1e-6)
    assert function(5e-7, 1e-9) > 1e5
    for epsilon, delta in ((0, 0.1), (math.nan, 0.1), (1, 1), (1, -0.1), (1, math.nan)):
        with pytest.raises(InvalidInputError):
            function(epsilon, delta)
