"""The least budget for given accuracies."""

import math

import numpy as np
import pytest
from random_targets import check
from scipy import stats

import pmldesign as pml
from pmldesign.designs import Targets, least_share, named_targets
from pmldesign.designs.targets import budgets
from pmldesign.factorization import answer
from pmldesign.privacy import Noise, PrivacyCurve, calibrate, laplace_renyi
from pmldesign.strategies import baseline
from pmldesign.workloads import parse_workload
from pmldesign_solvers.norm import Status
from pmldesign_solvers.search import laplace_half_widths

DELTA = pml.ApproxDP(1, 1e-6)


@pytest.mark.sweep(seed=6)
@pytest.mark.parametrize("seed", range(12))
def test_random_targets_are_met_with_what_is_printed(seed):
    assert check(seed) <= 1e-5


@pytest.mark.parametrize("seed", range(100, 104))
def test_the_better_noise_meets_the_targets_too(seed):
    check(seed, noise="auto")


def test_one_count_needs_what_its_noise_needs():
    """sigma = 5 for a count: mu 1/5, rho 1/50, and epsilon sqrt(2)/5 for Laplace noise."""
    for guarantee, least in (
        (pml.GaussianDP(1), 0.2),
        (pml.ZCDP(1), 0.02),
        (pml.RenyiDP(8, 1), 8 * 0.02),
        (pml.PureDP(1), math.sqrt(2) / 5),
    ):
        found = pml.least_budget("histogram:6", guarantee, targets=5, effort="quick")
        assert found.at_least <= least <= found.enough
        assert found.enough == pytest.approx(least, rel=1e-5)
        assert found.mechanism.max_std <= 5


def test_epsilon_inverts_the_profile():
    found = pml.least_budget("histogram:6", DELTA, targets=5, noise="gaussian")
    assert found.gap <= 1e-5
    at = stats.norm.cdf
    delta = [
        at(0.1 - 5 * e) - math.exp(e) * at(-0.1 - 5 * e) for e in (found.at_least, found.enough)
    ]
    assert delta[1] <= 1e-6 <= delta[0] * (1 + 1e-8)


@pytest.mark.parametrize("currency", [pml.ZCDP(1), DELTA])
def test_running_sums_with_targets_over_two_orders_of_magnitude(currency):
    targets = np.exp(np.random.default_rng(5).uniform(0, math.log(100), 96))
    found = pml.least_budget("prefix:96", currency, targets=targets, noise="gaussian")
    assert found.gap <= 1e-5
    assert (found.mechanism.standard_deviations <= targets).all()
    strict = pml.least_budget("prefix:96", currency, targets=float(targets.min()), noise="gaussian")
    assert found.enough < 0.7 * strict.enough


def test_age_groups_of_the_census():
    names = {"total": 20.0, "male": 20.0, "female": 20.0}
    targets = named_targets(pml.workload("census-p12"), names, 5.0)
    assert sorted(set(targets.values.tolist())) == [5, 20]
    assert (targets.values == 20).sum() == 3
    found = pml.least_budget("census-p12", DELTA, targets=targets, noise="gaussian")
    assert found.gap <= 1e-5
    equal, _ = found.budget_of(pml.strategy("workload", pml.workload("census-p12")), "gaussian")
    assert equal > 1.05 * found.enough
    deviations = found.mechanism.standard_deviations
    assert (deviations <= targets.values).all()


@pytest.mark.parametrize("guarantee", [pml.PureDP(1), pml.ApproxDP(1, 1e-6), pml.PML(1, 0.01)])
def test_ctrl_c_in_the_design_ends_everything(guarantee, monkeypatch):
    calls = []

    def stop(step):
        calls.append(step)
        raise KeyboardInterrupt

    monkeypatch.setattr("pmldesign.designs.laplace.search.laplace_design", stop)
    found = pml.least_budget("prefix:16", guarantee, targets=5.0, callback=stop)
    assert found.design.status is Status.INTERRUPTED
    assert len(calls) == 1
    assert found.mechanism.standard_deviations.max() <= 5


def test_targets_scale_the_budget():
    """Ten times the deviation is a hundredth of rho."""
    one, ten = (
        pml.least_budget("prefix:9", pml.ZCDP(1), targets=c, noise="gaussian") for c in (1, 10)
    )
    assert one.enough == pytest.approx(100 * ten.enough, rel=1e-5)


def test_targets_of_parts_and_tables():
    union = pml.workload("prefix:8+histogram:8")
    by_part = named_targets(union, {"prefix:8": 4.0, "2": 1.0}, None)
    each = pml.least_budget(union, pml.ZCDP(1), targets=[4.0] * 8 + [1.0] * 8, noise="gaussian")
    parts = pml.least_budget(union, pml.ZCDP(1), targets=by_part, noise="gaussian")
    assert parts.enough == pytest.approx(each.enough, rel=1e-5)
    tables = pml.workload("marginals:3,4,upto=2")
    by_table = named_targets(tables, {"1": 9.0, "4": 2.0}, 5.0)
    found = pml.least_budget(tables, pml.ZCDP(1), targets=by_table, noise="gaussian")
    values = np.repeat([9.0, 5.0, 5.0, 2.0], [1, 3, 4, 12])
    dense = pml.least_budget(tables.to_dense(), pml.ZCDP(1), targets=values, noise="gaussian")
    assert type(found.design.strategy).__name__ == "TablesStrategy"
    assert found.enough == pytest.approx(dense.enough, rel=1e-5)
    assert (found.mechanism.standard_deviations <= values).all()


def test_leakage():
    found = pml.least_budget("prefix:6", pml.PML(1, 0.1), targets=4.0, effort="quick")
    assert 0 <= found.at_least <= found.enough < math.log(10)
    noisy = found.mechanism
    assert noisy.max_std <= 4
    leak = pml.envelope.leakage(noisy.strategy, scale=noisy.scale, alpha=0.1)
    assert leak["leakage_upper"] <= found.enough * (1 + 1e-12)
    with pytest.raises(pml.VacuousGuaranteeError):
        pml.least_budget("prefix:6", pml.PML(1, 0.1), targets=0.01, effort="quick")
    gaussian = pml.EnvelopePML(1, 0.01, 0.1)
    found = pml.least_budget("prefix:4", gaussian, targets=8.0, noise="gaussian")
    assert found.at_least <= found.enough
    assert found.mechanism.max_std <= 8


@pytest.mark.parametrize("guarantee", [pml.EnvelopePML(1, 1e-3, 0.05), pml.PML(1, 0.05)])
def test_a_budget_under_pml_is_calibrated_once(monkeypatch, guarantee):
    """Every calibration takes as long as the search for the budget."""
    asked = []

    def counted(*arguments, **options):
        asked.append(arguments)
        return calibrate(*arguments, **options)

    monkeypatch.setattr(budgets, "calibrate", counted)
    for scale in (1.0, 3.0, 7.0):
        strategy = baseline("tree", parse_workload("prefix:8")).scaled(scale)
        queries = Targets(8.0).normalised(parse_workload("prefix:8"))
        found = answer(strategy, queries, guarantee.neighbours)
        asked.clear()
        noise = Noise.GAUSSIAN if guarantee.delta else Noise.LAPLACE
        enough = budgets.needed(found, guarantee, noise, None, None)
        assert len(asked) == 1
        assert enough.budget < math.log(20)


@pytest.mark.sweep
@pytest.mark.parametrize(
    "guarantee", [pml.ApproxDP(1, 0.1), pml.ApproxDP(1, 0.01), pml.GaussianDP(1)]
)
@pytest.mark.parametrize("ratio", [0.1, 2.0])
def test_steps_spread_over_many_measurements_need_no_less_than_the_bound(guarantee, ratio):
    """A count measured very often with Laplace noise is measured with Gaussian noise."""
    target = math.sqrt(2) / ratio
    found = pml.least_budget(
        "histogram:1", guarantee, targets=target, noise="laplace", effort="quick"
    )
    spread = PrivacyCurve(Noise.GAUSSIAN, ratio)
    reached = spread.epsilon(guarantee.delta) if guarantee.delta else spread.mu
    assert 0 <= found.at_least <= min(reached, found.enough)
    if isinstance(guarantee, pml.GaussianDP):
        listed = pml.bounds("histogram:1", guarantee=pml.GaussianDP(ratio))
        bound = next(bound for bound in listed if bound.name == "Laplace matrix mechanisms")
        assert bound.value <= target


@pytest.mark.parametrize("order", [1.0001, 2.0, 16.0])
def test_renyi_divergences_of_laplace_noise_are_concave_in_the_square(order):
    squares = np.linspace(1e-6, 40, 4001)
    values = [laplace_renyi(math.sqrt(square), order) for square in squares]
    assert (np.diff(values, 2) <= 1e-9).all()


@pytest.mark.sweep
@pytest.mark.parametrize(
    "guarantee", [pml.EnvelopePML(1, 1e-6, 0.05), pml.ApproxPML(1, 1e-3, 0.05)]
)
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_leakage_with_a_delta_has_a_bound(guarantee, noise):
    found = pml.least_budget("prefix:2", guarantee, targets=2.0, noise=noise, effort="quick")
    assert 0 < found.at_least <= found.enough


def tail(weights, h):
    """P(|V| > h) for a sum of Laplace numbers with distinct weights, by partial fractions."""
    weights = weights[weights > 1e-9 * weights.max()]
    others = [np.delete(weights, j) for j in range(len(weights))]
    shares = [np.prod(1 / (1 - (rest / w) ** 2)) for w, rest in zip(weights, others, strict=True)]
    return float(np.array(shares) @ np.exp(-h / weights))


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_half_widths_under_laplace_noise_are_quantiles(level):
    queries = np.random.default_rng(4).standard_normal((4, 3))
    asked = Targets(np.array([5.0, 6.0, 7.0, 8.0]), level=level)
    found = pml.least_budget(queries, pml.PureDP(1), targets=asked, effort="quick")
    rows = np.abs(found.mechanism.reconstruction()) * found.mechanism.scale
    misses = [tail(row, target) for row, target in zip(rows, asked.values, strict=True)]
    assert max(misses) <= 1 - level
    assert max(misses) == pytest.approx(1 - level, rel=1e-3)
    assert 0 < found.at_least <= found.enough
    assert found.tightest == pytest.approx(1, rel=1e-6)


def test_half_widths_under_gaussian_noise_are_multiples_of_standard_deviations():
    by_width = pml.least_budget(
        "prefix:6", pml.ApproxDP(1, 1e-6), targets=Targets(10.0, level=0.9), noise="gaussian"
    )
    same = 10 / stats.norm.ppf(0.95)
    by_deviation = pml.least_budget(
        "prefix:6", pml.ApproxDP(1, 1e-6), targets=same, noise="gaussian"
    )
    assert by_deviation.enough * (1 - 2e-5) <= by_width.enough
    assert by_width.enough == pytest.approx(by_deviation.enough, rel=5e-4)
    assert by_width.mechanism.max_std <= same
    with pytest.raises(pml.InvalidInputError, match="level"):
        Targets(10.0, level=1.0)


@pytest.mark.parametrize(
    ("guarantee", "level"),
    [
        (pml.PureDP(1.0), 0.95),
        (pml.PureDP(1.0, pml.Neighbours.REPLACE), None),
        (pml.PML(1.0, 0.1), 0.95),
        (pml.PML(1.0, 0.1), None),
        (pml.ZCDP(1.0), 0.95),
    ],
    ids=repr,
)
def test_no_usual_strategy_needs_less_than_the_design(guarantee, level):
    queries = parse_workload("histogram:2*prefix:3+histogram:2*total:3")
    found = pml.least_budget(queries, guarantee, targets=Targets(5.0, level=level), effort="quick")
    for name in ("identity", "tree", "haar", "workload"):
        needed, _ = found.budget_of(baseline(name, queries))
        assert found.enough <= needed * (1 + 1e-9)
    assert found.tightest <= 1


@pytest.mark.parametrize("level", [0.1, 0.5, 0.8, 0.95, 0.999])
def test_no_sum_of_laplace_numbers_has_narrower_intervals(level):
    share = least_share(Noise.LAPLACE, level)
    random = np.random.default_rng(0).exponential(size=(200, 6)) ** 2
    rows = np.vstack([random, np.ones(6), np.eye(6)[0]])
    widths = laplace_half_widths(rows, 1 - level)
    assert (widths >= share * np.sqrt(2 * (rows**2).sum(axis=1))).all()
    # what the proof asks for holds of other laws as well, such as the uniform and the normal one
    assert math.sqrt(3) * level >= share
    assert stats.norm.ppf((1 + level) / 2) >= share


@pytest.mark.parametrize(
    ("targets", "problem"),
    [
        (0, "positive"),
        ([1, 2], "6 queries"),
        ([1, 2, 3, 4, 5, math.nan], "number 5"),
        ("few", "must hold real numbers"),
        (np.ones((2, 3)), "one row"),
    ],
)
def test_bad_targets_are_refused(targets, problem):
    with pytest.raises(pml.InvalidInputError, match=problem):
        pml.least_budget("prefix:6", DELTA, targets=targets)


def test_bad_names_are_refused():
    queries = pml.workload("prefix:8+histogram:8")
    with pytest.raises(pml.InvalidInputError, match="no part or query is called 'tree'"):
        named_targets(queries, {"tree": 1.0}, 2.0)
    with pytest.raises(pml.InvalidInputError, match="no target for 'histogram:8'"):
        named_targets(queries, {"1": 1.0}, None)
    with pytest.raises(pml.InfeasibleError):
        pml.least_budget("prefix:6", pml.PureDP(1), targets=5, noise="gaussian")
