import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from pmldesign.errors import InvalidInputError
from pmldesign.privacy import Noise, gaussian_error, laplace_error


def expected_error(L, *, noise, p, scale=1.0):
    if noise is Noise.LAPLACE:
        return laplace_error(L, p=p, scale=scale)
    return gaussian_error((L**2).sum(axis=1), p=p, scale=scale)


def laplace_moment(row, p):
    """E |sum a_j xi_j|^p for distinct a_j by partial fractions of the characteristic function.

    prod 1/(1 + a_j^2 t^2) = sum_j w_j / (1 + a_j^2 t^2): a signed mixture of Laplace(a_j).
    """
    with mpmath.workdps(60):
        a = [mpmath.mpf(abs(float(value))) for value in row]
        total = mpmath.mpf(0)
        for j, scale in enumerate(a):
            others = a[:j] + a[j + 1 :]
            weight = mpmath.fprod(scale**2 / (scale**2 - other**2) for other in others)
            total += weight * scale**p
        return total * mpmath.gamma(mpmath.mpf(p) + 1)


@pytest.mark.parametrize("p", [2, 2.001, 2.5, 3, 3.5, 3.999, 4, 7.7, 8, 20.3, 100, 101.5, 300.7])
@pytest.mark.parametrize("terms", [2, 3, 9])
def test_laplace_error_against_partial_fractions_in_60_digits(p, terms):
    rows = np.random.default_rng(terms).uniform(0.01, 1, (3, terms))
    exact = mpmath.fsum(laplace_moment(row, p) for row in rows) ** (1 / mpmath.mpf(p))
    assert laplace_error(rows, p=p) == pytest.approx(float(exact), rel=1e-13)


@pytest.mark.parametrize("p", [2.3, 5, 6])
def test_laplace_error_with_entries_of_very_different_size(p):
    row = [1.0, 1e-3, 1e-7]
    exact = laplace_moment(row, p) ** (1 / mpmath.mpf(p))
    assert laplace_error([row], p=p) == pytest.approx(float(exact), rel=1e-13)


@pytest.mark.parametrize("p", [2, 2.7, 3, 5.5, 8])
def test_laplace_error_of_one_and_two_terms_against_integration(p):
    one = quad(lambda z: z**p * math.exp(-z), 0, np.inf)[0]
    assert laplace_error([[0.7]], p=p) == pytest.approx(0.7 * one ** (1 / p), rel=1e-9)
    # xi_1 + xi_2 has density (1 + |z|) e^-|z| / 4
    two = 2 * quad(lambda z: z**p * (1 + z) * math.exp(-z) / 4, 0, np.inf)[0]
    assert laplace_error([[3.0, -3.0]], p=p) == pytest.approx(3 * two ** (1 / p), rel=1e-9)


@pytest.mark.parametrize("p", [2, 3, 3.5, 4, 8])
def test_laplace_error_against_simulation(p):
    rng = np.random.default_rng(20)
    L = rng.standard_normal((4, 6))
    draws = 400_000
    losses = (np.abs(rng.laplace(scale=0.3, size=(draws, 6)) @ L.T) ** p).sum(axis=1)
    exact = laplace_error(L, p=p, scale=0.3) ** p
    assert abs(losses.mean() - exact) < 4.5 * losses.std() / math.sqrt(draws)


@pytest.mark.parametrize("p", [2, 2.5, 3, 10, 64.5])
def test_gaussian_error_against_integration(p):
    moment = 2 * quad(lambda z: math.exp(p * math.log(z) - z * z / 2), 1e-300, 80, limit=200)[0]
    moment /= math.sqrt(2 * math.pi)
    exact = (moment * (1.5**p + 2**p)) ** (1 / p)
    assert gaussian_error([2.25, 4.0], p=p) == pytest.approx(exact, rel=1e-8)


def test_gaussian_moments_in_closed_form():
    # E z^2 = 1, E z^4 = 3, E z^6 = 15
    for p, moment in ((2, 1), (4, 3), (6, 15)):
        assert gaussian_error([1.0, 1.0], p=p) == pytest.approx((2 * moment) ** (1 / p), rel=1e-15)


def test_large_exponents_do_not_overflow():
    variances = np.array([1e200, 1e-200, 3e180])
    # (E |z|^1000)^(1/1000): log of 2^500 Gamma(500.5)/sqrt(pi)
    log_moment = 500 * math.log(2) + math.lgamma(500.5) - math.log(math.pi) / 2
    assert gaussian_error(variances, p=1000) == pytest.approx(1e100 * math.exp(log_moment / 1000))
    # E |b l xi|^p = (b l)^p p!
    assert laplace_error([[1e150]], p=100) == pytest.approx(
        1e150 * math.exp(math.lgamma(101) / 100)
    )
    rows = np.full((2, 50), 1e120)
    assert laplace_error(rows, p=100) == pytest.approx(1e120 * laplace_error(rows / 1e120, p=100))
    assert math.isfinite(laplace_error(rows, p=1000.5))


def test_the_error_is_continuous_where_the_formula_changes():
    rows = np.random.default_rng(3).standard_normal((5, 7))
    for p in (2, 4, 6, 16):
        above, at = laplace_error(rows, p=p + 1e-9), laplace_error(rows, p=p)
        assert above == pytest.approx(at, rel=1e-8)


def test_many_equal_terms_approach_gaussian_error():
    # kurtosis excess of a sum of r equal Laplace terms is 3/r
    rows = np.full((1, 1000), 1 / math.sqrt(2000))
    assert laplace_error(rows, p=4) ** 4 == pytest.approx(3 + 3 / 1000, rel=1e-12)
    assert laplace_error(rows, p=3) == pytest.approx(gaussian_error([1.0], p=3), rel=1e-3)


@given(
    seed=st.integers(0, 2**32 - 1),
    p=st.floats(2, 40),
    factor=st.floats(1e-6, 1e6),
    noise=st.sampled_from([Noise.GAUSSIAN, Noise.LAPLACE]),
)
def test_invariances(seed, p, factor, noise):
    rng = np.random.default_rng(seed)
    L = rng.standard_normal((4, 5)) * (rng.random((4, 5)) < 0.7)
    error = expected_error(L, noise=noise, p=p)
    signs = rng.choice([-1, 1], 5)
    same = expected_error((L * signs)[rng.permutation(4)], noise=noise, p=p)
    assert same == pytest.approx(error, rel=1e-12)
    scaled = expected_error(factor * L, noise=noise, p=p)
    assert scaled == pytest.approx(factor * error, rel=1e-12)
    assert expected_error(L, noise=noise, p=p, scale=factor) == pytest.approx(scaled, rel=1e-12)
    twice = expected_error(np.vstack([L, L]), noise=noise, p=p)
    assert twice == pytest.approx(2 ** (1 / p) * error, rel=1e-12)
    padded = expected_error(np.pad(L, ((0, 2), (0, 1))), noise=noise, p=p)
    assert padded == pytest.approx(error, rel=1e-12)


@pytest.mark.parametrize(("noise", "unit"), [("gaussian", 1.0), ("laplace", math.sqrt(2))])
def test_deviations_and_their_norms(noise, unit):
    L = np.array([[3.0, 4.0], [0.0, 1.0]])
    assert expected_error(L, noise=Noise(noise), p=math.inf, scale=2) == pytest.approx(10 * unit)
    squared = expected_error(L, noise=Noise(noise), p=2, scale=2)
    assert squared == pytest.approx(2 * unit * math.sqrt(26))


def test_nothing_to_reconstruct_has_no_error():
    for p in (2, 3, math.inf):
        assert gaussian_error([0.0], p=p) == laplace_error([[0.0, 0.0]], p=p) == 0


@pytest.mark.parametrize("p", [1.99, -2, math.nan])
def test_exponents_below_two_are_refused(p):
    for call in (lambda: gaussian_error([1.0], p=p), lambda: laplace_error([[1.0]], p=p)):
        with pytest.raises(InvalidInputError, match=r"p must be in \[2, inf\]"):
            call()


def test_other_arguments_are_checked():
    with pytest.raises(InvalidInputError, match="variances"):
        gaussian_error([1.0, -1.0], p=2)
    with pytest.raises(InvalidInputError, match="got nan at row 0, column 1"):
        laplace_error([[1.0, math.nan]], p=2)
    with pytest.raises(InvalidInputError, match="scale"):
        laplace_error([[1.0]], p=2, scale=-1)
    with pytest.raises(InvalidInputError, match="p must be at most 10000 or inf"):
        laplace_error([[1.0]], p=1e5)
    with pytest.raises(
        InvalidInputError, match="noise must be gaussian, laplace, cube, got 'cauchy'"
    ):
        Noise("cauchy")
