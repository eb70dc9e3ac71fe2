"""Products, unions and marginals that are never written out, where the number of records is public.

Small ones, made to count as large, are compared with their matrices.
"""

import math
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmldesign.designs import dispatch as solving
from pmldesign.designs import factorize, optimize
from pmldesign.errors import InvalidInputError, VacuousGuaranteeError
from pmldesign.files import read_strategy, write_strategy
from pmldesign.mechanisms import mechanism
from pmldesign.privacy import PML, ApproxDP, ApproxPML, EnvelopePML, Neighbours, PureDP, calibrate
from pmldesign.strategies import (
    BesideStrategy,
    BlockStrategy,
    ProductStrategy,
    Strategy,
    TablesStrategy,
    baseline,
)
from pmldesign.workloads import RECORDS, parse_workload
from pmldesign_solvers.norm import Status, solve_norm

EXPONENTS = (2.0, 4.0, math.inf)
WORKLOADS = (
    "prefix:5*prefix:4",
    "prefix:3*histogram:3*window:4,2",
    "all-range:4*prefix:3",
    "prefix:4*histogram:3+total:4*histogram:3+prefix:4*total:3",
    "prefix:5*total:3+total:5*prefix:3",
)
LIMITS = (
    "pmldesign.strategies.structured.WRITTEN_CELLS",
    "pmldesign.workloads.beside.WRITTEN_CELLS",
    "pmldesign.workloads.terms.workload.WRITTEN_CELLS",
)


def count_as_large(patch):
    for name in LIMITS:
        module, _, limit = name.rpartition(".")
        patch.setattr(import_module(module), limit, 1)
    patch.setattr(solving, "DENSE_CELLS", 1)
    patch.setattr("pmldesign.designs.structured.LOOSE", 0.0)


@pytest.fixture
def large(monkeypatch):
    """Everything is too large for a matrix."""
    count_as_large(monkeypatch)


def guarantees(cells):
    return [
        PureDP(1.0, Neighbours.REPLACE),
        ApproxDP(1.0, 1e-6, Neighbours.REPLACE),
        PML(0.7, 0.4 / cells),
        ApproxPML(0.7, 1e-4, 0.4 / cells),
        EnvelopePML(0.7, 1e-4, 0.4 / cells),
        ApproxPML(0.7, 1e-4, 1 / cells),
    ]


@pytest.mark.sweep
@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("text", WORKLOADS)
def test_bounds_enclose_the_norm_of_the_matrix(text, p, large):
    workload = parse_workload(text)
    exact = solve_norm(workload, p, relation="replace").certificate
    made = factorize(workload, p=p, neighbours="replace", rel_gap=1e-3)
    assert isinstance(made.strategy, ProductStrategy | TablesStrategy)
    assert made.certificate.lower <= exact.upper
    assert made.certificate.upper >= exact.lower
    assert made.status in (Status.STRUCTURED, Status.OPTIMAL)
    # the upper one is what the strategy attains, as a matrix
    columns = made.strategy.matrix
    distances = [np.linalg.norm(columns - one[:, None], axis=0).max() for one in columns.T]
    assert max(distances) == pytest.approx(1, abs=1e-9)
    R = columns - columns.mean(axis=1, keepdims=True)
    A = workload.to_dense()
    L = (A - A.mean(axis=1, keepdims=True)) @ np.linalg.pinv(R, rcond=1e-10)
    value = np.linalg.norm(np.linalg.norm(L, axis=1), p)
    assert made.certificate.upper == pytest.approx(value, rel=1e-6)
    assert made.certificate.upper >= value * (1 - 1e-12)


@pytest.mark.parametrize("text", ["prefix:6*prefix:5", "prefix:4*histogram:3*window:4,2"])
def test_the_weights_of_a_product_prove_its_lower_bound(text, large):
    made = factorize(text, neighbours="replace")
    w, A = made.dual_w, made.workload.to_dense()
    pairs = np.outer(w, w) - np.diag(w**2)
    laplacian = (np.diag(pairs.sum(axis=1)) - pairs) / (pairs.sum() / 2)
    values = np.linalg.eigvalsh(np.sqrt(made.dual_u)[:, None] * A @ laplacian @ A.T)
    nuclear = np.sqrt(np.maximum(values, 0)).sum()
    assert made.certificate.lower <= nuclear * (1 + 1e-6)
    assert made.certificate.lower >= nuclear * (1 - 1e-5)


def test_small_products_and_unions_are_solved_exactly():
    for text in ("prefix:6*prefix:5", WORKLOADS[-1]):
        assert factorize(text, neighbours="replace").require_optimal().certificate.gap <= 1e-6


def test_few_distinct_cells_are_solved_exactly():
    # 2200 cells, of which 2 are distinct: one query, for half of them
    made = factorize("prefix:2*total:1100", neighbours="replace").require_optimal()
    assert made.certificate.lower <= 1 <= made.certificate.upper


@pytest.mark.parametrize("p", EXPONENTS)
def test_marginals_are_solved_exactly(p):
    made = factorize("marginals:2,3,4,ways=2", p=p, neighbours="replace")
    exact = solve_norm(made.workload, p, relation="replace").certificate
    assert made.certificate.gap <= 1e-6
    assert exact.lower <= made.certificate.upper
    assert made.certificate.lower <= exact.upper
    assert isinstance(made.strategy, TablesStrategy)
    assert () not in made.strategy.residuals


@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("name", ["tree", "haar", "identity", "workload"])
@pytest.mark.parametrize("text", WORKLOADS[:2])
def test_baselines_of_a_product_have_the_noise_and_error_of_their_matrices(text, name, kind):
    workload = parse_workload(text)
    plain = baseline(name, workload)
    written = Strategy(name, plain.matrix)
    for guarantee in guarantees(workload.shape[1]):
        if kind == "gaussian" and isinstance(guarantee, PureDP | PML):
            continue
        exact = mechanism(written, workload, guarantee=guarantee, noise=kind)
        with pytest.MonkeyPatch.context() as patch:
            count_as_large(patch)
            found = mechanism(plain, workload, guarantee=guarantee, noise=kind)
        assert isinstance(found.strategy, BesideStrategy)
        assert found.scale >= exact.scale * (1 - 2e-6)
        if isinstance(guarantee, PureDP | ApproxDP):
            assert found.scale == pytest.approx(exact.scale, rel=1e-6)
            for p in (2.0, math.inf):
                assert found.error(p) == pytest.approx(exact.error(p), rel=1e-6)
            assert found.rmse == pytest.approx(exact.rmse, rel=1e-6)
        assert found.error(2) / found.scale == pytest.approx(exact.error(2) / exact.scale, rel=1e-6)


@st.composite
def structured_strategies(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["product", "weighted", "marginals"]))
    if kind == "marginals":
        sizes = draw(st.lists(st.integers(1, 3), min_size=2, max_size=3).filter(lambda s: 3 in s))
        wide = [i for i, size in enumerate(sizes) if size > 1]
        residuals = [(), *((i,) for i in wide), tuple(wide)]
        residuals = list(dict.fromkeys(residuals))
        return TablesStrategy("s", sizes, residuals, rng.uniform(0.2, 2, len(residuals)))
    factors = [
        Strategy("f", rng.standard_normal((n, n)) + np.eye(n))
        for n in draw(st.lists(st.integers(2, 4), min_size=2, max_size=2))
    ]
    rows = math.prod(one.shape[0] for one in factors)
    weights = rng.uniform(0.3, 3, rows) if kind == "weighted" else None
    return ProductStrategy("s", factors, weights=weights)


@given(structured_strategies(), st.integers(0, 5), st.booleans())
def test_the_noise_is_on_the_private_side_of_that_of_the_matrix(strategy, number, laplace):
    guarantee = guarantees(strategy.cells)[number]
    gaussian = not laplace and not isinstance(guarantee, PureDP | PML)
    noise = "gaussian" if gaussian else "laplace"
    written = Strategy("matrix", strategy.matrix)
    exact = calibrate(written, guarantee, noise=noise)
    with pytest.MonkeyPatch.context() as patch:
        count_as_large(patch)
        found = calibrate(strategy, guarantee, noise=noise)
    assert found.scale >= exact.scale * (1 - 2e-6)
    symmetric = isinstance(strategy, TablesStrategy)
    if gaussian and symmetric and strategy.cells != 3:  # of a matrix with three columns: tighter
        # the distances from a cell are those from every other one
        assert found.scale == pytest.approx(exact.scale, rel=1e-5)
    if gaussian and isinstance(guarantee, ApproxDP):
        assert found.scale == pytest.approx(exact.scale, rel=1e-6)


@pytest.mark.parametrize("guarantee", guarantees(24)[2:], ids=lambda one: type(one).__name__)
def test_alpha_of_each_cell_counts_as_the_smallest_one(guarantee, large):
    strategy = TablesStrategy("s", [2, 3, 4], [(0,), (1, 2)], [1.0, 2.0])
    noise = "laplace" if isinstance(guarantee, PML) else "gaussian"
    least = guarantee.alpha
    vector = [least, *[1 / 24 * 0.99] * 23] if least < 1 / 24 else [least] * 24
    kwargs = {} if isinstance(guarantee, PML) else {"delta": guarantee.delta}
    other = type(guarantee)(epsilon=guarantee.epsilon, alpha=vector, **kwargs)
    one = calibrate(strategy, guarantee, noise=noise).scale
    assert calibrate(strategy, other, noise=noise).scale == pytest.approx(one, rel=1e-9)


@pytest.mark.parametrize("text", ["prefix:64*prefix:64*histogram:256", "marginals:10^100,ways=2"])
def test_large_designs_are_calibrated_and_read_back(text, tmp_path):
    for guarantee in (
        ApproxDP(1.0, 1e-6, Neighbours.REPLACE),
        ApproxPML(1.0, 1e-6, 1e-101),
        EnvelopePML(1.0, 1e-6, 1e-101),
    ):
        found = optimize(text, guarantee, noise="gaussian")
        release = found.best
        assert found.origin == "least-norm"
        assert release.sensitivity == pytest.approx(1, rel=1e-9)
        assert release.error(2) == pytest.approx(
            release.scale * found.design.certificate.upper, rel=1e-6
        )
    write_strategy(tmp_path / "s.npz", found.design, mechanism=release)
    again = mechanism(
        read_strategy(tmp_path / "s.npz"),
        found.design.workload,
        guarantee=guarantee,
        noise="gaussian",
    )
    assert again.scale == pytest.approx(release.scale, rel=1e-9)
    assert again.error(2) == pytest.approx(release.error(2), rel=1e-9)


def test_pml_of_next_to_no_prior_is_differential_privacy():
    strategy = factorize("marginals:10^20,ways=2", neighbours="replace").strategy
    dp = calibrate(strategy, ApproxDP(1.0, 1e-6, Neighbours.REPLACE), noise="gaussian")
    pml = calibrate(strategy, ApproxPML(1.0, 1e-6, 1e-30), noise="gaussian")
    assert pml.scale == pytest.approx(dp.scale, rel=1e-5)
    plain = calibrate(strategy, PureDP(1.0, Neighbours.REPLACE), noise="laplace")
    laplace = calibrate(strategy, PML(1.0, 1e-30), noise="laplace")
    assert laplace.scale == pytest.approx(plain.scale, rel=1e-5)


def test_alpha_that_does_not_fit_and_empty_guarantees_are_refused():
    strategy = TablesStrategy("s", [10] * 20, [(0,), (1,)], [1.0, 1.0])
    with pytest.raises(InvalidInputError, match="alpha must be in"):
        calibrate(strategy, PML(1.0, 1e-19), noise="laplace")
    with pytest.raises(VacuousGuaranteeError):
        calibrate(strategy, PML(100.0, 1e-20), noise="laplace")
    # more cells than any float
    for beyond in (
        TablesStrategy("s", [10] * 400, [(i,) for i in range(400)], [1.0] * 400),
        ProductStrategy("s", [Strategy("f", np.eye(10))] * 400),
    ):
        for guarantee in (PML(1.0, 1e-300), ApproxPML(1.0, 1e-6, 1e-300)):
            with pytest.raises(InvalidInputError, match="alpha must be in"):
                calibrate(beyond, guarantee, noise="laplace")


def test_answers_of_a_large_release_add_up(large):
    queries = parse_workload("prefix:4*histogram:3")
    release = mechanism(
        factorize(queries, neighbours="replace").strategy,
        queries,
        guarantee=ApproxDP(1.0, 1e-6, Neighbours.REPLACE),
        noise="gaussian",
    )
    x = np.random.default_rng(3).poisson(5, 12).astype(float)
    answers = release.strategy.answer(release.workload, release.strategy.measure(x))
    known = x.sum() / 12 * queries.matvec(np.ones(12))
    np.testing.assert_allclose(answers + known, queries.matvec(x), atol=1e-9)
    rng = np.random.default_rng(4)
    noise = release.scale * rng.standard_normal((release.strategy.shape[0], 4000))
    errors = release.strategy.answer(release.workload, noise)
    np.testing.assert_allclose(errors.std(axis=1), release.standard_deviations, rtol=0.1, atol=1e-9)


def test_a_strategy_of_blocks_where_records_are_replaced():
    queries = parse_workload("prefix:4*histogram:3+histogram:4*total:3")
    with pytest.MonkeyPatch.context() as patch:
        count_as_large(patch)
        blocks = factorize(queries).strategy
        assert isinstance(blocks, BlockStrategy)
        release = mechanism(blocks, queries, neighbours="replace")
        assert isinstance(release.strategy, BesideStrategy)
        variances, sensitivity = release.variances, release.sensitivity
        # a design for replace neighbours is one in a product basis
        assert isinstance(factorize(queries, neighbours="replace").strategy, ProductStrategy)
    written = mechanism(Strategy("matrix", blocks.matrix), queries, neighbours="replace")
    np.testing.assert_allclose(variances, written.variances, rtol=1e-7)
    assert sensitivity == pytest.approx(written.sensitivity, rel=1e-9)


def test_marginals_know_their_total_with_and_without_it():
    queries = parse_workload("marginals:2,3,4,ways=1")
    with_total = factorize(queries).strategy
    assert () in with_total.residuals
    release = mechanism(with_total, queries, neighbours="replace")
    written = mechanism(Strategy("matrix", with_total.matrix), queries, neighbours="replace")
    np.testing.assert_allclose(release.variances, written.variances, rtol=1e-9)
    assert release.sensitivity == pytest.approx(written.sensitivity, rel=1e-9)
    with pytest.raises(InvalidInputError, match="neighbours='replace'"):
        mechanism(with_total.beside(RECORDS), queries)
    total = TablesStrategy("total", [2, 3, 4], [()], [1.0])
    with pytest.raises(InvalidInputError, match=r"measures nothing|public|cannot answer"):
        mechanism(total, queries, neighbours="replace")


@pytest.mark.parametrize(
    "text", ["total:64*total:64", "total:160*total:160", "marginals:10^30,ways=0"]
)
def test_the_total_alone_is_refused(text):
    with pytest.raises(InvalidInputError, match="public"):
        factorize(text, neighbours="replace")
