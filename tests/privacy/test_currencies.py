"""zCDP, Gaussian DP and Renyi DP: against integrals, dp-accounting and brute force."""

import itertools
import json
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_mechanism as pld
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from scipy.special import ndtr, ndtri

import pmldesign as pml
from pmldesign.privacy import Noise, PrivacyCurve, curve_of, from_json

RATIOS = [1e-3, 0.04, 0.06, 0.3, 1.0, 2.7, 9.0]
ORDERS = [1.001, 1.5, 2.0, 8.0, 64.0]
CLOSE = 1e-9


def renyi_by_integration(noise, ratio, order):
    """log of the integral of p^a q^(1-a), divided by a - 1, with 40 digits."""
    with mpmath.workdps(40):
        t, a = mpmath.mpf(ratio), mpmath.mpf(order)
        if noise is Noise.GAUSSIAN:
            density = mpmath.npdf
            points = [-40 - 70 * t, 0, t, (1 - a) * t, 40 + 70 * t]
        else:
            density = lambda z: mpmath.exp(-abs(z)) / 2  # noqa: E731
            points = [-120, 0, t, 120 + 0 * t]
        moment = mpmath.quad(
            lambda z: density(z) ** a * density(z - t) ** (1 - a), sorted(set(points))
        )
        return mpmath.log(moment) / (a - 1)


@pytest.mark.parametrize("ratio", [0.04, 0.3, 1.0, 2.7])
@pytest.mark.parametrize("order", [1.5, 2.0, 8.0])
def test_renyi_divergence_is_the_integral(ratio, order):
    curve = PrivacyCurve(Noise.LAPLACE, ratio)
    exact = renyi_by_integration(Noise.LAPLACE, ratio, order)
    assert exact <= curve.renyi(order) <= exact * (1 + 1e-10) + 1e-14


@pytest.mark.parametrize("ratio", RATIOS)
def test_rho_of_laplace_is_the_largest_divergence_over_its_order(ratio):
    rho = PrivacyCurve(Noise.LAPLACE, ratio).rho
    with mpmath.workdps(60):
        t = mpmath.mpf(ratio)

        def over_order(a):
            moment = a * mpmath.exp((a - 1) * t) + (a - 1) * mpmath.exp(-a * t)
            return mpmath.log(moment / (2 * a - 1)) / (a - 1) / a

        orders = [1 + mpmath.mpf(10) ** k for k in range(-12, 6)]
        values = [over_order(a) for a in orders]
        assert all(later <= earlier for earlier, later in itertools.pairwise(values))
        assert max(values) <= rho
        assert rho == pytest.approx(float(values[0]), rel=1e-9)
        exact = t + mpmath.exp(-t) - 1
        assert exact <= rho <= exact * (1 + 1e-13)


@pytest.mark.parametrize("ratio", RATIOS)
def test_mu_of_laplace_is_the_steepest_trade_off(ratio):
    """The test of level a at x against x + t: power e^t a, 1 - e^-t/(4 a), 1 - e^-t (1 - a)."""
    levels = np.geomspace(1e-12, 0.5, 4001)
    power = np.where(
        levels < math.exp(-ratio) / 2,
        math.exp(ratio) * levels,
        1 - math.exp(-ratio) / (4 * levels),
    )
    largest = np.max(ndtri(power) - ndtri(levels))
    best = optimize.minimize_scalar(
        lambda log: ndtri(math.exp(log)) - ndtri(1 - math.exp(-ratio - log) / 4),
        bounds=(-ratio - math.log(2), -math.log(2)),
        method="bounded",
        options={"xatol": 1e-12},
    )
    mu = PrivacyCurve(Noise.LAPLACE, ratio).mu
    assert mu >= max(largest, -best.fun) - 1e-12
    assert mu == pytest.approx(-best.fun, rel=1e-9)


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.5, 1.0, 3.0])
def test_delta_agrees_with_dp_accounting(ratio, epsilon):
    for noise, loss in (
        (Noise.GAUSSIAN, pld.GaussianPrivacyLoss(1.0, sensitivity=ratio)),
        (Noise.LAPLACE, pld.LaplacePrivacyLoss(1.0, sensitivity=ratio)),
    ):
        delta = PrivacyCurve(noise, ratio).delta(epsilon)
        said = loss.get_delta_for_epsilon(epsilon)
        assert delta >= said - 1e-15
        assert delta == pytest.approx(said, abs=CLOSE)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("ratio", [0.06, 0.3, 2.7])
def test_the_event_of_a_mechanism_has_the_losses_that_it_says(noise, ratio):
    strategy = np.array([[1.0, 0.5], [0.0, 0.5]])
    epsilon = {"gaussian": pml.GaussianDP(ratio), "laplace": pml.PureDP(ratio)}[noise]
    noisy = pml.mechanism(strategy, "prefix:2", guarantee=epsilon, noise=noise)
    event, curve = noisy.dp_event(), noisy.privacy
    accountant = RdpAccountant(ORDERS)
    accountant.compose(event)
    for order, said in zip(ORDERS, accountant._rdp, strict=True):
        assert curve.renyi(order) >= said * (1 - 1e-12) - 1e-13
        assert curve.renyi(order) == pytest.approx(said, rel=CLOSE, abs=1e-11)
    kind = dp_event.GaussianDpEvent if noise == "gaussian" else dp_event.LaplaceDpEvent
    assert isinstance(event, kind)
    assert event.noise_multiplier * curve.ratio <= 1


def test_epsilon_inverts_delta():
    for noise, ratio, delta in itertools.product(Noise, RATIOS, [1e-300, 1e-9, 1e-5, 0.3]):
        curve = PrivacyCurve(noise, ratio)
        epsilon = curve.epsilon(delta)
        assert curve.delta(epsilon) <= delta * (1 + 1e-12)
        if epsilon > 0:
            assert curve.delta(epsilon * (1 - 1e-9)) > delta
    assert PrivacyCurve(Noise.LAPLACE, 1.0).epsilon(1e-300) == 1.0


def law_of_losses(ratios, grid=1200):
    """Atoms and bins of the losses of Laplace noise with these steps, and their masses."""
    losses, masses = np.zeros(1), np.ones(1)
    for t in ratios:
        # x = the position between the centres, where the loss is 2x - t; atoms at both ends
        edges = np.linspace(0, t, grid + 1)
        middle = (np.exp(-(t - edges[1:])) - np.exp(-(t - edges[:-1]))) / 2
        own = np.concatenate([[-t], edges[:-1] + edges[1:] - t, [t]])
        mass = np.concatenate([[math.exp(-t) / 2], middle, [0.5]])
        losses = np.add.outer(losses, own).ravel()
        masses = np.multiply.outer(masses, mass).ravel()
    return losses, masses


def hockey_stick(law, epsilon):
    """delta, by a sum over the losses above epsilon."""
    losses, masses = law
    above = losses > epsilon
    return float(np.sum(masses[above] * -np.expm1(epsilon - losses[above])))


@pytest.mark.parametrize("ratios", [(0.5, 0.5), (1.2, 0.3), (2.0, 1.0)])
def test_several_steps_of_laplace_noise_leak_no_more_than_their_sum(ratios):
    curve = PrivacyCurve(Noise.LAPLACE, sum(ratios))
    steps, whole = law_of_losses(ratios), law_of_losses((sum(ratios),))
    for epsilon in np.linspace(0, sum(ratios), 9):
        several = hockey_stick(steps, epsilon)
        assert several <= curve.delta(epsilon) + 1e-6
        alone = hockey_stick(whole, epsilon)
        assert alone == pytest.approx(curve.delta(epsilon), abs=1e-6)


GUARANTEES = [
    pml.ZCDP(0.3),
    pml.GaussianDP(0.7),
    pml.RenyiDP(8, 0.5),
    pml.RenyiDP(1.5, 2, "replace"),
]


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("noise", [Noise.GAUSSIAN, Noise.LAPLACE])
def test_calibration_is_the_private_end(guarantee, noise):
    strategy = pml.strategy("tree", "prefix:5")
    found = pml.calibrate(strategy, guarantee, noise=noise)
    norm = "l2" if noise is Noise.GAUSSIAN else "l1"
    sensitivity = strategy.sensitivity_under(guarantee.neighbours, norm)
    assert guarantee.spent(curve_of(noise, sensitivity, found.scale)) <= guarantee.budget * (
        1 + 1e-13
    )
    less = curve_of(noise, sensitivity, found.scale / (1 + 1e-6))
    assert guarantee.spent(less) > guarantee.budget
    assert found.achieved <= guarantee.budget


@given(
    st.floats(1e-6, 1e3),
    st.floats(1e-8, 1e4),
    st.sampled_from([pml.ZCDP, pml.GaussianDP, lambda value: pml.RenyiDP(3, value)]),
)
def test_gaussian_calibration_is_exact(sensitivity, budget, kind):
    guarantee = kind(budget)
    scale = pml.calibrate([[sensitivity]], guarantee, noise="gaussian").scale
    square = (Fraction(sensitivity) / Fraction(scale)) ** 2
    assert square <= guarantee.gaussian_square
    assert square >= guarantee.gaussian_square * (1 - Fraction(1, 10**14))


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_json_gives_the_guarantee_back(guarantee):
    assert from_json(json.loads(json.dumps(guarantee.to_json()))) == guarantee
    with pytest.raises(pml.InvalidInputError):
        from_json({**guarantee.to_json(), "delta": 0.1})
    with pytest.raises(pml.InvalidInputError):
        from_json({**guarantee.to_json(), "neighbours": "none"})


@pytest.mark.parametrize(
    ("build", "problem"),
    [
        (lambda: pml.ZCDP(0), "rho"),
        (lambda: pml.GaussianDP(math.nan), "mu"),
        (lambda: pml.RenyiDP(1, 1), "order"),
        (lambda: pml.RenyiDP(math.inf, 1), "order"),
        (lambda: pml.RenyiDP(2, -1), "epsilon"),
    ],
)
def test_bad_numbers_are_refused(build, problem):
    with pytest.raises(pml.InvalidInputError, match=problem):
        build()


def test_half_zcdp_is_what_scale_equal_to_sensitivity_gives():
    noisy = pml.mechanism("tree", "prefix:8", guarantee=pml.ZCDP(0.5), noise="gaussian")
    bare = pml.mechanism("tree", "prefix:8")
    assert noisy.rmse == pytest.approx(bare.rmse, rel=1e-14)
    same = pml.mechanism("tree", "prefix:8", guarantee=pml.GaussianDP(1), noise="gaussian")
    assert same.rmse == pytest.approx(bare.rmse, rel=1e-14)
    assert ndtr(-0.5) == pytest.approx(1 - noisy.privacy.delta(0) - ndtr(-0.5))


def test_lower_bounds_hold_for_the_mechanisms():
    for guarantee in GUARANTEES[:3]:
        best = pml.factorize("prefix:6", rel_gap=1e-9)
        bounds = {b.name: b.value for b in pml.bounds(best, guarantee=guarantee)}
        gaussian = pml.mechanism(best, guarantee=guarantee, noise="gaussian").error(2)
        laplace = pml.mechanism("identity", "prefix:6", guarantee=guarantee, noise="laplace")
        assert bounds["Gaussian mechanisms"] == pytest.approx(gaussian, rel=1e-8)
        assert bounds["Gaussian mechanisms"] <= gaussian <= bounds["optimal Gaussian"]
        assert bounds["Laplace matrix mechanisms"] <= laplace.error(2)
        assert bounds["least variance"] <= min(gaussian, laplace.error(2))
