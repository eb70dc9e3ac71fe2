"""The least budget for given accuracies."""

import math

import numpy as np
import pytest
from random_targets import check
from scipy import stats

import pmldesign as pml
from pmldesign.designs.targets.accuracy import half_width_as_deviation, named_targets

DELTA = pml.ApproxDP(1, 1e-6)


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
        found = pml.least_budget("histogram:6", 5, guarantee, search_time=0.1)
        assert found.at_least <= least <= found.enough
        assert found.enough == pytest.approx(least, rel=1e-5)
        assert found.mechanism.max_std <= 5


def test_epsilon_inverts_the_profile():
    found = pml.least_budget("histogram:6", 5, DELTA, noise="gaussian")
    assert found.gap <= 1e-5
    at = stats.norm.cdf
    delta = [
        at(0.1 - 5 * e) - math.exp(e) * at(-0.1 - 5 * e) for e in (found.at_least, found.enough)
    ]
    assert delta[1] <= 1e-6 <= delta[0] * (1 + 1e-8)


@pytest.mark.parametrize("currency", [pml.ZCDP(1), DELTA])
def test_running_sums_with_targets_over_two_orders_of_magnitude(currency):
    targets = np.exp(np.random.default_rng(5).uniform(0, math.log(100), 96))
    found = pml.least_budget("prefix:96", targets, currency, noise="gaussian")
    assert found.gap <= 1e-5
    assert (found.mechanism.standard_deviations <= targets).all()
    strict = pml.least_budget("prefix:96", float(targets.min()), currency, noise="gaussian")
    assert found.enough < 0.7 * strict.enough


def test_age_groups_of_the_census():
    names = {"total": 20.0, "male": 20.0, "female": 20.0}
    targets = named_targets(pml.workload("census-p12"), names, 5.0)
    assert sorted(set(targets.values.tolist())) == [5, 20]
    assert (targets.values == 20).sum() == 3
    found = pml.least_budget("census-p12", targets, DELTA, noise="gaussian")
    assert found.gap <= 1e-5
    equal, _ = found.budget_of(pml.strategy("workload", pml.workload("census-p12")), "gaussian")
    assert equal > 1.05 * found.enough
    deviations = found.mechanism.standard_deviations
    assert (deviations <= targets.values).all()


def test_targets_scale_the_budget():
    """Ten times the deviation is a hundredth of rho."""
    one, ten = (pml.least_budget("prefix:9", c, pml.ZCDP(1), noise="gaussian") for c in (1, 10))
    assert one.enough == pytest.approx(100 * ten.enough, rel=1e-5)


def test_targets_of_parts_and_tables():
    union = pml.workload("prefix:8+histogram:8")
    by_part = named_targets(union, {"prefix:8": 4.0, "2": 1.0}, None)
    each = pml.least_budget(union, [4.0] * 8 + [1.0] * 8, pml.ZCDP(1), noise="gaussian")
    parts = pml.least_budget(union, by_part, pml.ZCDP(1), noise="gaussian")
    assert parts.enough == pytest.approx(each.enough, rel=1e-5)
    tables = pml.workload("marginals:3,4,upto=2")
    by_table = named_targets(tables, {"1": 9.0, "4": 2.0}, 5.0)
    found = pml.least_budget(tables, by_table, pml.ZCDP(1), noise="gaussian")
    values = np.repeat([9.0, 5.0, 5.0, 2.0], [1, 3, 4, 12])
    dense = pml.least_budget(tables.to_dense(), values, pml.ZCDP(1), noise="gaussian")
    assert type(found.design.strategy).__name__ == "MarginalsStrategy"
    assert found.enough == pytest.approx(dense.enough, rel=1e-5)
    assert (found.mechanism.standard_deviations <= values).all()


def test_leakage():
    found = pml.least_budget("prefix:6", 4.0, pml.PML(1, 0.1), search_time=0.3)
    assert 0 <= found.at_least <= found.enough < math.log(10)
    noisy = found.mechanism
    assert noisy.max_std <= 4
    leak = pml.leakage(noisy.strategy, scale=noisy.scale, alpha=0.1)
    assert leak["corollary1"] <= found.enough * (1 + 1e-12)
    with pytest.raises(pml.VacuousGuaranteeError):
        pml.least_budget("prefix:6", 0.01, pml.PML(1, 0.1), search_time=0.1)
    gaussian = pml.EnvelopePML(1, 0.01, 0.1)
    found = pml.least_budget("prefix:6", 8.0, gaussian, noise="gaussian")
    assert found.at_least <= found.enough
    assert found.mechanism.max_std <= 8


def test_half_widths_are_quantiles():
    assert half_width_as_deviation(10, 0.95) == pytest.approx(10 / stats.norm.ppf(0.975))
    with pytest.raises(pml.InvalidInputError):
        half_width_as_deviation(10, 1.0)


@pytest.mark.parametrize(
    ("targets", "problem"),
    [
        (0, "positive"),
        ([1, 2], "6 queries"),
        ([1, 2, 3, 4, 5, math.nan], "number 5"),
        ("few", "must be numbers"),
        (np.ones((2, 3)), "one row"),
    ],
)
def test_bad_targets_are_refused(targets, problem):
    with pytest.raises(pml.InvalidInputError, match=problem):
        pml.least_budget("prefix:6", targets, DELTA)


def test_bad_names_are_refused():
    queries = pml.workload("prefix:8+histogram:8")
    with pytest.raises(pml.InvalidInputError, match="no part or query is called 'tree'"):
        named_targets(queries, {"tree": 1.0}, 2.0)
    with pytest.raises(pml.InvalidInputError, match="no target for 'histogram:8'"):
        named_targets(queries, {"1": 1.0}, None)
    with pytest.raises(pml.InfeasibleError):
        pml.least_budget("prefix:6", 5, pml.PureDP(1), noise="gaussian")
