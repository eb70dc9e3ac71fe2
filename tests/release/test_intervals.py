"""Intervals: closed forms of tails, and the share of simulated releases that they cover."""

import math

import numpy as np
import pytest
from fast_sampler import fast_sampler
from scipy.stats import norm

from pmldesign.designs import factorize
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import ApproxDP, PureDP
from pmldesign.releases import exact_noise, half_widths
from pmldesign.strategies import WeightedTablesStrategy, baseline, kinds_of_tables
from pmldesign.workloads import TablesWorkload, parse_workload
from pmldesign_solvers.search import (
    condensed_half_widths,
    inverted_half_widths,
    laplace_half_widths,
    moment_bound,
)


def tail_of_different(weights, h):
    """P(|V| > h) by partial fractions, for different weights."""
    total = 0.0
    for i, a in enumerate(weights):
        others = [a * a / (a * a - b * b) for j, b in enumerate(weights) if j != i]
        total += math.prod(others) * math.exp(-h / a)
    return total


@pytest.mark.parametrize("miss", [0.5, 0.05, 1e-4])
@pytest.mark.parametrize("weights", [[1.0], [3.0, 1.0], [1.0, 0.01], [5.0, 3.0, 2.0, 1.1, 0.3]])
def test_half_widths_of_laplace_noise_match_partial_fractions(weights, miss):
    (h,) = laplace_half_widths(np.array([weights]), miss)
    assert math.isclose(tail_of_different(weights, h), miss, rel_tol=1e-6)
    (bound,) = moment_bound(np.array([math.sqrt(2 * sum(w * w for w in weights))]), miss)
    assert bound >= h


def test_equal_weights_have_their_own_closed_form():
    # two equal ones: P(|V| > h) = (1 + h / 2) e^-h;  400 of them are nearly Gaussian
    (h,) = laplace_half_widths(np.ones((1, 2)), 0.05)
    assert math.isclose((1 + h / 2) * math.exp(-h), 0.05, rel_tol=1e-7)
    (h,) = inverted_half_widths(np.full((1, 400), 1 / math.sqrt(800)), 0.05)
    assert math.isclose(h, norm.isf(0.025), rel_tol=2e-3)
    assert laplace_half_widths(np.zeros((2, 3)), 0.05).tolist() == [0, 0]


def released(guarantee, text="prefix:4*histogram:2", name=None):
    queries = parse_workload(text)
    strategy = factorize(queries).strategy if name is None else baseline(name, queries)
    noise = "gaussian" if isinstance(guarantee, ApproxDP) else "laplace"
    return exact_noise(mechanism(strategy, queries, guarantee=guarantee, noise=noise))


@pytest.mark.parametrize("guarantee", [PureDP(1.0), ApproxDP(1.0, 1e-6)])
def test_coverage_of_each_query_and_of_all_together(guarantee):
    noisy, runs = released(guarantee), 100_000
    m, r = noisy.mechanism.workload.shape[0], noisy.lattice.units.size
    eta = fast_sampler(11)(noisy.mechanism.noise, noisy.scale, runs * r).reshape(runs, r)
    errors = (eta * noisy.lattice.units) @ noisy.factorization.strategy.reconstruction(
        noisy.mechanism.workload
    ).T
    covered = (np.abs(errors) <= half_widths(noisy.of_answers, 0.95)).mean(axis=0)
    assert 0.948 <= covered.min() <= covered.max() <= 0.952
    together = half_widths(noisy.of_answers, 0.95, simultaneous=True)
    assert (np.abs(errors) <= together).all(axis=1).mean() >= 0.948
    assert covered.shape == (m,)
    assert (noisy.mechanism.noise == "gaussian") is isinstance(guarantee, ApproxDP)


def test_the_level_must_be_a_probability():
    with pytest.raises(ValueError, match="level must be in"):
        half_widths(released(PureDP(1.0)).of_answers, 1.0)


def test_kinds_of_rows_of_products_have_the_same_laws(monkeypatch):
    noisy = released(PureDP(1.0), text="prefix:4*histogram:2+histogram:4*total:2", name="tree")
    exact = half_widths(noisy.of_answers, 0.9)
    monkeypatch.setattr("pmldesign.releases.intervals.LARGEST_L", 100)
    assert exact.size * noisy.lattice.units.size > 100
    assert np.allclose(half_widths(noisy.of_answers, 0.9), exact, rtol=1e-8)


def test_large_workloads_get_the_bound(monkeypatch):
    noisy = released(PureDP(1.0), text="prefix:6", name="tree")
    exact = half_widths(noisy.of_answers, 0.9)
    monkeypatch.setattr("pmldesign.releases.intervals.LARGEST_L", 0)
    monkeypatch.setattr("pmldesign.releases.intervals.MOST_ENTRIES", 0)
    assert (half_widths(noisy.of_answers, 0.9) >= exact).all()


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_kinds_of_rows_of_weighted_tables_are_those_of_the_matrix(neighbours):
    sizes, generator = (2, 3, 1, 4), np.random.default_rng(3)
    queries = TablesWorkload(sizes, [(0, 1), (1, 3), (2,), ()], weights=[1, 2, 1, 0.5])
    measured = [(0, 1), (1, 3), (0,), (1, 2), ()]
    strategy = WeightedTablesStrategy("own", sizes, measured, generator.uniform(0.5, 2, 5))
    made = mechanism(strategy, queries, guarantee=PureDP(1.0, neighbours))
    rows = np.sort(np.abs(made.reconstruction()), axis=1)[:, ::-1]
    found = []
    for part in kinds_of_tables(made.strategy, made.workload, 10**6, 10**6):
        ((values, counts),) = part.chunks
        kind = np.repeat(values.ravel(), counts.ravel().astype(int))
        found += [np.sort(kind)[::-1]] * len(part.places)
    width = min(rows.shape[1], *map(len, found))
    assert np.allclose(rows[:, :width], [row[:width] for row in found], atol=1e-12)
    assert not rows[:, width:].any()
    assert not any(row[width:].any() for row in found)


def test_counts_stand_for_repeated_weights():
    rows = np.array([[3.0, 1.0, 1.0, 1.0, 0.5]])
    exact = laplace_half_widths(rows, 0.05)
    values, counts = np.array([[0.5, 1.0, 3.0]]), np.array([[1.0, 3.0, 1.0]])
    assert np.allclose(laplace_half_widths(values, 0.05, counts), exact, rtol=1e-9)


@pytest.mark.parametrize("miss", [0.1, 0.05, 1e-3])
def test_long_rows_are_condensed_to_their_variance_and_kurtosis(miss):
    generator = np.random.default_rng(5)
    powers = generator.uniform(0.2, 3, (12, 1))
    rows = generator.uniform(0, 1, (12, 500)) * np.arange(1, 501) ** -powers
    exact, short = inverted_half_widths(rows, miss), condensed_half_widths(rows, miss)
    assert (short >= exact).all()
    assert (short <= exact * (1 + 2e-4)).all()
    assert (laplace_half_widths(rows, miss) == short).all()
