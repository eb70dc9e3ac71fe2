"""Plans: what releases with noise fixed beforehand satisfy together, and their ledgers."""

import math

import numpy as np
import pytest
from scipy.stats import norm

import pmldesign as pml
from pmldesign.errors import InfeasibleError, InvalidInputError
from pmldesign.privacy import Noise, PrivacyCurve
from pmldesign.releases import (
    Budget,
    Plan,
    PlannedNoise,
    read_ledger,
    without_plan,
)
from pmldesign.strategies import baseline
from pmldesign.workloads import parse_workload

pytestmark = pytest.mark.usefixtures("quick_disk")
QUERIES = parse_workload("prefix:4")
LAPLACE, GAUSSIAN = pml.PureDP(0.1), pml.ApproxDP(0.5, 1e-7)
TEXT = "2*laplace:0.1 + gaussian:0.5,1e-7"
BUDGET = Budget(1.0, 1e-6, 0.0)


def release(guarantee, data, ledger, **options):
    noise = "laplace" if isinstance(guarantee, pml.PureDP) else "gaussian"
    strategy = baseline("identity", QUERIES)
    made = pml.mechanism(strategy, QUERIES, guarantee=guarantee, noise=noise)
    return pml.release(made, data, ledger=ledger, **options)


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "counts.npy"
    np.save(path, np.array([3, 1, 4, 1]))
    return path


def laplace_losses(ratio, step, up):
    """Mass of the loss l, density e^((l - t)/2)/4 and atoms 1/2 at t, e^-t/2 at -t, on a grid."""
    ends = round(ratio / step)
    grid = np.arange(-ends, ends + 1) * step
    inner = np.diff(np.exp((grid - ratio) / 2)) / 2
    mass = np.zeros(2 * ends + 1)
    mass[1 if up else 0 : None if up else -1] += inner
    mass[-1] += 0.5
    mass[0] += math.exp(-ratio) / 2
    return mass


def gaussian_losses(mu, step, up):
    """Mass of N(mu^2 / 2, mu^2), but for 1e-20."""
    ends = math.ceil((mu**2 / 2 + 9.5 * mu) / step)
    grid = np.arange(-ends, ends + 1) * step
    inner = np.diff(norm.cdf((grid - mu**2 / 2) / mu))
    mass = np.zeros(2 * ends + 1)
    mass[1 if up else 0 : None if up else -1] += inner
    return mass


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("3*laplace:0.1 + gaussian:mu=0.2", 1e-3),
        ("laplace:0.5 + laplace:0.2 + 2*gaussian:mu=0.3", 2e-3),
        ("8*laplace:0.3", 1e-3),
    ],
)
def test_delta_lies_between_losses_rounded_down_and_up(text, step):
    """Convolutions on a grid, without transforms: bounds on both sides of the truth."""
    plan, ends = Plan.parse(text), {}
    for up in (False, True):
        total = np.ones(1)
        for planned in plan.releases:
            law = laplace_losses if planned.noise is Noise.LAPLACE else gaussian_losses
            total = np.convolve(total, law(planned.ratio, step, up))
        losses = (np.arange(len(total)) - len(total) // 2) * step
        ends[up] = total, losses
    for epsilon in (0.0, 0.3, 0.6, 1.1):
        low, high = (
            float(mass @ np.maximum(-np.expm1(epsilon - losses), 0.0))
            for mass, losses in (ends[False], ends[True])
        )
        assert low - 1e-15 <= plan.delta(epsilon) <= high + 1e-12


@pytest.mark.parametrize("count", [1, 5])
def test_gaussian_releases_are_one(count):
    plan = Plan.parse(f"{count}*gaussian:mu=0.2")
    exact = PrivacyCurve(Noise.GAUSSIAN, 0.2 * math.sqrt(count))
    for delta in (1e-3, 1e-6, 1e-9):
        assert 1 <= plan.epsilon(delta) / exact.epsilon(delta) < 1 + 1e-5


def test_a_plan_costs_less_than_choices_that_come_later():
    plan = Plan.parse("200*laplace:0.01")
    assert plan.epsilon(0.0) == without_plan(plan, 1e-6) == pytest.approx(2.0)
    # the loss has mean 200 (t + e^-t - 1) and a variance below 200 t^2: a normal law, about
    assert plan.epsilon(1e-6) < 0.6
    mixed = Plan.parse("4*laplace:0.1 + 3*gaussian:0.5,1e-7")
    assert mixed.epsilon(1e-6) < 0.9 * without_plan(mixed, 1e-6) + 0.01
    assert without_plan(mixed, 0.0) == math.inf


def discrete_laplace(scale, reach=400):
    points = np.arange(-reach, reach + 1)
    mass = np.exp(-np.abs(points) / scale)
    return mass / mass.sum()


def discrete_gaussian(s, reach=60):
    points = np.arange(-reach, reach + 1)
    mass = np.exp(-(points**2) / (2 * s * s))
    return mass / mass.sum()


def moved(mass, shift):
    """The law of noise around `shift`, on the same points."""
    return np.roll(mass, shift)


@pytest.mark.parametrize("scale", [0.7, 1.0, 3.0, 12.5])
@pytest.mark.parametrize("shift", [1, 2, 7])
def test_discrete_laplace_noise_is_no_worse_than_continuous(scale, shift):
    p = discrete_laplace(scale)
    q = moved(p, shift)
    ratio = shift / scale + 1 / (4 * scale**2)
    curve = PrivacyCurve(Noise.LAPLACE, ratio)
    for epsilon in np.linspace(0.0, ratio, 25):
        exact = np.maximum(p - math.exp(epsilon) * q, 0.0).sum()
        assert exact <= curve.delta(float(epsilon)) + 1e-12


@pytest.mark.parametrize("adaptive", [False, True])
def test_all_outputs_of_three_discrete_releases(adaptive):
    """Delta by enumeration; with `adaptive` the second release depends on the first answer."""
    b, sigma = 2.0, 3.0
    s = math.sqrt(sigma**2 + 4)
    laplace, gaussian = discrete_laplace(b, 40), discrete_gaussian(s, 40)
    ratio = 1 / b + 1 / (4 * b * b)
    plan = pml.Plan(
        (
            PlannedNoise(Noise.LAPLACE, ratio),
            PlannedNoise(Noise.LAPLACE, ratio),
            PlannedNoise(Noise.GAUSSIAN, 1 / sigma),
        )
    )
    first = [laplace, moved(laplace, 1)]
    for epsilon in (0.0, 0.4, 0.9):
        exact = 0.0
        for point in range(len(laplace)):
            # after an answer above 0, Gaussian noise comes next, and with other neighbours
            order = (gaussian, laplace) if adaptive and point > 40 else (laplace, gaussian)
            sign = -1 if adaptive and point > 40 else 1
            p = first[0][point] * np.multiply.outer(order[0], order[1])
            pair = [moved(order[0], sign), moved(order[1], sign)]
            q = first[1][point] * np.multiply.outer(*pair)
            exact += np.maximum(p - math.exp(epsilon) * q, 0.0).sum()
        assert exact <= plan.delta(epsilon) <= 1.6 * exact + 1e-12


def test_a_ledger_with_a_plan_makes_each_release_once(tmp_path, data):
    ledger = tmp_path / "ledger"
    release(GAUSSIAN, data, ledger, budget=BUDGET, plan=TEXT)
    release(LAPLACE, data, ledger)
    with pytest.raises(InvalidInputError, match=r"no such release.*chosen later"):
        release(GAUSSIAN, data, ledger)
    with pytest.raises(
        InvalidInputError, match=r"this one has laplace:0\.2, left is laplace:0\.1;"
    ):
        release(pml.PureDP(0.2), data, ledger)
    release(pml.PureDP(0.05), data, ledger, plan=TEXT)  # more noise than planned
    with pytest.raises(InvalidInputError, match="left is nothing"):
        release(pml.PureDP(1e-3), data, ledger)
    assert sorted(read_ledger(ledger).made) == [0, 1, 2]
    with pytest.raises(InvalidInputError, match="began with the plan 2"):
        release(LAPLACE, data, ledger, plan="3*laplace:0.1")


def test_plans_are_fixed_before_the_first_release_and_within_the_budget(tmp_path, data):
    ledger = tmp_path / "ledger"
    for budget, plan, error, message in (
        (Budget(0.3, 1e-6, 0.0), TEXT, InfeasibleError, "has epsilon 0.6"),
        (Budget(1.0, 0.0, 1.0), TEXT, InfeasibleError, "which needs a delta"),
        (BUDGET, "laplace:0.2", InvalidInputError, "no such release"),
        (None, TEXT, InvalidInputError, "new ledger"),
    ):
        with pytest.raises(error, match=message):
            release(GAUSSIAN, data, ledger, budget=budget, plan=plan)
        assert not ledger.exists()
    release(GAUSSIAN, data, ledger, budget=BUDGET)
    with pytest.raises(InvalidInputError, match="began with no plan"):
        release(LAPLACE, data, ledger, plan=TEXT)
    with pytest.raises(InvalidInputError, match="needs a ledger"):
        release(LAPLACE, data, None, plan=TEXT)
    exact = tmp_path / "exact"
    for number in range(10):  # 10 times 0.1 is 1 here
        options = {"budget": "epsilon=1", "plan": "10*laplace:0.1"} if number == 0 else {}
        release(LAPLACE, data, exact, **options)


@pytest.mark.parametrize(
    ("guarantee", "text"),
    [
        (pml.ApproxDP(0.3, 1e-8), "gaussian:0.3,1e-8"),
        (pml.GaussianDP(0.2), "gaussian:mu=0.2"),
        (pml.PureDP(0.7), "laplace:0.7"),
        (pml.PureDP(1e-4), "laplace:1e-4"),
    ],
)
def test_noise_of_a_guarantee_is_what_a_plan_calls_so(guarantee, text, tmp_path, data):
    budget = Budget(3.0, 1e-6, 0.0)
    release(guarantee, data, tmp_path / "l", budget=budget, plan=f"{text} + laplace:1e-5")


def test_plans_are_written_as_text():
    plan = Plan.parse("2*laplace:0.1+gaussian:mu=0.25")
    assert plan.text == "2*laplace:0.1 + gaussian:mu=0.25"
    assert len(plan.releases) == 3
    bad = ["", "laplace", "laplace:1,2", "gaussian:1", "x*laplace:1", "0*laplace:1", "cauchy:1"]
    for text in [*bad, "laplace:mu=1", "gaussian:1,1e-6,mu=1", "laplace:0.1 + "]:
        with pytest.raises(InvalidInputError, match="a plan is written as"):
            Plan.parse(text)
    for text in (
        "laplace:-1",
        "laplace:nan",
        "gaussian:1,2",
        "gaussian:mu=0",
        "9999*laplace:1+" * 2 + "laplace:1",
    ):
        with pytest.raises(InvalidInputError):
            Plan.parse(text)
    outside = ["laplace:1e300", "gaussian:mu=1e300", "laplace:1e-300", "gaussian:1e300,1e-5"]
    for text in [*outside, "2501*gaussian:mu=2"]:  # mu 100.02 together
        with pytest.raises(InvalidInputError, match="from 1e-50 to 100"):
            Plan.parse(text)
    assert Plan.parse("2*laplace:0.1").epsilon(0.0) == 0.2
    with pytest.raises(InvalidInputError, match="no epsilon at delta 0; use a delta of"):
        plan.epsilon(0.0)
    assert Plan.parse("9*laplace:100 + gaussian:mu=1e-50").epsilon(1e-6) == pytest.approx(
        900, rel=0.01
    )
    for delta in (-1.0, 1.0, 1e-11):
        with pytest.raises(InvalidInputError, match="delta"):
            plan.epsilon(delta)
