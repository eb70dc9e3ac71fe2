"""A public table beside a product of any size: the same as with all cells written out."""

import math
from itertools import combinations

import numpy as np
import pytest

import pmldesign as pml
from pmldesign.designs import DesignOptions, solve
from pmldesign.errors import InvalidInputError
from pmldesign.files import read_strategy, write_strategy
from pmldesign.mechanisms import mechanism
from pmldesign.workloads import RECORDS, Public, as_public, given_invariants, tables_of

CASES = [
    ("prefix:6*histogram:4", "total:6*histogram:4"),
    ("histogram:3*prefix:4*prefix:2", "histogram:3*total:4*total:2"),
    ("prefix:4*prefix:3*total:3", "histogram:4*total:3*total:3"),
    ("prefix:3*prefix:4*prefix:2", "histogram:3*total:4*histogram:2"),
]
LARGE, TABLE = "prefix:40*histogram:60", "total:40*histogram:60"


def both(text, known):
    """A P as a product, and written out."""
    queries, answers = pml.workload(text), pml.workload(known)
    cells = queries.shape[1]
    return given_invariants(queries, tables_of(answers)), given_invariants(
        queries, as_public(answers, cells)
    )


@pytest.mark.sweep
@pytest.mark.parametrize(("text", "known"), CASES)
@pytest.mark.parametrize("p", [2, 4, math.inf])
def test_the_norm_is_that_of_the_written_matrix(text, known, p):
    product, written = both(text, known)
    np.testing.assert_allclose(product.to_dense(), written.to_dense(), atol=1e-12)
    assert product.longest_difference() == pytest.approx(written.longest_difference(), rel=1e-9)
    options = DesignOptions(neighbours="replace")
    first, second = (solve(queries, p, options).certificate for queries in (product, written))
    assert first.gap <= 1e-6
    assert first.lower <= second.upper * (1 + 1e-12)
    assert second.lower <= first.upper * (1 + 1e-12)


@pytest.mark.sweep
@pytest.mark.parametrize(("text", "known"), CASES)
@pytest.mark.parametrize("name", ["design", "identity", "tree", "haar"])
def test_no_records_that_the_table_counts_alike_are_farther_apart(text, known, name):
    product, written = both(text, known)
    strategy = name
    if name == "design":
        strategy = solve(product, 2, DesignOptions(neighbours="replace")).strategy
    table = pml.workload(known).to_dense()
    for noise, order in (("gaussian", 2), ("laplace", 1)):
        promise = pml.ApproxDP(1, 1e-6).beside(Public("tables", known))
        noisy = mechanism(strategy, product, guarantee=promise, noise=noise)
        matrix = noisy.strategy.matrix
        distances = [
            np.linalg.norm(matrix[:, i] - matrix[:, j], order)
            for i, j in combinations(range(matrix.shape[1]), 2)
            if (table[:, i] == table[:, j]).all()
        ]
        assert noisy.sensitivity == pytest.approx(max(distances), rel=1e-12)
        assert noisy.sensitivity >= max(distances) * (1 - 1e-15)
        reconstruction = product.to_dense() @ np.linalg.pinv(matrix, rcond=1e-10)
        left = product.to_dense() - reconstruction @ matrix
        assert np.abs(left).max() < 1e-9
        unit = noisy.scale * (math.sqrt(2) if noise == "laplace" else 1)
        spreads = unit * np.linalg.norm(reconstruction, axis=1)
        assert noisy.standard_deviations == pytest.approx(spreads, rel=1e-9)
        if name != "design":
            other = mechanism(strategy, written, guarantee=promise, noise=noise)
            assert noisy.scale == pytest.approx(other.scale, rel=1e-9)


def test_beyond_written_cells_from_the_command_to_the_file(tmp_path):
    guarantee = pml.ApproxDP(1, 1e-6)
    noisy = pml.optimize(LARGE, guarantee=guarantee, noise="gaussian", known=TABLE).best
    assert "not protected" in noisy.guarantee.describe(2400)
    replaced = pml.factorize("prefix:40", neighbours="replace").certificate
    norm = noisy.error(2) / noisy.scale
    assert replaced.lower * math.sqrt(60) * (1 - 1e-9) <= norm
    assert norm <= replaced.upper * math.sqrt(60) * (1 + 1e-6)
    path = tmp_path / "table.npz"
    write_strategy(path, noisy)
    read = read_strategy(path)
    again = pml.mechanism(read, LARGE, guarantee=guarantee, noise="gaussian", known=TABLE)
    assert again.scale == pytest.approx(noisy.scale, rel=1e-12)
    assert again.rmse == pytest.approx(noisy.rmse, rel=1e-9)
    assert pml.verify(path).holds
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    np.savez(path, **(arrays | {"counted": np.array([1, 0])}))
    with pytest.raises(pml.PmldesignError, match="damaged"):
        read_strategy(path)


def test_least_budget_beside_a_table():
    budget = pml.least_budget(LARGE, pml.ZCDP(1), targets=5, known=TABLE, noise="gaussian")
    assert budget.mechanism.max_std <= 5
    assert budget.at_least <= budget.enough <= budget.at_least * (1 + 1e-5)
    norm = pml.factorize("prefix:40", p=math.inf, neighbours="replace").certificate
    assert budget.enough >= (norm.lower / 5) ** 2 / 2 * (1 - 1e-9)


@pytest.mark.parametrize(
    ("text", "known", "message"),
    [
        (LARGE, "histogram:40*histogram:60", "nothing would be protected"),
        (LARGE, "prefix:40*histogram:60", "the total, counts of places"),
        (LARGE, "total:40*histogram:60+histogram:40*total:60", "any tables of their counts"),
        (TABLE, TABLE, "answer all queries"),
        ("prefix:2400", TABLE, "one product over the same attributes"),
        (f"{LARGE}+histogram:40*total:60", TABLE, "one product over the same attributes"),
        ("prefix:8*prefix:60*prefix:8", "total:8*histogram:60*total:8", "stand together"),
        ("prefix:50*prefix:50*prefix:2", "total:50*total:50*histogram:2", "at most 2048 cells"),
    ],
)
def test_what_is_refused(text, known, message):
    with pytest.raises(InvalidInputError, match=message):
        pml.optimize(text, guarantee=pml.ApproxDP(1, 1e-6), known=known)


def test_known_totals_are_replace_at_any_size():
    for known in ("total:40*total:60", "total:2400"):
        assert as_public(known, 2400) is RECORDS
        promise = pml.mechanism("identity", LARGE, guarantee=pml.PureDP(1), known=known).guarantee
        assert promise == pml.PureDP(1, "replace")


def test_releases_are_refused():
    noisy = pml.mechanism("identity", LARGE, guarantee=pml.PureDP(1), known=TABLE)
    with pytest.raises(InvalidInputError, match="at most 2048 cells"):
        noisy.release(np.zeros(2400, dtype=int))
