"""Weighted products against the dense matrix that they stand for."""

import numpy as np
import pytest

from pmldesign.designs import laplace_design
from pmldesign.errors import InvalidInputError
from pmldesign.files import read_strategy, write_strategy
from pmldesign.privacy import PureDP
from pmldesign.strategies import WeightedTablesStrategy
from pmldesign.workloads import RECORDS, given_invariants, parse_workload

SIZES = (4, 3, 5)
TABLES = [
    ([(0, 1, 2), (0, 1), (2,), ()], [0.3, 0.4, 0.2, 0.1]),
    ([(0, 1, 2), (0,), (1, 2)], [0.5, 0.2, 0.3]),
]
NAMES = (
    "prefix:4*histogram:3*prefix:5+total:4*histogram:3*all-range:5",
    "marginals:prefix4,3,prefix5,ways=2",
)


def designs():
    """One with positive entries, one with signs; columns of l1 norm 1."""
    rng = np.random.default_rng(0)
    first = np.vstack([np.eye(4), rng.random((2, 4))])
    second = rng.normal(size=(6, 5))
    return {0: first / first.sum(axis=0), 2: second / np.abs(second).sum(axis=0)}


def dense(subsets, weights):
    """The same rows by np.kron, table by table."""
    blocks = []
    for subset, weight in zip(subsets, weights, strict=True):
        row = np.ones((1, 1))
        for i, n in enumerate(SIZES):
            row = np.kron(row, designs().get(i, np.eye(n)) if i in subset else np.ones((1, n)))
        blocks.append(weight * row)
    return np.vstack(blocks)


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("subsets", "weights"), TABLES)
def test_against_the_matrix(subsets, weights, name, public):
    strategy = WeightedTablesStrategy("stack", SIZES, subsets, weights, designs())
    R = dense(strategy.subsets, strategy.weights)
    workload = parse_workload(name)
    A, rng = workload.to_dense(), np.random.default_rng(1)
    if public:
        centre = np.eye(60) - 1 / 60
        measured = np.repeat([bool(s) for s in strategy.subsets], strategy.table_rows)
        strategy, workload = strategy.beside(RECORDS), given_invariants(workload, RECORDS)
        R, A = R[measured] @ centre, A @ centre
    assert strategy.matrix == pytest.approx(R, abs=1e-14)
    inverse = np.linalg.pinv(R, rcond=1e-10)
    variances = ((A @ inverse) ** 2).sum(axis=1)
    assert strategy.variances(workload) == pytest.approx(variances, rel=1e-8, abs=1e-9)
    assert strategy.norm_by_structure(workload, 1) == pytest.approx(variances.sum(), rel=1e-8)
    assert strategy.norm_by_structure(workload, np.inf) == pytest.approx(variances.max(), rel=1e-8)
    y = rng.normal(size=len(R))
    assert strategy.answer(workload, y) == pytest.approx(A @ inverse @ y, rel=1e-8, abs=1e-8)
    records = rng.integers(0, SIZES, (50, 3))
    x = np.zeros(SIZES)
    np.add.at(x, tuple(records.T), 1)
    assert strategy.measure(x.ravel()) == pytest.approx(R @ x.ravel(), abs=1e-12)
    assert strategy.measure_records(records) == pytest.approx(R @ x.ravel(), abs=1e-12)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize(("subsets", "weights"), TABLES)
def test_sensitivities_are_never_below_the_exact_ones(monkeypatch, subsets, weights, norm):
    order = 1 if norm == "l1" else 2
    R = dense(subsets, weights)
    single = np.linalg.norm(R, order, axis=0).max()
    pairs = np.linalg.norm(R[:, :, None] - R[:, None, :], order, axis=0).max()
    for most in (2**30, 0):  # from the matrix, then from sums over the tables
        monkeypatch.setattr("pmldesign.strategies.tables.weighted.WRITTEN_DISTANCES", most)
        strategy = WeightedTablesStrategy("stack", SIZES, subsets, weights, designs())
        removed = strategy.sensitivity_under("add-remove", norm)
        replaced = strategy.sensitivity_under("replace", norm)
        assert single <= removed * (1 + 1e-15)
        assert pairs <= replaced * (1 + 1e-15)
        if most or norm == "l1":
            assert removed == pytest.approx(single, rel=1e-12)
        if most:
            assert replaced == pytest.approx(pairs, rel=1e-12)


def test_the_cells_of_all_attributes_are_weighted_tables():
    """Identities as designs measure what `WeightedTablesStrategy` does."""
    subsets, weights = TABLES[0]
    workload = parse_workload("marginals:4,3,5,ways=2")
    stack = WeightedTablesStrategy("a", SIZES, subsets, weights, {0: np.eye(4), 2: np.eye(5)})
    tables = WeightedTablesStrategy("b", SIZES, subsets, weights)
    assert stack.matrix == pytest.approx(tables.matrix, abs=0)
    assert stack.variances(workload) == pytest.approx(tables.variances(workload), rel=1e-9)


def test_designs_that_do_not_fit():
    with pytest.raises(InvalidInputError, match="does not fit"):
        WeightedTablesStrategy("stack", SIZES, [(0,)], [1.0], {0: np.eye(3)})
    with pytest.raises(InvalidInputError, match="full rank"):
        WeightedTablesStrategy("stack", SIZES, [(0,)], [1.0], {0: np.ones((4, 4))})


def test_files_keep_products(tmp_path, little_work):
    workload, guarantee = parse_workload("marginals:prefix16,10,prefix12,ways=2"), PureDP(1.0)
    design = laplace_design(workload, guarantee)
    write_strategy(tmp_path / "stack.npz", design.mechanism)
    again = read_strategy(tmp_path / "stack.npz")
    assert isinstance(again, WeightedTablesStrategy)
    assert again.variances(workload) == pytest.approx(
        design.mechanism.strategy.variances(workload), rel=1e-12
    )
