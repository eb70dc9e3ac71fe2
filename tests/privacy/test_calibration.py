import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from leakages import (
    dp_from_pml,
    gaussian_envelope_delta,
    gaussian_slack_delta,
    l1_sensitivity,
    l2_sensitivity,
    laplace_leakage_bound,
    pml_from_dp,
)

from pmldesign.errors import InfeasibleError, InvalidInputError, VacuousGuaranteeError
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import (
    PML,
    ApproxDP,
    ApproxPML,
    EnvelopePML,
    Neighbours,
    Noise,
    PureDP,
    calibrate,
    gaussian_delta,
    gaussian_error,
    laplace_error,
    loss,
    private_end,
)
from pmldesign.strategies import Strategy
from pmldesign.workloads import as_workload

PREFIX = np.tril(np.ones((6, 6)))
STRATEGIES = [PREFIX, np.eye(5), np.random.default_rng(0).standard_normal((4, 7)) * 1e3]


def pairs():
    for epsilon in (0.01, 0.5, 1.5):
        for neighbours in ("add-remove", "replace"):
            yield PureDP(epsilon, neighbours), "laplace"
            yield ApproxDP(epsilon, 1e-6, neighbours), "laplace"
            yield ApproxDP(epsilon, 1e-6, neighbours), "gaussian"
        yield PML(epsilon, 0.1), "laplace"
        yield from (
            (ApproxPML(epsilon, d, 0.1), n)
            for n in ("gaussian", "laplace")
            for d in (1e-12, 1e-3, 0.1)
        )
        yield from (
            (EnvelopePML(epsilon, d, 0.1), n)
            for n in ("gaussian", "laplace")
            for d in (1e-9, 1e-3, 0.2)
        )


def loss_and_target(R, guarantee, noise, scale):
    if noise == "laplace":
        if isinstance(guarantee, PureDP | ApproxDP):
            sensitivity = Fraction(l1_sensitivity(R, guarantee.neighbours))
            return sensitivity / Fraction(scale), guarantee.epsilon
        return laplace_leakage_bound(R, scale=scale, alpha=guarantee.alpha), guarantee.epsilon
    if isinstance(guarantee, ApproxDP):
        sensitivity = l2_sensitivity(R, guarantee.neighbours)
        return gaussian_delta(sensitivity, scale, guarantee.epsilon), guarantee.delta
    bound = gaussian_slack_delta if isinstance(guarantee, ApproxPML) else gaussian_envelope_delta
    value = bound(R, scale=scale, epsilon=guarantee.epsilon, alpha=guarantee.alpha)
    return value, guarantee.delta


@pytest.mark.parametrize(("guarantee", "noise"), list(pairs()))
@pytest.mark.parametrize("R", STRATEGIES, ids=["prefix", "identity", "random"])
def test_the_private_end_is_returned(R, guarantee, noise):
    found = calibrate(R, guarantee, noise=noise)
    assert found.guarantee == guarantee
    assert found.noise == noise
    value, target = loss_and_target(R, guarantee, noise, found.scale)
    assert value <= found.achieved <= target
    assert Fraction(found.achieved) <= Fraction(value) * (1 + Fraction(1, 2**52))
    assert loss_and_target(R, guarantee, noise, found.scale / (1 + 1e-6))[0] > target


def test_laplace_dp_in_closed_form():
    # column j of 6 prefix sums has 6 - j ones; two columns differ in at most 5 rows
    assert calibrate(PREFIX, PureDP(2), noise="laplace").scale == pytest.approx(3)
    assert calibrate(PREFIX, PureDP(2, "replace"), noise="laplace").scale == pytest.approx(2.5)


@pytest.mark.parametrize("cells", [2, 3, 10, 50])
def test_histogram_under_pml_in_closed_form(cells):
    # Theorem 4 of [SYG] inverted: 2/b = log( e^eps (1 - alpha)/(1 - alpha e^eps) )
    alpha, epsilon = 0.7 / cells, 0.3
    scale = calibrate(np.eye(cells), PML(epsilon, alpha), noise="laplace").scale
    assert scale == pytest.approx(2 / dp_from_pml(epsilon, alpha), rel=1e-6)
    assert pml_from_dp(2 / scale, alpha) <= epsilon * (1 + 1e-14)


@settings(max_examples=3)
@given(seed=st.integers(0, 2**32 - 1), epsilon=st.floats(0.02, 1), factor=st.floats(1e-6, 1e6))
def test_scales_are_monotone_and_homogeneous(seed, epsilon, factor):
    rng = np.random.default_rng(seed)
    R, least = rng.standard_normal((3, 4)), 0.02 + rng.dirichlet(np.ones(4)) * 0.5
    least = tuple(np.minimum(least, 0.3))
    less = tuple(0.9 * value for value in least)
    scale = calibrate(R, PML(epsilon, least), noise="laplace").scale
    assert calibrate(R, PML(epsilon, less), noise="laplace").scale > scale
    assert calibrate(R, PML(1.05 * epsilon, least), noise="laplace").scale < scale
    assert calibrate(R, PureDP(epsilon, "replace"), noise="laplace").scale > scale
    times = calibrate(factor * R, PML(epsilon, least), noise="laplace").scale
    assert times == pytest.approx(factor * scale, rel=1e-6)
    for kind in (ApproxPML, EnvelopePML):
        scale = calibrate(R, kind(epsilon, 1e-3, least), noise="gaussian").scale
        assert calibrate(R, kind(epsilon, 1e-3, less), noise="gaussian").scale > scale
        assert calibrate(R, kind(1.05 * epsilon, 1e-3, least), noise="gaussian").scale < scale
        assert calibrate(R, kind(epsilon, 1.1e-3, least), noise="gaussian").scale < scale
        times = calibrate(factor * R, kind(epsilon, 1e-3, least), noise="gaussian").scale
        assert times == pytest.approx(factor * scale, rel=1e-6)


def test_small_alpha_tends_to_differential_privacy():
    dp = calibrate(PREFIX, PureDP(1, "replace"), noise="laplace").scale
    pml = calibrate(PREFIX, PML(1, 1e-9), noise="laplace").scale
    assert pml == pytest.approx(dp, rel=1e-6)
    dp = calibrate(PREFIX, ApproxDP(1, 1e-5, "replace"), noise="gaussian").scale
    pml = calibrate(PREFIX, ApproxPML(1, 1e-5, 1e-9), noise="gaussian").scale
    assert pml == pytest.approx(dp, rel=1e-6)


def test_laplace_scale_vanishes_as_epsilon_approaches_the_entropy_of_the_rarest_cell():
    gaps = [1e-1, 1e-3, 1e-6, 1e-9]
    scales = [
        calibrate(PREFIX, PML(math.log(10) - gap, 0.1), noise="laplace").scale for gap in gaps
    ]
    assert scales == sorted(scales, reverse=True)
    # leakage(b) = log 10 - 2 e^(-1/b) + ...: inner cells have two neighbours at distance 1, the
    # outer ones a single one, hence log 10 - e^(-1/b) and b = 1/log(1/gap)
    assert scales[-1] == pytest.approx(1 / math.log(1e9), rel=1e-2)


def test_slack_needs_less_noise_than_dp_and_the_envelope_more_than_the_slack():
    for alpha in (0.01, 0.1):
        dp = calibrate(PREFIX, ApproxDP(0.5, 1e-4, "replace"), noise="gaussian").scale
        slack = calibrate(PREFIX, ApproxPML(0.5, 1e-4, alpha), noise="gaussian").scale
        envelope = calibrate(PREFIX, EnvelopePML(0.5, 1e-4, alpha), noise="gaussian").scale
        assert slack < dp
        assert slack < envelope


def test_equal_columns_count_as_one_cell():
    R = np.array([[0.0, 1.0, 1.0], [0.0, 2.0, 2.0]])
    split = calibrate(R, PML(0.4, (0.2, 0.1, 0.3)), noise="laplace").scale
    merged = calibrate(R[:, :2], PML(0.4, (0.2, 0.4)), noise="laplace").scale
    assert split == pytest.approx(merged, rel=1e-6)


def test_nothing_to_protect_needs_no_noise():
    for guarantee in (PureDP(1, "replace"), PML(1, 0.1), ApproxPML(1, 1e-3, 0.1)):
        found = calibrate(np.ones((2, 3)), guarantee, noise="laplace")
        assert (found.scale, found.achieved) == (0, 0)
    found = calibrate(np.ones((2, 3)), ApproxDP(1, 1e-3, "replace"), noise="gaussian")
    assert (found.scale, found.achieved) == (0, 0)
    assert calibrate(np.ones((2, 3)), EnvelopePML(1, 1e-3, 0.1), noise="gaussian").scale == 0


def test_gaussian_noise_cannot_be_pure():
    for guarantee in (PureDP(1), PML(1, 0.1)):
        with pytest.raises(InfeasibleError, match=r"at no scale.*use `noise='laplace'`, or pass"):
            calibrate(PREFIX, guarantee, noise="gaussian")


@pytest.mark.parametrize("noise", Noise)
def test_vacuous_guarantees_are_refused_unless_allowed(noise):
    for guarantee in (PML(2.4, 0.1), ApproxPML(2.4, 0.1, 0.1), EnvelopePML(2.4, 0.1, 0.1)):
        with pytest.raises(VacuousGuaranteeError, match=r"below log\(1/min alpha\) = 2\.30259"):
            calibrate(PREFIX, guarantee, noise=noise)
        assert calibrate(PREFIX, guarantee, noise=noise, allow_vacuous=True).scale == 0
    with pytest.raises(VacuousGuaranteeError, match=r"delta 0\.9 with min alpha 0\.1 are met"):
        calibrate(PREFIX, ApproxPML(1, 0.9, 0.1), noise=noise)


def test_a_guarantee_that_the_strategy_meets_without_noise_is_vacuous_too():
    # pairs of equal columns: the output tells pairs apart, and each has probability 0.2
    R = np.repeat(np.eye(2), 2, axis=1)
    with pytest.raises(VacuousGuaranteeError, match="met by this strategy without any noise"):
        calibrate(R, PML(math.log(5) + 1e-9, 0.1), noise="laplace")
    assert calibrate(R, PML(math.log(5) - 1e-3, 0.1), noise="laplace").scale > 0


@pytest.mark.parametrize("p", [2, 3, 4.5, math.inf])
@pytest.mark.parametrize(
    "guarantee",
    [
        ApproxDP(1, 1e-6),
        ApproxDP(1, 0.3),
        ApproxPML(0.5, 1e-9, 0.05),
        ApproxPML(0.5, 0.2, 0.05),
        EnvelopePML(0.5, 1e-3, 0.05),
    ],
)
def test_the_noise_of_smaller_error_is_chosen(guarantee, p):
    rng = np.random.default_rng(3)
    for R in (np.eye(6), rng.standard_normal((40, 6))):
        A = rng.standard_normal((5, 6))
        laplace = calibrate(R, guarantee, noise="laplace")
        gaussian = calibrate(R, guarantee, noise="gaussian")
        if guarantee.neighbours is Neighbours.REPLACE:  # the total is public
            A, R = A - A.mean(axis=1, keepdims=True), R - R.mean(axis=1, keepdims=True)
        L = A @ np.linalg.pinv(R, 1e-11)
        errors = {
            laplace: laplace_error(L, p=p, scale=laplace.scale),
            gaussian: gaussian_error((L**2).sum(axis=1), p=p, scale=gaussian.scale),
        }
        chosen = mechanism(Strategy("R", R), as_workload(A), guarantee=guarantee, p=p)
        assert chosen.error(p) == pytest.approx(min(errors.values()), rel=1e-9)
        assert chosen.noise is min(errors, key=errors.__getitem__).noise


def test_both_noises_win_somewhere_and_pure_guarantees_take_laplace():
    def chosen(R, guarantee):
        R = np.asarray(R)
        return mechanism(Strategy("R", R), as_workload(R), guarantee=guarantee).noise

    many = np.ones((200, 1)) * np.array([[0.0, 1.0]])
    assert chosen(many, ApproxDP(1, 1e-6)) is Noise.GAUSSIAN
    assert chosen(np.eye(2), ApproxDP(1, 1e-6)) is Noise.LAPLACE
    assert chosen(many, PureDP(1)) is Noise.LAPLACE
    assert chosen(many, PML(0.5, 0.1)) is Noise.LAPLACE


def test_alpha_must_fit_the_number_of_cells():
    with pytest.raises(InvalidInputError, match=r"\(0, 0\.166667\] for k = 6 cells, got 0\.2"):
        calibrate(PREFIX, PML(1, 0.2), noise="laplace")
    with pytest.raises(InvalidInputError, match="k = 6 cells, got 2"):
        calibrate(PREFIX, PML(1, (0.2, 0.3)), noise="laplace")
    with pytest.raises(InvalidInputError, match="noise must be"):
        calibrate(PREFIX, PML(1, 0.1), noise="uniform")


@given(
    root=st.floats(1e-12, 1e12),
    start=st.floats(1e-12, 1e12),
    power=st.floats(0.05, 8),
    jitter=st.integers(0, 2**32 - 1),
)
def test_private_end_brackets_noisy_decreasing_functions(root, start, power, jitter):
    def loss(scale):
        wobble = math.sin(scale / root * 1e9 + jitter) * 1e-12
        return math.exp(min(power * (math.log(root) - math.log(scale)), 300.0)) * (1 + wobble)

    scale = private_end(loss, 1.0, start=start)
    assert loss(scale) <= 1
    assert scale == pytest.approx(root, rel=1e-6)
    assert loss(scale / (1 + 1e-6)) > 1


def test_private_end_of_a_loss_that_falls_to_zero_at_once():
    for target, edge in itertools.product((1e-300, 0.5), (1e-3, 7.0)):
        scale = private_end(lambda s, edge=edge: 0.0 if s >= edge else 1.0, target, start=1.0)
        assert edge <= scale <= edge * (1 + 1e-6)


def test_private_end_of_a_loss_that_meets_the_target_on_a_plateau():
    # a root finder may stop anywhere on it; the smallest scale is its left end
    for start in (0.3, 5.0, 1000.0):
        scale = private_end(lambda s: 2.0 if s < 3 else 1.0, 1.0, start=start)
        assert 3 <= scale <= 3 * (1 + 1e-6)


@pytest.mark.parametrize("kind", [ApproxPML, EnvelopePML, PML])
def test_many_columns_take_few_looks_at_all_of_them(kind, monkeypatch):
    """A few columns tell about how much noise is needed: twenty looks otherwise."""
    rng, cells = np.random.default_rng(3), 128
    monkeypatch.setattr(loss, "ROUGH", cells // 8)
    R = rng.standard_normal((3, cells)) * rng.uniform(0.5, 1.5, (1, cells))
    guarantee = PML(1.0, 1e-4) if kind is PML else kind(1.0, 1e-6, 1e-4)
    noise = "laplace" if kind is PML else "gaussian"
    looks = []
    name = {
        ApproxPML: "slack_from_distances",
        EnvelopePML: "envelope_from_distances",
        PML: "laplace_leakage_from_distances",
    }[kind]
    bound = getattr(loss, name)

    def counted(distances, *others, **named):
        looks.append(len(distances))
        return bound(distances, *others, **named)

    monkeypatch.setattr(loss, name, counted)
    found = calibrate(R, guarantee, noise=noise)
    assert 2 <= looks.count(R.shape[1]) <= 13
    monkeypatch.setattr(loss, "ROUGH", R.shape[1])
    assert found.scale == pytest.approx(calibrate(R, guarantee, noise=noise).scale, rel=1e-6)
    value, target = loss_and_target(R, guarantee, noise, found.scale)
    assert value <= target * (1 + 1e-9)
    if kind is not PML:
        less = loss_and_target(R, guarantee, noise, found.scale * (1 - 1e-5))
        assert less[0] > target


def test_few_columns_that_lose_nothing_are_no_start():
    """All but one of the columns are the same: those looked at first need no noise at all."""
    R = np.zeros((1, 8 * loss.ROUGH))
    R[0, 5] = 1.0
    least = np.full(R.shape[1], 1e-4)
    found = calibrate(R, PML(1.0, tuple(least)), noise="laplace")
    assert laplace_leakage_bound(R, scale=found.scale, alpha=least) <= 1.0
    assert laplace_leakage_bound(R, scale=found.scale * (1 - 1e-5), alpha=least) > 1.0


@pytest.mark.parametrize(
    "promise", [ApproxPML(1.0, 1e-4, 0.05), EnvelopePML(1.0, 1e-4, 0.05), PML(1.0, 0.05)]
)
def test_a_scale_is_found_near_any_other(promise):
    strategy = Strategy("R", np.random.default_rng(3).standard_normal((4, 7)))
    noise = "gaussian" if promise.delta else "laplace"
    plain = calibrate(strategy, promise, noise=noise)
    for factor in (0.01, 0.9, 1 - 1e-7, 1.0, 1 + 1e-7, 1.1, 100.0):
        near = calibrate(strategy, promise, noise=noise, near=factor * plain.scale)
        assert near.scale == pytest.approx(plain.scale, rel=1e-6)
        assert near.achieved <= (promise.delta or promise.epsilon)
