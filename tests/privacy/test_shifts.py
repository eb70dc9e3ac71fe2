"""What a guarantee says about one step of additive noise, by enumeration and by counterexample."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from leakages import laplace_leakage_bound

from pmldesign.error_bounds import least_deviation
from pmldesign.privacy import PML, ApproxDP, ApproxPML, EnvelopePML, PureDP


def worst_prior_mixture(P, alpha):
    """min over priors of P_Y(E), for every event; P has events in its columns."""
    free = 1 - alpha.sum()
    return alpha @ P + free * P.min(axis=0)


@given(st.integers(2, 4), st.integers(0, 2**32 - 1), st.floats(0.05, 0.9), st.booleans())
def test_one_record_every_event(k, seed, share, envelope):
    """The least delta of slack (or of an envelope) of a random channel, then its DP parameters."""
    generator = np.random.default_rng(seed)
    alpha = share * generator.dirichlet(np.full(k, 5.0))
    channel = generator.dirichlet(np.full(4, 2.0), size=k)
    members = (np.arange(16)[:, None] >> np.arange(4) & 1).T
    P = channel @ members  # P_r(E) for all 16 events
    epsilon = generator.uniform(0.05, 0.9) * -math.log(alpha.min())
    least = worst_prior_mixture(P, alpha)
    if envelope:
        # every event with P_r(E) > e^eps P_Y(E) for some prior: the largest P_Y(E) over priors
        # for which it is so is at most the largest P_Y(E) at all
        bad = (math.exp(epsilon) * least < P).any(axis=0)
        delta = P.max(axis=0)[bad].max(initial=1e-12)
        assume(delta < 1)
        found = EnvelopePML(epsilon, delta, tuple(alpha)).shifts(k)
    else:
        delta = max((P - math.exp(epsilon) * least).max(), 1e-12)
        assume(delta < 1)
        found = ApproxPML(epsilon, delta, tuple(alpha)).shifts(k)
    if found is not None:
        pairs = P[:, None, :] - math.exp(found.epsilon) * P[None, :, :]
        assert pairs.max() <= found.delta + 1e-12


@pytest.mark.parametrize(("epsilon", "alpha"), [(0.5, 0.1), (1.0, 0.05), (0.2, 0.3)])
def test_two_far_laplace_columns_attain_it(epsilon, alpha):
    # two classes at distance 1, one record: e^-eps = alpha + (1 - alpha) e^(-1/b) exactly
    found = PML(epsilon, alpha).shifts(2)
    b = 1 / -math.log((math.exp(-epsilon) - alpha) / (1 - alpha))
    assert laplace_leakage_bound(np.array([[0.0, 1.0]]), scale=b, alpha=alpha) == pytest.approx(
        epsilon
    )
    assert found.epsilon == pytest.approx(1 / b, rel=1e-12)
    assert found.epsilon >= 1 / b
    assert found.delta == 0


def test_dp_is_what_it_says():
    assert PureDP(0.7).shifts(5).epsilon == 0.7
    found = ApproxDP(0.7, 1e-3).shifts(5)
    assert (found.epsilon, found.delta) == (0.7, 1e-3)


@pytest.mark.parametrize(
    "guarantee",
    [
        PML(2.31, 0.1),  # above log(1/alpha): every mechanism satisfies it
        PML(0.2, 0.1),  # alpha = 1/k: e^eps alpha (k - 1) = 0.9 e^0.2 > 1
        ApproxPML(0.1, 0.9, 0.09),  # implied delta 0.9/(1 - 0.81 e^0.1) > 1
    ],
)
def test_guarantees_that_bound_no_step(guarantee):
    assert guarantee.shifts(10) is None


def leakage_of_a_count(records, alpha, spread, rate):
    """Leakage about one of n records of the number in class 1, plus noise z on the whole numbers.

    z is 0 with probability 1 - spread, else two-sided geometric. P(y | d)/P(y) is linear-fractional
    in the prior of each other record, so its maximum has each at an end, alpha or 1 - alpha.
    Beyond the outputs -1 ... n + 1 the ratios no longer change.
    """
    i = np.arange(-records - 2, records + 3)
    noise = spread * np.exp(-rate * np.abs(i)) * math.tanh(rate / 2)
    noise[records + 2] += 1 - spread
    worst = 0.0
    for high in range(records):
        others = np.ones(1)
        for index in range(records - 1):
            q = 1 - alpha if index < high else alpha
            others = np.convolve(others, [1 - q, q])
        answers = np.convolve(others, noise)
        inside = slice(records + 1, 2 * records + 4)
        without, with_it = np.append(answers, 0)[inside], np.insert(answers, 0, 0)[inside]
        for given_record, other in ((without, with_it), (with_it, without)):
            mixture = alpha * given_record + (1 - alpha) * other
            worst = max(worst, float((given_record / mixture).max()))
    return math.log(worst)


def test_pml_for_one_number_of_records_does_not_imply_dp():
    """Among 60 records the others hide the one, and less noise than the bound will do."""
    alpha, epsilon, spread, rate = 0.3, 0.6, 0.03, 0.3
    step = PML(epsilon, alpha).shifts(2)
    # variance of the two-sided geometric law, 1/(2 sinh^2(rate/2))
    deviation = math.sqrt(spread / 2) / math.sinh(rate / 2)
    assert leakage_of_a_count(60, alpha, spread, rate) <= epsilon
    assert deviation < 0.7 * least_deviation(step.epsilon, step.delta)
    # the same noise leaks too much about a single record, which the bound speaks of
    assert leakage_of_a_count(1, alpha, spread, rate) > epsilon
    # geometric noise that serves one record serves sixty, and meets the bound with equality
    assert leakage_of_a_count(1, alpha, 1.0, step.epsilon) == pytest.approx(epsilon, rel=1e-9)
    assert leakage_of_a_count(60, alpha, 1.0, step.epsilon) <= epsilon + 1e-9
