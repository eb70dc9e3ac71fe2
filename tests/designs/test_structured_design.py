"""Designs that are never written out: products, unions of products and marginals."""

import math

import numpy as np
import pytest

import pmldesign.designs.laplace.course
from pmldesign.designs import DesignOptions, factorize, laplace_design
from pmldesign.designs import dispatch as solving
from pmldesign.errors import InvalidInputError
from pmldesign.files import read_strategy, write_strategy
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import PML, ApproxDP, Noise, PureDP, gaussian_moment_root
from pmldesign.strategies import (
    BlockStrategy,
    ProductStrategy,
    Strategy,
    TablesStrategy,
    baseline,
)
from pmldesign.workloads import (
    DenseWorkload,
    KroneckerWorkload,
    TablesWorkload,
    UnionWorkload,
    parse_workload,
)
from pmldesign_solvers.norm import Status

EXPONENTS = (2.0, 4.0, math.inf)
UNION = "prefix:3*histogram:3+total:3*histogram:3+prefix:3*total:3+histogram:3*prefix:3"

BLOCKS = "prefix:4*histogram:3+histogram:4*total:3"


@pytest.fixture
def structured(monkeypatch):
    """Every union of products is too large for one matrix."""
    monkeypatch.setattr(solving, "DENSE_CELLS", 1)
    monkeypatch.setattr("pmldesign.designs.structured.LOOSE", 0.0)


def spread(variances, p):
    return math.sqrt(np.linalg.norm(variances, ord=p / 2))


def test_a_published_norm():
    # 43.9936: one matrix of 512 queries and 256 cells
    made = factorize("prefix:16*histogram:16+histogram:16*prefix:16")
    assert made.status is Status.OPTIMAL
    assert made.certificate.lower == pytest.approx(43.9936, abs=1e-4)
    assert made.certificate.upper == pytest.approx(43.9936, abs=1e-4)


def test_a_product_of_a_million_cells():
    made = factorize("prefix:64*prefix:64*histogram:256")
    single = factorize("prefix:64", rel_gap=1e-7).certificate
    assert made.strategy.shape[1] == 2**20
    assert made.status is Status.OPTIMAL
    assert made.certificate.gap <= 1e-6
    assert made.certificate.lower <= 16 * single.upper**2
    assert made.certificate.upper >= 16 * single.lower**2
    assert made.certificate.upper == pytest.approx(16 * single.upper**2, rel=2e-6)
    assert made.strategy.sensitivity == pytest.approx(1.0)
    error = mechanism(made.strategy, made.workload, noise="gaussian").error(2.0)
    assert error == pytest.approx(made.certificate.upper, rel=1e-6)
    x = np.random.default_rng(0).integers(0, 5, 2**20).astype(float)
    answers = made.strategy.answer(made.workload, made.strategy.measure(x))
    sums = x.reshape(64, 64, 256).cumsum(axis=0).cumsum(axis=1)
    np.testing.assert_allclose(answers, sums.ravel(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("p", EXPONENTS)
def test_a_small_product_is_what_its_matrix_is(p):
    made = factorize("prefix:4*prefix:3*histogram:2", p=p)
    assert isinstance(made.strategy, ProductStrategy)
    workload, dense = made.workload, Strategy("dense", made.strategy.matrix)
    A = DenseWorkload(workload.to_dense())
    np.testing.assert_allclose(made.strategy.variances(workload), dense.variances(A), rtol=1e-9)
    for noise in (Noise.GAUSSIAN, Noise.LAPLACE):
        ours = mechanism(made.strategy, workload, noise=noise.value)
        theirs = mechanism(dense, A, noise=noise.value)
        assert ours.sensitivity == pytest.approx(theirs.sensitivity, rel=1e-10)
        assert ours.error(p) == pytest.approx(theirs.error(p), rel=1e-9)
        assert ours.rmse == pytest.approx(theirs.rmse, rel=1e-9)
        assert ours.max_std == pytest.approx(theirs.max_std, rel=1e-9)


@pytest.mark.parametrize(
    ("text", "p"),
    [
        *[(UNION, 2.0), (UNION, np.inf), (BLOCKS, 4.0)],
        ("prefix:6*total:3+histogram:6*total:3", 4.0),
        ("prefix:5*total:1+histogram:5*histogram:1", 2.0),
    ],
)
def test_a_union_beyond_dense_size(structured, text, p):
    made = factorize(text, p=p)
    assert isinstance(made.strategy, ProductStrategy if text == UNION else BlockStrategy)
    assert made.status is (Status.STRUCTURED if text == UNION else Status.OPTIMAL)
    A = made.workload.to_dense()
    dense = factorize(A, p=p).certificate
    assert made.certificate.lower <= dense.upper
    assert made.certificate.upper >= dense.lower
    assert made.dual_u.shape == A.shape[:1]
    assert made.dual_w.shape == A.shape[1:]
    L = A @ np.linalg.pinv(made.strategy.matrix, 1e-11)
    np.testing.assert_allclose(made.strategy.variances(made.workload), (L**2).sum(axis=1))
    assert np.linalg.norm(made.strategy.matrix, axis=0).max() == pytest.approx(1.0)
    assert spread((L**2).sum(axis=1), p) == pytest.approx(made.certificate.upper, rel=1e-8)
    found = mechanism(made.strategy, made.workload, noise="gaussian")
    expected = gaussian_moment_root(p) * made.certificate.upper
    assert found.error(p) == pytest.approx(expected, rel=1e-6)
    assert found.rmse == pytest.approx(np.linalg.norm(L) / math.sqrt(len(A)), rel=1e-8)
    np.testing.assert_allclose(made.reconstruction() @ made.strategy.matrix, A, atol=1e-9)


@pytest.mark.parametrize(
    ("text", "p"),
    [
        ("prefix:64*total:40+total:64*prefix:40", 2.0),
        ("random-range:30,4000,seed=1+total:4000", math.inf),
    ],
)
def test_few_queries_on_many_cells_are_one_matrix(text, p):
    workload = parse_workload(text)
    m, n = workload.shape
    assert m < 200 < solving.DENSE_CELLS < n
    made = factorize(workload, p=p, rel_gap=1e-5)
    assert made.status is Status.OPTIMAL
    R, L = made.strategy.matrix, made.reconstruction()
    A = workload.to_dense()
    np.testing.assert_allclose(L @ R, A, atol=1e-8)
    assert np.linalg.norm(R, axis=0).max() == pytest.approx(1.0)
    assert spread((L**2).sum(axis=1), p) == pytest.approx(made.certificate.upper, rel=1e-7)
    weighted = np.sqrt(made.dual_u)[:, None] * A * np.sqrt(made.dual_w)
    assert np.linalg.norm(weighted, ord="nuc") >= made.certificate.lower
    x = np.random.default_rng(0).integers(0, 9, n).astype(float)
    answers = made.strategy.answer(workload, made.strategy.measure(x))
    np.testing.assert_allclose(answers, A @ x, rtol=1e-9)


@pytest.mark.parametrize("p", EXPONENTS)
def test_both_ways_to_solve_a_union_of_few_queries_agree(monkeypatch, p):
    text = "prefix:20*total:10+total:20*prefix:10"
    whole = factorize(text, p=p)
    monkeypatch.setattr(solving, "DENSE_CELLS", 1)
    monkeypatch.setattr("pmldesign.designs.structured.LOOSE", 0.0)
    made = factorize(text, p=p)
    assert isinstance(made.strategy, TablesStrategy)
    assert made.certificate.lower <= whole.certificate.upper
    assert whole.certificate.lower <= made.certificate.upper


def test_a_union_of_many_queries_on_many_cells_keeps_its_structure():
    # a step on one matrix would be slow, or the matrix large
    for text in (
        "prefix:64*total:64+histogram:64*prefix:64",
        "prefix:999*total:99+total:999*histogram:99",
    ):
        assert not solving.dense(parse_workload(text), DesignOptions())
    for text in ("prefix:100*total:100+total:100*prefix:100", "prefix:2+histogram:2"):
        assert solving.dense(parse_workload(text), DesignOptions())


def test_a_union_of_few_queries_is_one_matrix():
    """111 queries on 70,000 cells: seconds."""
    assert solving.dense(parse_workload("marginals:prefix50,prefix50,7,4,ways=1"), DesignOptions())


def test_few_queries_of_many_cells_keep_their_attributes():
    """163 queries on 280,000 cells: the design of one matrix takes most of a minute.

    3.081 is the rmse of a residual planner with ordered attributes at sensitivity and scale 1.
    """
    tables = parse_workload("marginals:prefix50,prefix100,7,4,2,ways=1")
    assert not solving.dense(tables, DesignOptions())
    design = factorize(tables)
    assert design.certificate.upper / math.sqrt(tables.shape[0]) <= 3.081
    assert design.certificate.gap <= 0.005


def test_a_matrix_of_few_queries_may_have_many_cells():
    # an n x n matrix would have 1.6e9 entries
    A = np.random.default_rng(3).integers(0, 2, (4, 40_000))
    made = factorize(A, p=2, rel_gap=1e-6)
    assert made.status is Status.OPTIMAL
    error = mechanism(made.strategy, made.workload, noise="gaussian").error(2.0)
    assert error == pytest.approx(made.certificate.upper, rel=1e-6)
    made = factorize(A, neighbours="replace").certificate
    different = factorize(np.unique(A, axis=1), neighbours="replace").certificate
    assert made.lower <= different.upper
    assert different.lower <= made.upper
    assert made.gap <= 1e-6


def test_a_union_by_a_program_is_one_matrix(structured):
    text = "prefix:3*total:2+total:3*histogram:2"
    A = parse_workload(text).to_dense()
    for relation in ("add-remove", "replace"):
        options = {"method": "dual", "rel_gap": 1e-2, "neighbours": relation}
        made, dense = factorize(text, **options), factorize(A, **options)
        assert not isinstance(made.strategy, ProductStrategy)
        assert made.certificate.lower <= dense.certificate.upper
        assert dense.certificate.lower <= made.certificate.upper


def test_what_has_no_common_attributes_is_one_matrix(structured):
    made = factorize("prefix:2*histogram:6+prefix:3*histogram:4")
    assert not isinstance(made.strategy, ProductStrategy)
    assert made.status is Status.OPTIMAL
    weighted = TablesWorkload([3, 2], [(0,), (1,)], [2.0, 1.0])
    made = factorize(UnionWorkload([weighted, parse_workload("prefix:3*histogram:2")]))
    assert not isinstance(made.strategy, ProductStrategy)
    assert made.status is Status.OPTIMAL


def test_a_union_as_a_factor(structured):
    # a weighted product within a product
    inner = parse_workload("prefix:4*total:3+total:4*histogram:3")
    made = factorize(KroneckerWorkload([inner, parse_workload("prefix:2")]), p=4)
    A = made.workload.to_dense()
    R = made.strategy.matrix
    dense = factorize(A, p=4).certificate
    assert made.certificate.lower <= dense.upper
    assert dense.lower <= made.certificate.upper
    L = A @ np.linalg.pinv(R, 1e-11)
    assert spread((L**2).sum(axis=1), 4) == pytest.approx(made.certificate.upper, rel=1e-8)
    x = np.arange(24.0)
    np.testing.assert_allclose(
        made.strategy.answer(made.workload, made.strategy.measure(x)), A @ x, rtol=1e-9
    )


@pytest.mark.parametrize("p", [2.0, math.inf])
def test_two_thousand_cells_with_one_ordered_attribute(tmp_path, p):
    text = "prefix:72*histogram:6*histogram:5+histogram:72*total:6*histogram:5"
    queries = parse_workload(f"{text}+prefix:72*total:6*total:5")
    assert queries.shape == (2592, 2160)
    made = factorize(queries, p=p)
    assert made.require_optimal().certificate.gap <= 1e-6
    write_strategy(tmp_path / "s.npz", made)
    release = mechanism(
        read_strategy(tmp_path / "s.npz"), queries, guarantee=ApproxDP(1.0, 1e-6), noise="gaussian"
    )
    expected = release.scale * gaussian_moment_root(p) * made.certificate.upper
    assert release.error(p) == pytest.approx(expected, rel=1e-6)
    rng = np.random.default_rng(0)
    x = rng.poisson(4, 2160).astype(float)
    table = x.reshape(72, 6, 5)
    exact = [
        table.cumsum(axis=0).ravel(),
        table.sum(axis=1).ravel(),
        table.sum(axis=(1, 2)).cumsum(),
    ]
    measured = release.strategy.measure(x)
    answers = release.strategy.answer(queries, measured)
    np.testing.assert_allclose(answers, np.concatenate(exact), rtol=1e-9, atol=1e-7)
    noise = release.scale * rng.standard_normal((release.strategy.shape[0], 50))
    errors = queries.matvec(release.strategy.estimate(noise))
    assert math.sqrt(np.mean(errors**2)) == pytest.approx(release.rmse, rel=0.1)


def test_the_limits_of_a_union(structured):
    one = factorize(UNION, max_steps=2)
    assert one.status is Status.ITERATION_LIMIT
    timed = factorize(UNION, time_limit=1e-9)
    assert timed.status is Status.TIME_LIMIT
    for made in (one, timed):
        L = made.reconstruction()
        assert np.linalg.norm(L) == pytest.approx(made.certificate.upper, rel=1e-8)
        assert made.dual_w.shape == (3 + 3,)  # of the values of either attribute


@pytest.mark.parametrize("p", [2.0, 3.0, math.inf])
@pytest.mark.parametrize("text", ["marginals:2,3,2,upto=2", "total:3*histogram:4+total:3*total:4"])
def test_marginals_have_the_norm_of_their_matrix(text, p):
    made = factorize(text, p=p)
    assert isinstance(made.strategy, TablesStrategy)
    dense = factorize(made.workload.to_dense(), p=p).certificate
    assert made.certificate.gap <= 1e-6
    assert made.certificate.lower <= dense.upper
    assert dense.lower <= made.certificate.upper
    error = mechanism(made.strategy, made.workload, noise="gaussian").error(p)
    assert error == pytest.approx(gaussian_moment_root(p) * made.certificate.upper, rel=1e-6)


@pytest.mark.parametrize("p", [2, 4, math.inf])
def test_a_billion_queries_have_an_error(p):
    # all ranges in two dimensions; of one dimension the variances are written out
    one = factorize("all-range:64", p=p, rel_gap=1e-4)
    both = factorize("all-range:64*all-range:64", p=p, rel_gap=1e-4)
    errors = [mechanism(made.strategy, made.workload) for made in (one, both)]
    c = gaussian_moment_root(p)
    assert errors[1].error(p) / c == pytest.approx((errors[0].error(p) / c) ** 2, rel=1e-4)
    assert errors[1].rmse == pytest.approx(errors[0].rmse ** 2, rel=1e-2)
    large = mechanism(
        factorize("all-range:256*all-range:256", p=2, rel_gap=1e-2).strategy,
        parse_workload("all-range:256*all-range:256"),
    )
    assert large.workload.shape[0] == 32896**2
    assert 526.24**2 <= large.error(2) <= 526.25**2 * 1.02
    with pytest.raises(InvalidInputError, match="ever written out"):
        _ = large.variances


@pytest.mark.parametrize(
    ("text", "guarantee", "p"),
    [
        ("prefix:2*histogram:2", PureDP(1.0), 2.0),
        ("prefix:2*histogram:2", PML(0.3, alpha=0.05), 2.0),
        (UNION, PureDP(1.0), 2.0),
        (UNION, PureDP(1.0, "replace"), 4.0),
        (BLOCKS, PML(0.3, alpha=0.05), 2.0),
        (BLOCKS, PureDP(1.0, "replace"), 4.0),
        ("prefix:2*marginals:2,2,ways=1", PureDP(1.0, "replace"), 4.0),
        ("marginals:2,3,ways=1", PureDP(1.0), 2.0),
        ("marginals:2,3,ways=1", PML(0.3, alpha=0.05), 2.0),
    ],
)
def test_laplace_noise_beyond_the_search_takes_the_best_start(monkeypatch, text, guarantee, p):
    monkeypatch.setattr(pmldesign.designs.laplace.course, "SEARCHED_CELLS", 2)
    monkeypatch.setattr(pmldesign.designs.laplace.course, "SEARCHED_TABLES", 2)
    for restarts in ("RESTARTS", "RESTARTS_ON_TABLES"):
        monkeypatch.setattr(pmldesign.designs.laplace.course, restarts, 0)
    queries = parse_workload(text)
    made = laplace_design(queries, guarantee, p=p, effort="quick")
    assert made.status is Status.UNSEARCHED
    assert made.starts
    A = DenseWorkload(queries.to_dense())
    dense = Strategy("dense", made.mechanism.strategy.matrix)
    again = mechanism(dense, A, guarantee=guarantee, noise="laplace", p=p)
    assert made.mechanism.error(p) == pytest.approx(again.error(p), rel=1e-8)
    assert made.mechanism.scale == pytest.approx(again.scale, rel=1e-8)
    for start in made.starts:
        assert start.after >= made.mechanism.error(p)
    for name in ("tree", "haar", "identity", "workload"):
        other = mechanism(
            baseline(name, queries), queries, guarantee=guarantee, noise="laplace", p=p
        )
        assert made.mechanism.error(p) <= other.error(p) * (1 + 1e-12)
