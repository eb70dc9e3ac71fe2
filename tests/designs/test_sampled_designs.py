"""Banded strategies for steps that are drawn: brute force, closed forms and known optima."""

import numpy as np
import pytest
import scipy

import pmldesign as pml
from pmldesign.designs import with_parts
from pmldesign.errors import InvalidInputError
from pmldesign.strategies import as_participation, bands_of
from pmldesign_solvers.participation import level_banded
from pmldesign_solvers.streams import RunningSums


def sums(cells, rate=1.0, weights=None):
    weights = np.ones(cells) if weights is None else weights
    return RunningSums(np.full(cells - 1, rate), weights, np.ones(cells))


def solved(problem, bands):
    return level_banded.solve(problem, bands, lambda _: False)


def queries(problem):
    lags = np.subtract.outer(np.arange(problem.cells), np.arange(problem.cells))
    rate = problem.rates[0] if problem.cells > 1 else 1.0
    powers = np.where(lags >= 0, rate ** np.maximum(lags, 0), 0.0)
    return np.sqrt(problem.query_squares)[:, None] * powers


def error(problem, matrix):
    return np.linalg.norm(queries(problem) @ np.linalg.inv(matrix))


def by_force(problem, bands):
    """The least error that a search without gradients finds from several starts."""
    n = problem.cells
    places = [(i, j) for j in range(n) for i in range(j, min(n, j + bands))]

    def loss(x):
        matrix = np.zeros((n, n))
        matrix[tuple(zip(*places, strict=True))] = x
        matrix /= np.linalg.norm(matrix, axis=0)
        return error(problem, matrix)

    rng, best = np.random.default_rng(1), np.inf
    for _ in range(3):
        start = [1.0 if i == j else rng.uniform(0, 0.5) for i, j in places]
        found = scipy.optimize.minimize(loss, start, method="Powell", options={"ftol": 1e-10})
        best = min(best, found.fun)
    return best


@pytest.mark.parametrize(
    ("problem", "bands"),
    [
        (sums(4), 2),
        (sums(5), 3),
        (sums(4, 0.5), 3),
        (sums(4, weights=np.array([1.0, 3.0, 0.5, 2.0])), 2),
    ],
)
def test_no_banded_strategy_with_columns_of_norm_1_is_better(problem, bands):
    found = solved(problem, bands)
    value = error(problem, found.matrix)
    assert np.linalg.norm(found.matrix, axis=0) == pytest.approx(np.ones(problem.cells), rel=1e-12)
    assert not np.tril(found.matrix, -bands).any()
    assert not np.triu(found.matrix, 1).any()
    assert found.lower <= value <= found.lower * (1 + 1e-4)
    assert value == pytest.approx(by_force(problem, bands), rel=1e-5)


def test_one_band_is_the_identity_and_all_bands_are_the_optimum_for_one_step():
    for n in (1, 2, 9):
        assert solved(sums(n), 1).matrix == pytest.approx(np.eye(n))
        assert solved(sums(n), 1).lower == pytest.approx(np.sqrt(n * (n + 1) / 2), rel=1e-6)
    whole = solved(sums(24), 24)
    optimum = pml.factorize("prefix:24").certificate
    assert error(sums(24), whole.matrix) == pytest.approx(optimum.upper, rel=1e-5)
    assert whole.lower <= optimum.upper


def test_weights_of_the_lower_bound_prove_it_for_every_strategy_of_the_bands():
    problem, rng = sums(12), np.random.default_rng(2)
    found = solved(problem, 4)
    apart = np.abs(np.subtract.outer(np.arange(12), np.arange(12)))
    assert not found.weights[(apart > 0) & (apart < 4)].any()
    assert np.linalg.eigvalsh(found.weights)[0] >= -1e-12
    for _ in range(50):
        matrix = np.tril(np.triu(rng.uniform(-1, 1, (12, 12)), -3)) + np.eye(12)
        assert error(problem, matrix / np.linalg.norm(matrix, axis=0)) >= found.lower


@pytest.mark.parametrize(("cells", "bands", "rate"), [(30, 3, 1.0), (30, 4, 0.8), (9, 9, 1.0)])
def test_toeplitz_coefficients_are_at_a_minimum(cells, bands, rate):
    best = level_banded.toeplitz(cells, bands, rate)

    def value(coefficients):
        first = np.append(coefficients, np.zeros(cells - bands))
        matrix = np.tril(scipy.linalg.toeplitz(first))
        return error(sums(cells, rate), matrix) * np.linalg.norm(coefficients)

    rng = np.random.default_rng(3)
    least = value(best)
    for size in (1e-3, 1e-2, 0.1):
        for _ in range(20):
            assert value(best + size * rng.normal(size=bands)) >= least * (1 - 1e-9)


def test_designs_are_certified_and_no_worse_than_the_root():
    design = pml.factorize("prefix:60", participation="sampled,every=8,rate=0.2")
    assert design.certificate.gap <= 1e-4
    assert design.strategy.sampling.rounds == 8
    ours, root = (
        pml.mechanism(strategy, "prefix:60", participation="sampled,every=8,rate=0.2").rmse
        for strategy in (design.strategy, "banded:8")
    )
    assert ours < root


def test_long_designs_are_toeplitz_with_so_many_bands():
    design = pml.factorize("prefix:3000", participation="sampled,every=8,rate=0.2", buffers=None)
    assert bands_of(design.strategy.whole).shape == (3000, 8)
    assert design.certificate.lower <= design.certificate.upper
    root = pml.mechanism("banded:8", "prefix:3000", participation="sampled,every=8,rate=0.2")
    assert pml.mechanism(design).rmse < root.rmse


def test_the_number_of_parts_goes_with_the_guarantee():
    """Much privacy asks for fresh draws from all records, little for noise that cancels."""
    share = as_participation("sampled,share=0.12")
    chosen = [
        with_parts(pml.workload("prefix:8"), share, pml.ApproxDP(epsilon, 1e-3))
        for epsilon in (0.1, 3.0)
    ]
    assert chosen[0].apart < chosen[1].apart
    assert [one.rate / one.apart for one in chosen] == pytest.approx([0.12, 0.12])


@pytest.mark.parametrize(
    ("workload", "participation", "more", "said"),
    [
        ("all-range:6", "sampled,every=2,rate=0.1", {}, "banded strategies of running sums"),
        ("prefix:6", "sampled,every=2,rate=0.1", {"buffers": 2}, "got buffers"),
        ("prefix:6", "sampled,every=2,rate=0.1", {"neighbours": "replace"}, "add-remove"),
        ("prefix:6", "sampled,every=2,rate=0.1", {"p": 4}, "p = 2"),
        ("prefix:6", "sampled,share=0.1", {}, "leaves the number of parts to `optimize`"),
    ],
)
def test_what_is_not_designed_is_refused_in_a_line(workload, participation, more, said):
    with pytest.raises(InvalidInputError, match=said):
        pml.factorize(workload, participation=participation, **more)


def test_the_number_of_parts_needs_a_guarantee_and_bounds_are_refused():
    with pytest.raises(InvalidInputError, match="for a guarantee of epsilon and delta"):
        pml.optimize("prefix:6", participation="sampled,share=0.1")
    with pytest.raises(InvalidInputError, match="no bounds are known"):
        pml.bounds(
            "prefix:6", guarantee=pml.ApproxDP(1, 1e-6), participation="sampled,every=2,rate=0.1"
        )


def test_without_draws_the_design_is_that_for_fixed_epochs():
    drawn, fixed = (
        pml.factorize("prefix:12", participation=text)
        for text in ("sampled,every=4,rate=1", "3,every=4")
    )
    assert drawn.certificate == fixed.certificate


def test_with_one_band_the_identity_is_the_optimum():
    """2,500 steps, which no matrix is written out for; no diagonal has a smaller error."""
    design = pml.factorize("prefix:2500", participation="sampled,every=1,rate=0.001")
    assert (design.strategy.whole.coefficients[1:] == 0).all()
    assert design.certificate.gap < 1e-9
    expected = np.sqrt(2500 * 2500 * 2501 / 2)
    assert design.certificate.upper == pytest.approx(expected, rel=1e-9)
    short = pml.factorize("prefix:6", participation="sampled,every=1,rate=0.001")
    assert short.certificate.upper == pytest.approx(np.sqrt(6 * 21), rel=1e-12)
    with pytest.raises(InvalidInputError, match="not lower triangular"):
        pml.mechanism(
            "haar",
            "prefix:2500",
            guarantee=pml.ApproxDP(1, 1e-6),
            participation="sampled,every=1,rate=0.001",
        )
