"""Strategies of whole numbers: the answers are right without noise, the sensitivities exact."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from fast_sampler import no_noise

from pmldesign.designs import factorize
from pmldesign.mechanisms import integers, mechanism
from pmldesign.privacy import PML, ApproxDP, ApproxPML, Neighbours, Noise, PureDP, gaussian_delta
from pmldesign.releases import exact_noise, gaussian_parameter, laplace_parameter
from pmldesign.strategies import ProductStrategy, Strategy, baseline
from pmldesign.workloads import DenseWorkload, parse_workload

RNG = np.random.default_rng(1)
GUARANTEES = [
    PureDP(1.0),
    ApproxDP(1.0, 1e-6),
    PureDP(0.7, Neighbours.REPLACE),
    ApproxDP(1.0, 1e-6, Neighbours.REPLACE),
    PML(0.5, 0.01),
    ApproxPML(0.5, 1e-6, 0.01),
]
NOT_WHOLE = DenseWorkload(np.vstack([np.eye(3), np.full((1, 3), 1 / 3)]) @ RNG.normal(size=(3, 6)))


def designs():
    yield "dense", "prefix:12", None
    yield "wide", "total:4*prefix:3+histogram:4*total:3", None
    yield "census", "census-p12", "workload"
    yield "tree", "prefix:11", "tree"
    yield "product", "prefix:4*all-range:3", None
    yield "product of trees", "prefix:4*prefix:5", "tree"
    yield "three trees", "prefix:3*prefix:2*prefix:5", "tree"
    yield "marginals", "marginals:2,3,4,ways=2", None
    yield "not whole", NOT_WHOLE, None


CASES = list(itertools.product(list(designs()), GUARANTEES))


@pytest.mark.parametrize(
    ("case", "guarantee"), CASES, ids=[f"{c[0]}-{type(g).__name__}" for c, g in CASES]
)
def test_without_noise_the_answers_are_those_of_the_data(case, guarantee):
    _, text, name = case
    queries = parse_workload(text) if isinstance(text, str) else text
    if not isinstance(guarantee, PureDP | ApproxDP) and queries.shape[1] > 99:
        guarantee = replace(guarantee, alpha=0.004)
    strategy = (
        factorize(queries, neighbours=guarantee.neighbours).strategy
        if name is None
        else baseline(name, queries)
    )
    gaussian = isinstance(guarantee, ApproxDP | ApproxPML)
    kind = "gaussian" if gaussian else "laplace"
    made = mechanism(strategy, queries, guarantee=guarantee, noise=kind)
    noisy = exact_noise(made)
    x = RNG.integers(0, 50_000_000, queries.shape[1])
    y = noisy.measure(x, sampler=no_noise)
    answers = noisy.lattice.estimator.answer(made.workload, y)
    if guarantee.neighbours is Neighbours.REPLACE:
        answers = answers + queries.matvec(np.full(len(x), x.sum() / len(x)))
    truth = queries.matvec(x.astype(float))
    assert np.allclose(answers, truth, rtol=1e-9, atol=1e-6)
    # no worse than the design by more than 1e-6, and not better either: it is the same strategy
    ratio = noisy.noise_scale * noisy.factorization.unit_error(made.noise, 2) / made.error(2)
    assert 1 - 1e-6 < ratio <= 1 + 1e-6


def test_sensitivities_are_those_of_the_whole_numbers():
    queries = parse_workload("prefix:9")
    for neighbours in Neighbours:
        noisy = exact_noise(
            mechanism(baseline("square-root", queries), queries, guarantee=PureDP(1.0, neighbours))
        )
        columns = [[int(v) for v in column] for column in noisy.lattice.matrix.T]
        if neighbours is Neighbours.ADD_REMOVE:
            l1 = max(sum(map(abs, c)) for c in columns)
            l2 = max(sum(v * v for v in c) for c in columns)
            assert noisy.lattice.sensitivity(neighbours, Noise.GAUSSIAN) == (l2, True)
        else:
            pairs = list(itertools.combinations(columns, 2))
            l1 = max(sum(abs(a - b) for a, b in zip(c, d, strict=True)) for c, d in pairs)
            l2 = max(sum((a - b) ** 2 for a, b in zip(c, d, strict=True)) for c, d in pairs)
            upper, _ = noisy.lattice.sensitivity(neighbours, Noise.GAUSSIAN)
            assert l2 <= upper <= l2 * (1 + 1e-11)
        assert noisy.lattice.sensitivity(neighbours, Noise.LAPLACE) == (l1, True)


def test_sensitivities_of_structures_are_at_least_those_of_the_matrix():
    for text, name in (
        ("prefix:4*all-range:3", None),
        ("prefix:4*prefix:5", "tree"),
        ("marginals:2,3,4,ways=2", None),
    ):
        queries = parse_workload(text)
        strategy = factorize(queries).strategy if name is None else baseline(name, queries)
        for guarantee in (PureDP(1.0), ApproxDP(1.0, 1e-6)):
            noisy = exact_noise(mechanism(strategy, queries, guarantee=guarantee))
            eye = np.eye(queries.shape[1], dtype=np.int64)
            whole = np.stack([noisy.lattice.image(row) for row in eye], axis=1).astype(object)
            if noisy.mechanism.noise is Noise.LAPLACE:
                exact = abs(whole).sum(axis=0).max()
            else:
                exact = (whole * whole).sum(axis=0).max()
            assert exact <= noisy.sensitivity <= exact * (1 + 1e-6)
            assert noisy.sensitivity == exact or not noisy.exact


@pytest.mark.parametrize(("sensitivity", "epsilon"), [(7, 0.7), (3, 0.1), (2**61 + 1, 1 / 3)])
def test_the_parameter_of_laplace_noise_is_rounded_to_the_private_side(sensitivity, epsilon):
    scale = laplace_parameter(sensitivity, epsilon)
    assert Fraction(sensitivity) / Fraction(scale) <= Fraction(epsilon)
    below = math.nextafter(scale, 0)
    assert Fraction(sensitivity) / Fraction(below) > Fraction(epsilon)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 5.1e7, 2.0**40])
def test_the_parameter_of_gaussian_noise_has_four_more_in_its_square(sigma):
    scale = gaussian_parameter(sigma)
    assert Fraction(scale) ** 2 >= Fraction(sigma) ** 2 + 4
    assert Fraction(math.nextafter(scale, 0)) ** 2 <= Fraction(sigma) ** 2 + 4


def test_the_continuous_gaussian_meets_the_guarantee_on_the_exact_sensitivity():
    queries = parse_workload("prefix:16")
    guarantee = ApproxDP(1.0, 1e-6)
    once = mechanism(factorize(queries).strategy, queries, guarantee=guarantee)
    for rows in (1, 3):
        made = mechanism(once, guarantee=guarantee, participation=f"{rows},any")
        noisy = exact_noise(made)
        distance = math.sqrt(noisy.sensitivity)
        assert noisy.sensitivity == rows**2 * exact_noise(once).sensitivity
        assert gaussian_delta(distance, noisy.continuous, 1.0) <= 1e-6
        assert gaussian_delta(distance, noisy.continuous / (1 + 2e-6), 1.0) > 1e-6
        assert math.isclose(
            float(noisy.squared_ratio), (distance / noisy.continuous) ** 2, rel_tol=1e-12
        )


def test_an_ill_conditioned_strategy_gets_a_finer_lattice():
    monomials = np.vander(np.linspace(0, 1, 7), increasing=True)
    queries = DenseWorkload(np.tril(np.ones((7, 7))))
    made = mechanism(Strategy("monomials", monomials), queries, guarantee=PureDP(1.0))
    noisy = exact_noise(made)
    ratio = noisy.noise_scale * noisy.factorization.unit_error(made.noise, 2) / made.error(2)
    assert ratio <= 1 + 1e-6


def test_a_bias_is_stated_and_holds():
    queries = NOT_WHOLE
    made = mechanism(factorize(queries).strategy, queries, guarantee=PureDP(1.0))
    noisy = exact_noise(made)
    assert noisy.lattice.bias > 0
    x = np.array([10**9, 0, 0, 0, 0, 3])
    y = noisy.measure(x, sampler=no_noise)
    off = np.abs(made.strategy.answer(queries, y) - queries.matvec(x.astype(float)))
    allowed = np.abs(made.strategy.reconstruction(queries)).sum(axis=1) * noisy.lattice.bias
    assert (off <= allowed * x.sum() + 1e-6).all()


def test_whole_numbers_do_not_overflow():
    matrix = np.array([[2**48, -(2**47)], [1, 1]])
    x = np.array([10**8, 3 * 10**8])
    exact = [[int(v) for v in row] for row in matrix]
    expected = [sum(a * int(b) for a, b in zip(row, x, strict=True)) for row in exact]
    assert integers.times(matrix, x).tolist() == expected
    assert integers.scaled(np.array([2**60]), np.array([2**40])).tolist() == [2**100]
    column = np.array([2**60, 5, 7], dtype=np.int64)
    assert integers.contrasts(column).tolist() == [2**60 - 5, 2**60 + 5 - 14]
    tall = np.full((40_000, 1), -(2**49))
    assert integers.largest_square_column(tall) == 40_000 * 2**98
    assert integers.largest_absolute_column(tall) == 40_000 * 2**49
    assert integers.largest_square_column(matrix) == 2**96 + 1
    assert integers.largest_absolute_column(matrix) == 2**48 + 1


def test_rows_per_person_is_for_differential_privacy():
    queries = parse_workload("prefix:8")
    with pytest.raises(ValueError, match="rows_per_person must be 1 under PML, got 2"):
        mechanism(
            baseline("identity", queries), queries, guarantee=PML(0.5, 0.1), participation="2,any"
        )
    with pytest.raises(ValueError, match="needs a guarantee"):
        exact_noise(mechanism(baseline("identity", queries), queries))


def test_weights_of_products_become_whole_multiples():
    queries = parse_workload("prefix:3*histogram:2+histogram:3*total:2")
    factors = [Strategy("t", np.tril(np.ones((3, 3)))), Strategy("o", [[1, 1], [1, -1]])]
    strategy = ProductStrategy("weighted", factors, weights=RNG.uniform(0.5, 2, 6))
    for guarantee, noise in ((PureDP(1.0), "laplace"), (ApproxDP(1.0, 1e-6), "gaussian")):
        made = mechanism(strategy, queries, guarantee=guarantee, noise=noise)
        noisy = exact_noise(made)
        x = RNG.integers(0, 10**6, 6)
        y = noisy.measure(x, sampler=no_noise)
        answers = noisy.lattice.estimator.answer(queries, y)
        assert np.allclose(answers, queries.matvec(x.astype(float)))
        whole = np.stack([noisy.lattice.image(row) for row in np.eye(6, dtype=np.int64)], axis=1)
        norm = np.abs(whole).sum(0) if made.noise is Noise.LAPLACE else (whole * whole).sum(0)
        assert norm.max() <= noisy.sensitivity <= norm.max() * (1 + 1e-6)
        ratio = noisy.noise_scale * noisy.factorization.unit_error(made.noise, 2) / made.error(2)
        assert 1 - 1e-6 < ratio <= 1 + 1e-6


def test_three_rounded_factors_stay_within_the_range_of_the_sampler(monkeypatch):
    queries = parse_workload("prefix:6*prefix:5*prefix:4")
    made = mechanism(factorize(queries).strategy, queries, guarantee=ApproxDP(0.01, 1e-9))
    noisy = exact_noise(made)
    ratio = noisy.noise_scale * noisy.factorization.unit_error(made.noise, 2) / made.error(2)
    assert 1 - 1e-6 < ratio <= 1 + 1e-6
    assert noisy.scale <= 2**55
    monkeypatch.setattr("pmldesign.strategies.structured.WRITTEN_CELLS", 0)  # factor by factor
    noisy = exact_noise(made)
    assert noisy.lattice.matrix is None
    ratio = noisy.noise_scale * noisy.factorization.unit_error(made.noise, 2) / made.error(2)
    assert 1 - 1e-3 < ratio <= 1 + 1e-3
    assert noisy.scale <= 2**55


LARGE = [
    ("prefix:60*histogram:40", ApproxDP(1.0, 1e-6)),
    ("prefix:60*histogram:40", ApproxDP(1.0, 1e-6, Neighbours.REPLACE)),
    ("prefix:20*histogram:105+histogram:20*total:105", ApproxDP(1.0, 1e-6)),
]


@pytest.mark.parametrize(("text", "guarantee"), LARGE, ids=["product", "public total", "blocks"])
def test_large_structures_are_measured_in_whole_numbers(text, guarantee):
    queries = parse_workload(text)
    found = factorize(queries, neighbours=guarantee.neighbours, rel_gap=0.1)
    made = mechanism(found.strategy, queries, guarantee=guarantee, noise="gaussian")
    noisy = exact_noise(made)
    x = RNG.integers(0, 10**6, queries.shape[1])
    y = noisy.measure(x, sampler=no_noise)
    answers = noisy.lattice.estimator.answer(made.workload, y)
    if guarantee.neighbours is Neighbours.REPLACE:
        answers = answers + queries.matvec(np.full(len(x), x.sum() / len(x)))
    assert np.allclose(answers, queries.matvec(x.astype(float)), rtol=1e-9, atol=1)
    assert noisy.noise_scale <= made.scale * (1 + 1e-6)
