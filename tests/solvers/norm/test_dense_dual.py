import numpy as np
import pytest
from certified import CHECK_P, dual_value, factorization_value
from hypothesis import given
from hypothesis import strategies as st

from pmldesign_solvers.norm import ScalingProblem
from pmldesign_solvers.operators import (
    DenseOperator,
    MergedWorkload,
    dense,
    distinct_rows,
    first_seen,
)

exponents = st.sampled_from(CHECK_P)
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 6)


def with_copies(rows, columns, seed):
    """A workload with repeated and zero rows and columns, in any order, and -0.0 for 0.0."""
    rng = np.random.default_rng(seed)
    core = rng.integers(-1, 2, (rows, columns)).astype(float)
    core[0, 0] = 1.0
    core[core == 0] *= rng.choice([-1.0, 1.0], (core == 0).sum())
    A = core[rng.integers(0, rows, rows + 3)][:, rng.integers(0, columns, columns + 3)]
    A[rng.integers(rows + 3)] = core[0, 0]
    A[rng.integers(rows + 3)] = 0.0
    A[:, rng.integers(columns + 3)] = 0.0
    A[-1, -1] = 2.0
    return A


@given(sizes, sizes, seeds)
def test_merging_and_spreading_gives_the_workload_back(rows, columns, seed):
    A = with_copies(rows, columns, seed)
    merged = DenseOperator(A).merge()
    core = merged.operator.to_dense()
    assert len(np.unique(core, axis=0)) == len(core)
    assert len(np.unique(core, axis=1).T) == core.shape[1]
    assert core.any(axis=0).all()
    assert core.any(axis=1).all()
    # one zero row and column at the end, where the label -1 points
    padded = np.pad(core, ((0, 1), (0, 1)))
    assert (padded[np.ix_(merged.row_of, merged.column_of)] == A).all()


def test_labels_count_by_first_appearance():
    representatives, labels = first_seen([b"b", b"0", b"a", b"b"], b"0")
    assert representatives.tolist() == [0, 2]
    assert labels.tolist() == [0, -1, 1, 0]


@given(st.integers(1, 6), st.integers(1, 6), seeds)
def test_distinct_rows_are_told_by_their_numbers_alone(rows, columns, seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rows, columns))
    assert distinct_rows(A)[0].tolist() == list(range(rows))
    near = np.vstack([A, np.nextafter(A, np.inf), A, 0 * A, 1e300 * A])
    kept, labels = distinct_rows(near)
    assert kept.tolist() == [*range(2 * rows), *range(4 * rows, 5 * rows)]
    same = np.arange(rows)
    assert labels.tolist() == [*same, *(rows + same), *same, *(0 * same - 1), *(2 * rows + same)]


def test_rows_of_equal_hashes_are_compared(monkeypatch):
    hashes, seeds = dense._hashes, []

    def colliding(matrix, seed):
        seeds.append(seed)
        return hashes(matrix, seed) * (seed > 1)

    monkeypatch.setattr(dense, "_hashes", colliding)
    A = np.array([[1.0, 0.0], [0.0, 0.0], [-0.0, 1.0], [1.0, -0.0]])
    kept, labels = distinct_rows(A)
    assert (kept.tolist(), labels.tolist()) == ([0, 2], [0, -1, 1, 0])
    assert seeds == [0, 1, 2]


@pytest.mark.parametrize("shape", [(0, 0), (3, 0), (1, 5), (5, 1), (3, 2**16)])
def test_rows_of_every_shape_are_told_apart(shape):
    m, n = shape
    A = np.tile(np.arange(1.0, m + 1)[:, None], n)
    rows = list(range(m)) if n else []
    for matrix in (A, np.asfortranarray(A)):
        kept, labels = distinct_rows(matrix)
        assert kept.tolist() == rows
        assert labels.tolist() == (rows or [-1] * m)


@given(sizes, sizes, exponents, seeds)
def test_fold_undoes_weights(rows, columns, p, seed):
    A = with_copies(rows, columns, seed)
    problem = ScalingProblem(MergedWorkload(DenseOperator(A)), p)
    m, n = problem.shape
    assert m >= n
    rng = np.random.default_rng(seed)
    folded = problem.normalise(rng.uniform(0.1, 1, m), rng.uniform(0.1, 1, n))
    point = problem.evaluate(*folded)
    u, w = problem.weights(point.u, point.w)
    again = problem.turn(*MergedWorkload(DenseOperator(A)).fold(7 * u, 0.1 * w))
    for original, back in zip(folded, problem.normalise(*again), strict=True):
        assert np.allclose(back, original, rtol=1e-12)
    # neither merging nor turning round changes the dual value
    assert point.lower == pytest.approx(dual_value(A, u, w, p), rel=1e-9)


@given(sizes, sizes, exponents, seeds)
def test_bounds_at_a_point_are_those_of_its_factors(rows, columns, p, seed):
    A = with_copies(rows, columns, seed)
    problem = ScalingProblem(MergedWorkload(DenseOperator(A)), p)
    rng = np.random.default_rng(seed)
    weights = [rng.uniform(0.1, 1, size) for size in problem.shape]
    point = problem.evaluate(*problem.normalise(*weights))
    R, B = problem.factors(point)
    assert np.abs(A @ B @ R - A).max() < 1e-11
    assert np.linalg.norm(R, axis=0).max() == pytest.approx(1, rel=1e-12)
    # for a transposed workload the columns of R are not levelled, and B = R^+ can only be better
    value = factorization_value(R, A @ B, p)
    assert value <= point.upper * (1 + 1e-9)
    assert value >= point.lower * (1 - 1e-9)
    if not problem.transposed and len(R) == problem.shape[1]:
        assert value == pytest.approx(point.upper, rel=1e-9)


@given(sizes, sizes, seeds)
def test_garbage_weights_fold_to_positive_ones(rows, columns, seed):
    A = with_copies(rows, columns, seed)
    rng = np.random.default_rng(seed)
    u, w = rng.standard_normal(len(A)), rng.standard_normal(A.shape[1])
    u[A.any(axis=1).argmax()] = w[A.any(axis=0).argmax()] = 1.0
    merged = MergedWorkload(DenseOperator(A))
    for folded, size in zip(merged.fold(u, w), merged.shape, strict=True):
        assert folded.shape == (size,)
        assert (folded > 0).all()


def rank_one_update_rows(rank, n, seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n + 4, rank)) @ rng.standard_normal((rank, n))


@given(st.integers(1, 5), exponents, seeds)
def test_factors_stay_in_the_row_space_whatever_the_weights(rank, p, seed):
    # columns whose weights vanish: the rounding there must not reach the answers
    n = 7
    A = rank_one_update_rows(rank, n, seed)
    problem = ScalingProblem(MergedWorkload(DenseOperator(A)), p)
    w = np.where(np.arange(n) < rank, 1.0, 1e-13)
    point = problem.evaluate(*problem.normalise(np.ones(len(A)), w))
    R, B = problem.factors(point)
    assert len(R) == rank
    amplified = np.abs(A) @ np.abs(B) @ np.abs(R) + np.abs(A).max()
    assert (np.abs(A @ B @ R - A) <= 1e-11 * amplified).all()


@pytest.mark.parametrize("rank", [260, 259])
def test_the_rank_of_a_large_workload(rank):
    rng = np.random.default_rng(rank)
    matrix = rng.standard_normal((270, rank)) @ rng.standard_normal((rank, 260))
    scaled = matrix * 10.0 ** rng.uniform(-5, 5, 260)
    assert MergedWorkload(DenseOperator(scaled)).rank == rank
