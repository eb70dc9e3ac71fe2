"""Sums of cells that nest become counts of regions, whatever they were written as."""

import numpy as np
import pytest
from scipy import sparse

from pmldesign import factorize
from pmldesign.workloads import RegionsWorkload, UnionWorkload, as_workload


@pytest.fixture
def all_sizes(monkeypatch):
    monkeypatch.setattr("pmldesign.workloads.nested.regions.REGION_CELLS", 0)


def random_rows(rng, cells):
    """Intervals that nest, each after those around it, then every cell by itself."""
    rows, open_intervals = [], [(0, cells)]
    while open_intervals:
        start, stop = open_intervals.pop(0)
        if rng.random() < 0.8:
            rows += [(start, stop)] * int(rng.integers(1, 3))
        if stop - start > 2:
            cut = int(rng.integers(start + 1, stop))
            open_intervals += [(start, cut), (cut, stop)]
    rows += [(cell, cell + 1) for cell in range(cells)]
    matrix = np.zeros((len(rows), cells))
    for row, (start, stop) in zip(matrix, rows, strict=True):
        row[start:stop] = 1
    return matrix


@pytest.mark.parametrize("seed", range(20))
def test_nesting_rows_are_the_same_counts_in_the_same_order(seed, all_sizes):
    rng = np.random.default_rng(seed)
    matrix = random_rows(rng, int(rng.integers(1, 12)))
    workload = as_workload(sparse.csr_array(matrix))
    assert isinstance(workload, RegionsWorkload)
    assert np.array_equal(workload.to_dense(), matrix)
    x = rng.standard_normal(matrix.shape[1])
    np.testing.assert_allclose(workload.matvec(x), matrix @ x, atol=1e-12)


def test_unions_of_counts_nest_too(all_sizes):
    states = as_workload(np.kron(np.eye(3), np.ones((1, 4))))
    parts = [as_workload("total:12"), as_workload(sparse.csr_array(states.to_dense()))]
    union = UnionWorkload([*parts, as_workload("histogram:12")])
    nested = as_workload(union)
    assert isinstance(nested, RegionsWorkload)
    assert np.array_equal(nested.to_dense(), union.to_dense())


@pytest.mark.parametrize(
    "first",
    [
        [[1, 1, 0, 0], [0, 1, 1, 0]],  # they cross
        [[1, 1, 0, 0], [1, 1, 1, 1]],  # the larger one comes later
        [[1, 1, 1, 2]],
        [[0, 0, 0, 0]],
    ],
)
def test_other_rows_are_left_as_they_are(first, all_sizes):
    matrix = np.vstack([first, np.eye(4)])
    workload = as_workload(sparse.csr_array(matrix))
    assert not isinstance(workload, RegionsWorkload)
    assert np.array_equal(workload.to_dense(), matrix)


@pytest.mark.parametrize("cells", [[0, 1, 2, 2], [1, 0, 2, 3], [0, 1, 2]])
def test_cells_out_of_order_or_not_asked_alone_are_left_as_they_are(cells, all_sizes):
    matrix = np.vstack([np.ones((2, 4)), np.eye(4)[cells]])
    workload = as_workload(sparse.csr_array(matrix))
    assert not isinstance(workload, RegionsWorkload)
    assert np.array_equal(workload.to_dense(), matrix)


def test_few_cells_are_designed_as_one_matrix():
    matrix = random_rows(np.random.default_rng(1), 6)
    design = factorize(sparse.csr_array(matrix))
    assert design.certificate.gap <= 1e-6
