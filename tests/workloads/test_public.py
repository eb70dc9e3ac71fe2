"""What is public, and queries and strategies beside it, against P written out from its meaning."""

import pickle
from itertools import combinations

import numpy as np
import pytest

import pmldesign as pml
from pmldesign.errors import InvalidInputError
from pmldesign.factorization import answer
from pmldesign.strategies import Strategy, TablesStrategy, haar_wavelet, product_strategy
from pmldesign.workloads import NOTHING, RECORDS, Public, given_invariants

SIZES = (2, 3, 2)
TABLE = Public("tables", "t", sizes=SIZES, tables=(frozenset({0}),))
EVERY_OTHER = Public("tables", "o", sizes=SIZES, tables=(frozenset({1}),))
GROUPS = Public("groups", "g", groups=np.array([0, 1, 0, 2, 2, 0, 1, 0, 2, 2, 3, 1]))
KINDS = {"records": RECORDS, "table": TABLE, "table apart": EVERY_OTHER, "groups": GROUPS}


def groups_of(public):
    """The group of each cell, from what the kinds say."""
    if public.kind == "groups":
        return public.groups.tolist()
    cells = np.ndindex(SIZES)
    counted = public.tables[0] if public.tables else ()
    return [tuple(v for i, v in enumerate(cell) if i in counted) for cell in cells]


def projection(public):
    """P: every cell less the mean of its group."""
    groups = groups_of(public)
    return np.array(
        [
            [(i == j) - (g == h) / groups.count(g) for j, h in enumerate(groups)]
            for i, g in enumerate(groups)
        ]
    )


def pairs(public):
    """Cells of one group."""
    groups = groups_of(public)
    return [(i, j) for i, j in combinations(range(len(groups)), 2) if groups[i] == groups[j]]


def queries(public):
    """A workload of the form that what is public allows."""
    return "prefix:2*prefix:3*prefix:2" if public is TABLE else "marginals:2,3,2,ways=2"


@pytest.mark.parametrize("kind", KINDS)
def test_p_takes_the_mean_of_each_group(kind):
    public, P = KINDS[kind], projection(KINDS[kind])
    X = np.random.default_rng(0).standard_normal((12, 12)) + 1e3
    np.testing.assert_allclose(public.centre(X), X @ P, atol=1e-9)
    np.testing.assert_allclose(public.within(X), P @ X, atol=1e-9)
    np.testing.assert_allclose(public.within(X[0]), P @ X[0], atol=1e-9)
    np.testing.assert_allclose(public.relative(X) @ P, X @ P, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_queries_beside_it_are_those_of_the_matrix(kind):
    public, P = KINDS[kind], projection(KINDS[kind])
    whole = pml.workload(queries(public))
    asked, A = given_invariants(whole, public), whole.to_dense() @ P
    rng = np.random.default_rng(1)
    m, n = A.shape
    X, H, u = rng.standard_normal((n, n)), rng.standard_normal((n, 4)), rng.uniform(1, 2, m)
    for found, exact in (
        (asked.to_dense(), A),
        (asked.matvec(H), A @ H),
        (asked.rmatvec(np.outer(u, [1, 2])), A.T @ np.outer(u, [1, 2])),
        (asked.gram(u), A.T @ (u[:, None] * A)),
        (asked.row_quadratic(X + X.T), ((A @ (X + X.T)) * A).sum(axis=1)),
        (asked.row_norms(H), ((A @ H) ** 2).sum(axis=1)),
    ):
        np.testing.assert_allclose(found, exact, atol=1e-9)
    farthest = max(((A[:, i] - A[:, j]) ** 2).sum() for i, j in pairs(public))
    longest = (A**2).sum(axis=0).max()
    for bound, exact in ((asked.longest_difference(), farthest), (asked.longest_column(), longest)):
        assert exact * (1 - 1e-14) <= bound <= exact * (1 + 1e-9)
    assert asked.whole is whole
    assert given_invariants(asked, public) is asked


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("structure", ["matrix", "product", "residuals"])
def test_strategies_beside_it_have_the_distances_within_groups(kind, structure):
    public = KINDS[kind]
    if structure != "residuals" and public is EVERY_OTHER:
        return  # its open attributes stand apart, which is for residuals
    if structure == "matrix" and public is TABLE:
        return  # a matrix has no attributes
    product = product_strategy([haar_wavelet(n) for n in SIZES])
    sets = [T for k in range(4) for T in combinations(range(3), k)]
    strategy = {
        "matrix": Strategy("matrix", product.matrix),
        "product": product,
        "residuals": TablesStrategy("residuals", SIZES, sets, np.arange(1.0, 9.0)),
    }[structure]
    beside, P = strategy.beside(public), projection(public)
    np.testing.assert_allclose(beside.gram, P @ strategy.gram @ P, atol=1e-9)
    for norm, order in (("l1", 1), ("l2", 2)):
        columns = beside.matrix
        exact = max(np.linalg.norm(columns[:, i] - columns[:, j], order) for i, j in pairs(public))
        found = beside.sensitivity_under("replace", norm)
        bounded = norm == "l1" and structure == "residuals"  # half the sum of the longest columns
        assert exact * (1 - 1e-14) <= found <= exact * (4 if bounded else 1 + 1e-9)
    assert beside.beside(public) is beside
    if public.name:
        with pytest.raises(InvalidInputError, match="use `neighbours='replace'`"):
            beside.sensitivity_under("add-remove", "l2")
        with pytest.raises(InvalidInputError, match="was made for"):
            beside.beside(Public("groups", "other", groups=np.repeat([0, 1], 6)))


@pytest.mark.parametrize("kind", KINDS)
def test_variances_are_those_of_the_matrices(kind):
    public = KINDS[kind]
    asked = given_invariants(pml.workload(queries(public)), public)
    sets = [T for k in range(4) for T in combinations(range(3), k)]
    strategy = TablesStrategy("residuals", SIZES, sets, np.arange(1.0, 9.0))
    if public is TABLE:
        strategy = product_strategy([haar_wavelet(n) for n in SIZES])
    found = answer(strategy, asked, pml.Neighbours.REPLACE)
    exact = ((asked.to_dense() @ np.linalg.pinv(found.strategy.matrix, 1e-11)) ** 2).sum(axis=1)
    np.testing.assert_allclose(found.variances, exact, atol=1e-9)


def test_it_is_the_same_in_another_process():
    for public in (NOTHING, *KINDS.values()):
        again = pickle.loads(pickle.dumps(public))
        assert again.agrees(public)
        assert bool(again) is bool(public)
    assert not RECORDS.agrees(NOTHING)
    assert not TABLE.agrees(EVERY_OTHER)


def test_a_single_cell_and_attributes_of_one_value():
    one = given_invariants(pml.workload(np.array([[3.0], [0.0]])), RECORDS)
    assert not one.to_dense().any()
    table = Public("tables", "t", sizes=(1, 3), tables=(frozenset({0}),))
    asked = given_invariants(pml.workload("histogram:1*prefix:3"), table)
    np.testing.assert_allclose(asked.to_dense(), RECORDS.centre(np.tri(3)), atol=1e-12)
