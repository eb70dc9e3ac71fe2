"""mechanism(): closed forms under both relations, and its error against simulation."""

import math

import numpy as np
import pytest

from pmldesign.errors import InfeasibleError, InvalidInputError, VacuousGuaranteeError
from pmldesign.mechanisms import mechanism, require_feasible
from pmldesign.privacy import PML, ApproxDP, ApproxPML, EnvelopePML, Noise, PureDP
from pmldesign.strategies import Strategy, baseline
from pmldesign.workloads import DenseWorkload, parse_workload


def made_for(strategy, workload, **options):
    workload = parse_workload(workload)
    return mechanism(baseline(strategy, workload), workload, **options)


@pytest.mark.parametrize("p", [2.0, 3.0, 4.0, math.inf])
def test_identity_on_a_histogram(p):
    gaussian = made_for("identity", "histogram:6", p=p)
    # E |N|^p = 2^(p/2) Gamma((p+1)/2) / sqrt pi, E |Laplace(b)|^p = b^p Gamma(p + 1)
    n_root = 1.0 if math.isinf(p) else 6 ** (1 / p)
    c = 1.0
    if p < math.inf:
        c = (2 ** (p / 2) * math.gamma((p + 1) / 2) / math.sqrt(math.pi)) ** (1 / p)
    assert gaussian.error(p) == pytest.approx(c * n_root, rel=1e-12)
    laplace = made_for("identity", "histogram:6", p=p, guarantee=PureDP(0.25))
    assert (laplace.noise, laplace.scale) == (Noise.LAPLACE, 4.0)
    d = math.sqrt(2) if math.isinf(p) else math.gamma(p + 1) ** (1 / p)
    assert laplace.error(p) == pytest.approx(4 * d * n_root, rel=1e-12)


def test_sensitivities():
    # prefix sums: cell 1 counts in all n sums. l1: n and, between first and last, n - 1
    n = 5
    for noise, relation, expected in [
        ("laplace", "add-remove", n),
        ("laplace", "replace", n - 1),
        ("gaussian", "add-remove", math.sqrt(n)),
        ("gaussian", "replace", math.sqrt(n - 1)),
    ]:
        made = made_for("workload", f"prefix:{n}", noise=noise, neighbours=relation)
        assert made.sensitivity == pytest.approx(expected, rel=1e-12)
        assert made.scale == made.sensitivity


@pytest.mark.parametrize(
    ("relation", "total"),
    # sum_i i = 36 with b = 1; sum_i (i - i^2/8) = 10.5 with b = 2, the total being public
    [("add-remove", 2 * 36), ("replace", 2 * 2**2 * 10.5)],
)
def test_identity_on_prefix_sums_at_epsilon_1(relation, total):
    made = made_for("identity", "prefix:8", guarantee=PureDP(1.0, neighbours=relation))
    assert made.error(2) == pytest.approx(math.sqrt(total), rel=1e-12)
    assert made.error(2) == pytest.approx({"add-remove": 8.4853, "replace": 9.1652}[relation], 1e-5)


@pytest.mark.parametrize(("alpha", "error"), [(1 / 16, 8.171), (1 / 8, 7.151)])
def test_identity_on_prefix_sums_under_pml(alpha, error):
    made = made_for("identity", "prefix:8", guarantee=PML(1.0, alpha))
    t = 2 / made.scale  # [SYG] Theorem 4: 2/b - log(1 - alpha + alpha e^(2/b)) = epsilon
    assert t - math.log1p(alpha * math.expm1(t)) == pytest.approx(1.0, rel=2e-6)
    assert made.error(2) == pytest.approx(error, abs=5e-4)


def test_a_query_on_the_public_total_is_exact():
    A = np.vstack([np.ones(4), np.eye(4)])
    workload = DenseWorkload(A, name="total and cells")
    made = mechanism(baseline("identity", workload), workload, neighbours="replace")
    assert made.standard_deviations[0] == 0
    # e_j - 1/4: 1 - 1/4 of the variance 2 of noise with scale sqrt 2
    np.testing.assert_allclose(made.standard_deviations[1:], math.sqrt(2 * 0.75))


def simulated(made, p, rng, count=40_000):
    """Mean of norm(scale L z)_p^p and its standard error."""
    L = made.strategy.reconstruction(made.workload)
    shape = (L.shape[1], count)
    draw = rng.standard_normal if made.noise is Noise.GAUSSIAN else rng.laplace
    noise = draw(size=shape) * made.scale
    powers = (np.abs(L @ noise) ** p).sum(axis=0)
    return powers.mean(), powers.std() / math.sqrt(count)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("p", [2.0, 2.5, 4.0])
def test_error_is_what_simulation_finds(p, noise, relation):
    made = made_for("tree", "prefix:6", p=p, noise=noise, neighbours=relation)
    mean, deviation = simulated(made, p, np.random.default_rng(2024))
    assert abs(made.error(p) ** p - mean) <= 5 * deviation
    assert deviation <= 0.05 * mean  # the bound above means something


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_standard_deviations_are_what_simulation_finds(noise):
    made = made_for("haar", "prefix:6", noise=noise)
    L = made.strategy.reconstruction(made.workload)
    rng = np.random.default_rng(7)
    draw = rng.standard_normal if noise == "gaussian" else rng.laplace
    errors = L @ draw(size=(L.shape[1], 100_000)) * made.scale
    # kurtosis at most 6: the variance has a relative standard error of at most sqrt(5/N) < 0.8 %
    np.testing.assert_allclose(errors.std(axis=1), made.standard_deviations, rtol=0.02)
    assert made.max_std == made.standard_deviations.max() == made.error(math.inf)
    assert made.rmse == pytest.approx(math.sqrt(np.mean(made.standard_deviations**2)))


@pytest.mark.parametrize("delta", [1e-3, 1e-12])
@pytest.mark.parametrize("p", [2.0, 4.0])
def test_auto_takes_the_noise_of_smaller_error(p, delta):
    guarantee = ApproxDP(1.0, delta)
    options = {"guarantee": guarantee, "p": p}
    each = [made_for("tree", "prefix:32", noise=k, **options) for k in ("gaussian", "laplace")]
    best = made_for("tree", "prefix:32", **options)
    assert best.error(p) == min(one.error(p) for one in each)


def test_both_noises_win_somewhere():
    kinds = {made_for("tree", "prefix:32", guarantee=ApproxDP(1.0, d)).noise for d in (0.1, 1e-30)}
    assert kinds == {Noise.GAUSSIAN, Noise.LAPLACE}


def test_the_error_of_a_calibrated_mechanism_does_not_depend_on_the_scale_of_the_strategy():
    workload = parse_workload("prefix:6")
    tree = baseline("tree", workload)
    large = Strategy("large", 1000 * tree.matrix)
    for guarantee in (PureDP(1.0), ApproxDP(1.0, 1e-6), PML(1.0, 0.1), EnvelopePML(1, 0.01, 0.1)):
        errors = [mechanism(s, workload, guarantee=guarantee).error(2) for s in (tree, large)]
        assert errors[1] == pytest.approx(errors[0], rel=2e-6)


@pytest.mark.parametrize(
    ("guarantee", "noise", "error"),
    [
        (PureDP(1.0), "gaussian", InfeasibleError),
        (PML(1.0, 0.1), "gaussian", InfeasibleError),
        (PML(1.0, 0.3), "auto", InvalidInputError),
        (PML(2.4, 0.1), "auto", VacuousGuaranteeError),
        (EnvelopePML(2.4, 0.1, 0.1), "laplace", VacuousGuaranteeError),
        (ApproxPML(0.1, 0.9, 0.1), "gaussian", VacuousGuaranteeError),
    ],
)
def test_what_no_strategy_can_meet_is_refused_with_and_without_one(guarantee, noise, error):
    with pytest.raises(error) as early:
        require_feasible(guarantee, 4, noise=noise, p=2)
    with pytest.raises(error) as late:
        made_for("identity", "prefix:4", guarantee=guarantee, noise=noise)
    assert str(early.value) == str(late.value)


def test_what_some_strategy_can_meet_is_not_refused_early():
    for guarantee in (None, PureDP(1), ApproxDP(1, 1e-6), PML(1, 0.1), EnvelopePML(1, 0.1, 0.1)):
        require_feasible(guarantee, 4, noise="auto", p=2)


def test_arguments():
    with pytest.raises(InvalidInputError, match="cannot answer row 3"):
        mechanism(Strategy("part", np.eye(4)[:3]), parse_workload("prefix:4"))
    with pytest.raises(InvalidInputError, match="noise must be"):
        made_for("tree", "prefix:4", noise="uniform")
    with pytest.raises(InvalidInputError, match="p must be in"):
        made_for("tree", "prefix:4").error(1.5)
    with pytest.raises(InvalidInputError, match="neighbours must be"):
        made_for("tree", "prefix:4", neighbours="both")
