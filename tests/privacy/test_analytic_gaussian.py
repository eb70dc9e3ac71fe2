import itertools
import math

import mpmath
import numpy as np
import pytest
from dp_accounting.gaussian_mechanism import get_sigma_gaussian
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from pmldesign.errors import InvalidInputError
from pmldesign.privacy import (
    analytic_gaussian_scale,
    classical_gaussian_scale,
    gaussian_delta,
    gaussian_profile,
    laplace_scale,
)


def exact_delta(sensitivity, scale, epsilon):
    with mpmath.workdps(60):
        D, s, e = (mpmath.mpf(value) for value in (sensitivity, scale, epsilon))
        upper = mpmath.erfc((e * s / D - D / (2 * s)) / mpmath.sqrt(2)) / 2
        lower = mpmath.erfc((e * s / D + D / (2 * s)) / mpmath.sqrt(2)) / 2
        return upper - mpmath.exp(e) * lower


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.5, 1, 10, 100, 1000])
@pytest.mark.parametrize("delta", [1e-300, 1e-100, 1e-12, 1e-3, 0.5, 0.99])
@pytest.mark.parametrize("sensitivity", [1, 0.3, 7e-5])
def test_scale_is_the_private_end_in_60_digits(epsilon, delta, sensitivity):
    scale = analytic_gaussian_scale(sensitivity, epsilon=epsilon, delta=delta)
    # of smaller epsilon delta is a difference that double precision rounds by more
    smaller = scale / (1 + (1e-9 if epsilon >= 1e-3 else 1e-6))
    assert (
        exact_delta(sensitivity, scale, epsilon)
        <= delta
        < exact_delta(sensitivity, smaller, epsilon)
    )
    assert gaussian_delta(sensitivity, scale, epsilon) <= delta
    assert gaussian_delta(sensitivity, smaller, epsilon) > delta


@given(log_epsilon=st.floats(-6, 3), log_ratio=st.floats(-7, 3))
def test_profile_is_an_upper_bound_within_its_rounding(log_epsilon, log_ratio):
    epsilon, ratio = 10**log_epsilon, 10**log_ratio
    exact = exact_delta(ratio, 1.0, epsilon)
    bound = float(gaussian_profile(ratio, epsilon))
    assert exact <= bound <= exact * (1 + 1e-5) + 1e-300


@pytest.mark.parametrize(("ratio", "epsilon"), [(0.5, 0.1), (1, 1), (3, 0.5), (4, 3)])
def test_profile_against_integration(ratio, epsilon):
    def excess(z):
        return max(math.exp(-z * z / 2) - math.exp(epsilon - (z - ratio) ** 2 / 2), 0.0)

    crossing = ratio / 2 - epsilon / ratio
    value = quad(excess, -40, crossing)[0] / math.sqrt(2 * math.pi)
    assert float(gaussian_profile(ratio, epsilon)) == pytest.approx(value, rel=1e-8)


def test_scale_is_on_the_private_side_of_dp_accounting():
    grid = itertools.product(
        [1e-3, 1e-2, 0.1, 0.5, 1, 3, 8, 20], [1e-12, 1e-9, 1e-6, 1e-3, 0.1, 0.5]
    )
    for epsilon, delta in grid:
        ours = analytic_gaussian_scale(1.0, epsilon=epsilon, delta=delta)
        theirs = get_sigma_gaussian(epsilon, delta)
        assert theirs * (1 - 1e-9) <= ours <= theirs * (1 + 1e-9)
        assert exact_delta(1.0, ours, epsilon) <= delta


def test_scale_is_proportional_to_sensitivity_and_monotone():
    base = analytic_gaussian_scale(1.0, epsilon=1, delta=1e-6)
    assert analytic_gaussian_scale(1e8, epsilon=1, delta=1e-6) == pytest.approx(
        1e8 * base, rel=1e-6
    )
    assert analytic_gaussian_scale(1.0, epsilon=1.1, delta=1e-6) < base
    assert analytic_gaussian_scale(1.0, epsilon=1, delta=2e-6) < base


def test_profile_is_increasing_and_has_its_limits():
    ratios = np.geomspace(1e-200, 1e200, 4001)
    for epsilon in (0, 1e-6, 1, 700):
        values = gaussian_profile(ratios, epsilon)
        assert (np.diff(values) >= 0).all()
        assert values[0] < 1e-15
        assert values[-1] == 1
    assert gaussian_profile(0.0, 1) == 0


def test_without_sensitivity_no_noise_is_needed_and_without_noise_nothing_is_private():
    assert analytic_gaussian_scale(0, epsilon=1, delta=1e-6) == 0
    assert laplace_scale(0, epsilon=1) == 0
    assert classical_gaussian_scale(0, epsilon=1, delta=0.1) == 0
    assert gaussian_delta(0, 0, 1) == 0
    assert gaussian_delta(1, 0, 1) == 1


@given(sensitivity=st.floats(1e-300, 1e300), epsilon=st.floats(1e-6, 1e3))
def test_laplace_scale_is_rounded_to_the_private_side(sensitivity, epsilon):
    scale = laplace_scale(sensitivity, epsilon=epsilon)
    assert sensitivity / scale <= epsilon
    assert sensitivity / (scale * (1 - 1e-15)) > epsilon


def test_classical_rule_is_never_better_and_only_for_epsilon_up_to_one():
    for epsilon, delta in itertools.product([1e-3, 0.1, 1], [1e-10, 1e-5, 0.1, 0.5]):
        classical = classical_gaussian_scale(2.0, epsilon=epsilon, delta=delta)
        assert classical > analytic_gaussian_scale(2.0, epsilon=epsilon, delta=delta)
        # s^2 = 9 D^2 log(1/delta) / (2 eps^2)
        assert classical**2 == pytest.approx(18 * math.log(1 / delta) / epsilon**2)
    with pytest.raises(InvalidInputError, match="use analytic_gaussian_scale"):
        classical_gaussian_scale(1.0, epsilon=1.01, delta=1e-5)
    with pytest.raises(InvalidInputError, match=r"delta must be in \(0, 0\.5\]"):
        classical_gaussian_scale(1.0, epsilon=1, delta=0.51)


@pytest.mark.parametrize("bad", [{"epsilon": 0}, {"epsilon": math.nan}, {"delta": 0}, {"delta": 1}])
def test_parameters_out_of_range(bad):
    with pytest.raises(InvalidInputError, match=next(iter(bad))):
        analytic_gaussian_scale(1.0, **{"epsilon": 1, "delta": 0.1, **bad})
    with pytest.raises(InvalidInputError, match="sensitivity"):
        analytic_gaussian_scale(-1.0, epsilon=1, delta=0.1)
