import threading

import numpy as np
import pytest
from array_workload import ArrayWorkload, all_ranges, prefix, random_workload
from hypothesis import given
from hypothesis import strategies as st

from pmldesign.errors import InvalidInputError
from pmldesign.strategies import (
    Strategy,
    arguments,
    haar_wavelet,
    identity,
    square_root,
    streaming_form,
    tree,
    workload_strategy,
)
from pmldesign.workloads import RECORDS
from pmldesign_solvers.operators import operator as operators

sizes = st.integers(1, 7)
seeds = st.integers(0, 2**32 - 1)


def gaussian(rows, cells, seed):
    return np.random.default_rng(seed).standard_normal((rows, cells))


@given(sizes, sizes, sizes, seeds)
def test_variances_are_those_of_least_squares(queries, cells, extra, seed):
    R = gaussian(cells + extra, cells, seed)
    A = gaussian(queries, cells, seed + 1)
    # column k of R^+ is the least-squares answer to the k-th unit measurement
    inverse = np.linalg.lstsq(R, np.eye(cells + extra), rcond=None)[0]
    strategy = Strategy("random", R)
    assert np.allclose(
        strategy.variances(ArrayWorkload(A)), ((A @ inverse) ** 2).sum(axis=1), rtol=1e-8
    )
    assert np.allclose(strategy.reconstruction(ArrayWorkload(A)) @ R, A, atol=1e-8)


@given(sizes, sizes, seeds)
def test_no_other_reconstruction_has_a_smaller_variance_on_any_query(cells, extra, seed):
    # Gauss-Markov: every L with L R = A is A R^+ + Z (I - R R^+)
    R = gaussian(cells + extra, cells, seed)
    workload = ArrayWorkload(gaussian(5, cells, seed + 1))
    strategy = Strategy("random", R)
    off_range = np.eye(cells + extra) - R @ strategy.pseudo_inverse
    other = strategy.reconstruction(workload) + gaussian(5, cells + extra, seed + 2) @ off_range
    assert np.allclose(other @ R, workload.to_dense(), atol=1e-7)
    variances = strategy.variances(workload)
    assert ((other**2).sum(axis=1) >= variances * (1 - 1e-9)).all()
    assert ((other**2).sum(axis=1) > variances * (1 + 1e-6)).any()


@given(sizes, seeds)
def test_rank_deficient_strategy_answers_what_it_measures(cells, seed):
    low = gaussian(2, cells, seed)
    R = gaussian(6, 2, seed + 1) @ low
    A = gaussian(4, 6, seed + 2) @ R
    strategy = Strategy("low rank", R)
    assert strategy.rank == min(2, cells)
    workload = ArrayWorkload(A)
    L = strategy.reconstruction(workload)
    assert np.allclose(L @ R, A, atol=1e-6 * np.abs(A).max())
    assert np.allclose(strategy.variances(workload), (L**2).sum(axis=1), rtol=1e-9)


def test_pseudo_inverse_satisfies_the_penrose_conditions_when_rank_deficient():
    R = gaussian(7, 3, 0) @ gaussian(3, 5, 1)
    P = Strategy("low rank", R).pseudo_inverse
    assert np.allclose(R @ P @ R, R, atol=1e-12)
    assert np.allclose(P @ R @ P, P, atol=1e-12)
    assert np.allclose(R @ P, (R @ P).T, atol=1e-12)
    assert np.allclose(P @ R, (P @ R).T, atol=1e-12)


def test_variance_of_a_simulated_mechanism():
    # 20000 releases: the sample variance is within 5 standard errors, sqrt(2/20000) each
    strategy, workload = tree(5), prefix(5)
    noise = np.random.default_rng(7).standard_normal((strategy.shape[0], 20000))
    answers = strategy.reconstruction(workload) @ noise
    ratio = (answers**2).mean(axis=1) / strategy.variances(workload)
    assert np.abs(ratio - 1).max() < 5 * np.sqrt(2 / 20000)


@given(sizes, seeds, st.floats(1e-3, 1e3))
def test_scaling_a_strategy(cells, seed, factor):
    R = gaussian(cells + 2, cells, seed)
    workload = random_workload(3, cells, seed)
    strategy, scaled = Strategy("s", R), Strategy("s", factor * R)
    assert scaled.sensitivity == pytest.approx(factor * strategy.sensitivity, rel=1e-12)
    assert np.allclose(
        scaled.variances(workload) * factor**2, strategy.variances(workload), rtol=1e-8
    )
    assert scaled.normalised().sensitivity == pytest.approx(1.0, rel=1e-14)
    assert np.allclose(scaled.normalised().matrix, strategy.normalised().matrix, rtol=1e-12)


@given(sizes, seeds)
def test_permutations_of_measurements_cells_and_queries(cells, seed):
    rng = np.random.default_rng(seed)
    R, A = gaussian(cells + 2, cells, seed), gaussian(4, cells, seed + 1)
    measured, order, asked = rng.permutation(cells + 2), rng.permutation(cells), rng.permutation(4)
    before = Strategy("s", R).variances(ArrayWorkload(A))
    after = Strategy("s", R[measured][:, order]).variances(ArrayWorkload(A[asked][:, order]))
    assert np.allclose(after, before[asked], rtol=1e-8)


@given(sizes, seeds)
def test_rotating_the_measurements_changes_nothing_that_counts(cells, seed):
    R = gaussian(cells + 2, cells, seed)
    Q = np.linalg.qr(gaussian(cells + 2, cells + 2, seed + 1))[0]
    workload = random_workload(4, cells, seed)
    strategy, rotated = Strategy("s", R), Strategy("s", Q @ R)
    assert np.allclose(rotated.gram, strategy.gram, atol=1e-10)
    assert rotated.sensitivity == pytest.approx(strategy.sensitivity, rel=1e-12)
    assert np.allclose(rotated.variances(workload), strategy.variances(workload), rtol=1e-8)


@given(sizes, st.integers(0, 4), seeds)
def test_streaming_form_is_lower_triangular_with_the_same_gram_matrix(cells, extra, seed):
    strategy = Strategy("s", gaussian(cells + extra, cells, seed))
    workload = random_workload(4, cells, seed)
    form = streaming_form(strategy)
    assert form.shape == (cells, cells)
    assert np.array_equal(form.matrix, np.tril(form.matrix))
    assert (np.diag(form.matrix) > 0).all()
    assert np.allclose(form.gram, strategy.gram, atol=1e-11)
    assert form.sensitivity == pytest.approx(strategy.sensitivity, rel=1e-12)
    assert np.allclose(form.variances(workload), strategy.variances(workload), rtol=1e-6)


@pytest.mark.parametrize("strategy", [tree(11), haar_wavelet(11), tree(11, branching=3)])
def test_streaming_prefix_sums_never_need_a_later_measurement(strategy):
    reconstruction = streaming_form(strategy).reconstruction(prefix(11))
    assert np.array_equal(reconstruction, np.tril(reconstruction))


def test_streaming_form_of_a_triangular_strategy_is_itself():
    strategy = square_root(9)
    assert np.allclose(streaming_form(strategy).matrix, strategy.matrix, atol=1e-14)


def test_streaming_form_survives_a_gram_matrix_that_is_not_positive_in_floats():
    # norms 1, angle 1e-9: in float64 G is [[1, 1], [1, 1]], on which a Cholesky fails
    R = np.array([[1.0, 1.0], [0.0, 1e-9]])
    assert np.linalg.matrix_rank(R.T @ R) == 1
    # G = [[1, 1], [1, 1 + 1e-18]]: x22 = sqrt(G22), x21 = G21/x22, x11 = |det R|/x22 = 1e-9
    assert np.allclose(
        streaming_form(Strategy("s", R)).matrix, [[1e-9, 0.0], [1.0, 1.0]], rtol=1e-6, atol=1e-16
    )


def test_streaming_form_needs_full_rank():
    with pytest.raises(InvalidInputError, match=r"'sum' has rank 1 on 3 cells; .* needs rank 3"):
        streaming_form(Strategy("sum", np.ones((4, 3))))


def test_variances_and_queries_are_formed_in_blocks(monkeypatch):
    strategy = Strategy("tree", tree(8).matrix)
    whole = strategy.variances(all_ranges(8))
    monkeypatch.setattr(operators, "BLOCK_BYTES", 8 * 36 * 3)  # three columns of 36 queries
    workload = all_ranges(8)
    assert np.allclose(strategy.variances(workload), whole, rtol=1e-13)
    assert max(workload.widths) == 3
    assert sum(workload.widths) == 8  # 15 measurements, but R^+ has rank 8
    workload = all_ranges(8)
    assert np.array_equal(workload_strategy(workload).matrix, workload.operator.matrix)
    assert workload.widths == [3, 3, 2]


def test_first_query_that_cannot_be_answered_is_named():
    R = np.eye(4)[:3]
    A = np.array([[1.0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0], [1, 1, 1, 1], [0, 0, 0, 1]])
    for ask in ("require_answers", "reconstruction", "variances"):
        with pytest.raises(InvalidInputError, match=r"'short' cannot answer row 3: it lies"):
            getattr(Strategy("short", R), ask)(ArrayWorkload(A))
    Strategy("short", R).require_answers(ArrayWorkload(A[:3]))


def test_one_unmeasured_cell_among_many_is_noticed():
    # the smallest relative residual of a sum with one unmeasured cell, 1/sqrt(n)
    cells = 400
    with pytest.raises(InvalidInputError, match=r"cannot answer row 0"):
        Strategy("short", np.eye(cells)[:-1]).variances(ArrayWorkload(np.ones((1, cells))))


def test_a_row_is_judged_by_its_own_size():
    strategy = Strategy("first", [[1.0, 0.0]])
    assert strategy.variances(ArrayWorkload([[1e9, 1.0]])) == pytest.approx([1e18])
    with pytest.raises(InvalidInputError, match=r"cannot answer row 1"):
        strategy.variances(ArrayWorkload([[1e9, 0.0], [0.0, 1e-9]]))


def test_numbers_of_cells_must_agree():
    with pytest.raises(InvalidInputError, match=r"measures 3 cells, workload 'prefix:4' has 4"):
        identity(3).variances(prefix(4))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones(3), "at least one row"),
        (np.ones((0, 3)), "at least one row"),
        (np.ones((3, 0)), "at least one row"),
        (np.ones((2, 2)) * 1j, "real"),
        (np.array([["a"]]), "real"),
        (np.array([[None]]), "real"),
        ([[1.0, 0.0], [0.0, np.nan]], "got nan at row 1, column 1"),
        ([[np.inf]], "got inf at row 0, column 0"),
        (np.zeros((2, 2)), "measures nothing"),
        ([[1e200]], "rescale"),
        ([[1e-200]], "rescale"),
    ],
)
def test_what_is_no_strategy_is_refused(matrix, message):
    with pytest.raises(InvalidInputError, match=message):
        Strategy("bad", matrix)


def test_matrix_is_a_read_only_float64_copy():
    given_matrix = np.array([[1, -128], [0, 2]], dtype=np.int8)
    strategy = Strategy("s", given_matrix)
    given_matrix[0, 0] = 5
    assert strategy.matrix.dtype == np.float64
    assert strategy.matrix.tolist() == [[1.0, -128.0], [0.0, 2.0]]
    for array in (strategy.matrix, strategy.gram, strategy.pseudo_inverse):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 9.0
    assert (strategy.shape, strategy.cells) == ((2, 2), 2)


def test_only_a_read_only_array_of_its_own_is_kept_without_a_copy():
    array = np.eye(3)
    view = array.view()
    view.flags.writeable = False
    from_array, from_view = Strategy("s", array), Strategy("s", view)
    array[0, 0] = 5.0
    assert from_array.matrix[0, 0] == from_view.matrix[0, 0] == 1.0
    array.flags.writeable = False
    assert Strategy("s", array).matrix is array


def test_sensitivity_is_the_largest_column_norm():
    # columns (3, 4) and (1, 1): norms 5 and sqrt 2
    assert Strategy("s", [[3.0, 1.0], [4.0, 1.0]]).sensitivity == pytest.approx(5.0, rel=1e-15)


def test_a_strategy_for_a_public_total_says_so_when_asked_for_it():
    differences = Strategy("differences", [[1.0, -1.0]])
    with pytest.raises(InvalidInputError, match="use `neighbours='replace'`"):
        differences.variances(ArrayWorkload([[1.0, 1.0]]))


def test_few_queries_are_checked_without_a_matrix_of_all_cells():
    rng = np.random.default_rng(4)
    A = rng.integers(1, 5, (3, 50_000)).astype(float)
    both, first = Strategy("both", A), Strategy("first", A[:1])
    both.require_answers(ArrayWorkload(A))
    np.testing.assert_allclose(both.variances(ArrayWorkload(A)), 1.0)
    with pytest.raises(InvalidInputError, match="cannot answer row 1"):
        first.require_answers(ArrayWorkload(A))
    first.require_answers(ArrayWorkload(3 * A[:1]))


def test_the_inverse_does_not_hang_on_the_algorithm(monkeypatch):
    matrix = np.random.default_rng(8).normal(size=(6, 3)) @ np.ones((3, 1)) * [1.0, 2, 0, 1]
    exact = np.linalg.pinv(matrix, 1e-11)

    def fails(*_, **__):
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr("scipy.linalg.pinv", fails)
    strategy = Strategy("rank one", matrix)
    np.testing.assert_allclose(strategy.pseudo_inverse, exact, atol=1e-15)
    assert strategy.rank == 1


def test_whether_it_answers_a_workload_is_found_out_once(monkeypatch):
    """And for every workload anew: what it answers says nothing about others."""
    rng = np.random.default_rng(4)
    queries = rng.standard_normal((3, 7))
    asked, other = ArrayWorkload(queries), ArrayWorkload(rng.standard_normal((3, 7)))
    products, matvec = [], type(asked).matvec

    def counted(self, x):
        products.append(self)
        return matvec(self, x)

    monkeypatch.setattr(type(asked), "matvec", counted)
    measured = Strategy("rows", queries)
    for _ in range(3):
        measured.require_answers(asked)
    assert products == [asked]
    for _ in range(2):
        with pytest.raises(InvalidInputError, match="cannot answer row 0"):
            measured.require_answers(other)
    assert products == [asked, other, other]


def test_equal_columns_are_inverted_once(monkeypatch):
    """Of a wide strategy; zero columns too, and rows that depend on others."""
    R = gaussian(5, 4, 7)
    R[:, 1] = 0.0
    R[4] = R[0] + R[2]
    wide = R[:, [0, 1, 2, 3, 2, 2, 0, 1, 3]]
    expected = np.linalg.pinv(wide)
    shapes, svd = [], np.linalg.svd
    monkeypatch.setattr(arguments, "SVD_ENTRIES", 0)
    monkeypatch.setattr(
        np.linalg, "svd", lambda R, **asked: shapes.append(R.shape) or svd(R, **asked)
    )
    strategy = Strategy("R", wide)
    np.testing.assert_allclose(strategy.pseudo_inverse, expected, atol=1e-12)
    assert strategy.rank == 3
    assert shapes == [(5, 4)]


@pytest.mark.parametrize("scale", [2.0**-300, 1.0, 2.0**300])
def test_regular_lower_triangular_strategies_are_not_decomposed(scale, monkeypatch):
    monkeypatch.setattr(np.linalg, "svd", None)
    R = scale * np.tril(np.ones((6, 6)))
    strategy = Strategy("R", R)
    np.testing.assert_array_equal(strategy.pseudo_inverse, (np.eye(6) - np.eye(6, k=-1)) / scale)
    assert strategy.rank == 6


@pytest.mark.parametrize("last", [0.0, 1e-200, 1e-12])
def test_lower_triangular_strategies_that_are_not_regular(last):
    R = np.tril(np.ones((4, 4)))
    R[3] = [0, 0, 0, last]
    strategy = Strategy("R", R)
    assert strategy.rank == 3
    np.testing.assert_allclose(strategy.pseudo_inverse, np.linalg.pinv(R, rcond=1e-10), atol=1e-12)


def test_a_signal_is_heeded_during_a_long_decomposition(monkeypatch):
    """LAPACK comes back to Python when it is done, seconds later: the main thread waits for it."""
    R, threads = gaussian(6, 4, 9), []
    expected, svd = np.linalg.pinv(R), np.linalg.svd
    monkeypatch.setattr(arguments, "SVD_WORK", 0)

    def decomposed(matrix, **options):
        threads.append(threading.current_thread())
        return svd(matrix, **options)

    monkeypatch.setattr(np.linalg, "svd", decomposed)
    np.testing.assert_allclose(Strategy("R", R).pseudo_inverse, expected, atol=1e-12)
    assert threads
    assert threading.main_thread() not in threads

    def impossible(*_arguments, **_options):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(np.linalg, "svd", impossible)
    np.testing.assert_allclose(Strategy("R", R).pseudo_inverse, expected, atol=1e-12)


def test_equal_columns_of_tall_matrices_are_one(monkeypatch):
    """Whose Gram matrix is regular, so that nothing is decomposed."""
    few = gaussian(9000, 30, 8)
    R = few[:, np.random.default_rng(1).permutation(np.arange(90) % 30)]
    expected = np.linalg.pinv(R, rcond=1e-10)
    monkeypatch.setattr(np.linalg, "svd", None)
    strategy = Strategy("R", R)
    np.testing.assert_allclose(strategy.pseudo_inverse, expected, atol=1e-13)
    assert strategy.rank == 30


@pytest.mark.parametrize(("what", "most"), [("MOST_SVD_WORK", 6 * 4 * 4), ("memory", 6 * 8 * 24)])
def test_a_decomposition_of_many_minutes_or_too_much_memory_is_refused(monkeypatch, what, most):
    """r n min(r, n) multiplications, and six copies of eight bytes for each entry."""
    R = np.vstack([np.eye(4), np.ones((2, 4))])

    def allow(number):
        monkeypatch.setattr(arguments, what, number if what.isupper() else lambda: number)

    allow(most)
    np.testing.assert_allclose(Strategy("R", R).pseudo_inverse, np.linalg.pinv(R), atol=1e-12)
    allow(most - 1)
    with pytest.raises(
        InvalidInputError, match=r"6 of 4 cells, are too many to invert: .*; measure"
    ):
        _ = Strategy("R", R).pseudo_inverse
    assert Strategy("R", np.tril(np.ones((8, 8)))).rank == 8  # which takes no decomposition


@pytest.mark.parametrize(
    ("odd", "lost", "decomposed"),
    [
        ("", 0, False),
        ("zero row", 1, True),
        ("dependent", 1, False),
        ("dependent, of other lengths", 3, False),
        ("nearly dependent", 0, True),
        ("a row far below", 1, True),
        ("equal columns", 0, False),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_large_strategies_are_decomposed_only_where_rows_nearly_depend(
    odd, lost, decomposed, turned, monkeypatch
):
    """Others through the Gram matrix of the shorter side, a tenth of the time."""
    R = gaussian(40, 7000, 8)
    if odd == "dependent, of other lengths":
        R *= np.geomspace(1, 1e3, 40)[:, None]
        R[:3] = gaussian(3, 37, 3) @ R[3:]
    if odd == "nearly dependent":
        R[3] = R[5] - 2 * R[7] + 1e-8 * R[3]
    if odd == "zero row":
        R[3] = 0.0
    if odd == "dependent":
        R[3] = R[5] - 2 * R[7]
    if odd == "a row far below":
        R[3] *= 1e-12
    if odd == "equal columns":
        R[:, 1] = R[:, 0]
    R = R.T if turned else R
    inverse, svd, calls = np.linalg.pinv(R, rcond=1e-10), np.linalg.svd, []
    monkeypatch.setattr(np.linalg, "svd", lambda R, **asked: calls.append(1) or svd(R, **asked))
    strategy = Strategy("R", R)
    rounding = 1e-6 if odd == "nearly dependent" else 1e-12
    np.testing.assert_allclose(
        strategy.pseudo_inverse, inverse, atol=rounding * np.abs(inverse).max()
    )
    assert strategy.rank == 40 - lost
    assert len(calls) == decomposed


@pytest.mark.parametrize("rows", [514, 520])
@pytest.mark.parametrize("odd", ["", "dependent", "equal columns"])
def test_large_strategies_beside_the_total_need_no_decomposition(rows, odd, monkeypatch):
    """Their rows sum to zero: the total is one more row, which leaves the inverse as it is."""
    R = gaussian(rows, 514, 9) + 40 * np.eye(rows, 514)
    if odd == "dependent":
        R[:, 3] = R[:, 5] - 2 * R[:, 7] + 2 * R[:, 8]
    if odd == "equal columns":
        R[:, 1] = R[:, 0]
    R -= R.mean(axis=1, keepdims=True)
    inverse = np.linalg.pinv(R, rcond=1e-10)
    monkeypatch.setattr(np.linalg, "svd", None)
    strategy = Strategy("R", R, public=RECORDS)
    scale = np.abs(inverse).max()
    np.testing.assert_allclose(strategy.pseudo_inverse, inverse, atol=1e-9 * scale)
    assert strategy.rank == 513 - (odd != "")
