import itertools

import numpy as np
import pytest
from certified import CHECK_P, assert_certified, dual_value, factorization_value, p_norm
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.linalg import circulant, hadamard

from pmldesign.workloads import RangeWorkload, parse_workload
from pmldesign_solvers.certificate import cells
from pmldesign_solvers.norm import SolverOptions, Status, dual_function, solve_norm
from pmldesign_solvers.operators import Deadline, DenseOperator

GAP = 1e-6
all_p = pytest.mark.parametrize("p", CHECK_P)
exponents = st.sampled_from(CHECK_P)
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 6)


def norm(A, p, **options):
    """The certified solution of a workload that the solver is expected to finish."""
    solution = solve_norm(
        DenseOperator(np.asarray(A, dtype=float)), p, options=SolverOptions(**options)
    )
    assert_certified(solution, A, p=p, rel_gap=options.get("rel_gap", GAP))
    return solution.certificate


def assert_brackets(certificate, gamma):
    assert certificate.lower <= gamma * (1 + 1e-12)
    assert certificate.upper >= gamma * (1 - 1e-12)


def assert_overlap(first, second, factor=1.0):
    """Two certificates of numbers that differ by a factor."""
    assert first.lower <= factor * second.upper * (1 + 1e-12)
    assert factor * second.lower <= first.upper * (1 + 1e-12)


def prefix(n):
    return np.tril(np.ones((n, n)))


def gaussian(rows, columns, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, columns))


def power(base, p):
    return 1.0 if np.isinf(p) else base ** (1 / p)


# closed forms


@all_p
@pytest.mark.parametrize("n", [1, 2, 7])
def test_identity(n, p):
    assert_brackets(norm(np.eye(n), p), power(n, p))


@all_p
@pytest.mark.parametrize("rows", [1, 3, 8])
def test_parity_queries(rows, p):
    # m distinct rows of a Hadamard matrix: m^(1/p + 1/2)
    assert_brackets(norm(hadamard(8)[8 - rows :], p), power(rows, p) * rows**0.5)


@given(sizes, exponents, seeds)
def test_circulants(n, p, seed):
    first = np.random.default_rng(seed).standard_normal(n)
    # uniform weights by symmetry; the singular values are the moduli of the Fourier transform
    gamma = power(n, p) / n * np.abs(np.fft.fft(first)).sum()
    assert_brackets(norm(circulant(first), p), gamma)


@given(sizes, sizes, exponents.filter(lambda p: p != 1000), seeds)
def test_rank_one(rows, columns, p, seed):
    row, column = gaussian(rows, 1, seed)[:, 0], gaussian(columns, 1, seed + 1)[:, 0]
    gamma = p_norm(np.abs(row), p) * np.abs(column).max()
    assert_brackets(norm(np.outer(row, column), p), gamma)


@pytest.mark.parametrize(
    ("n", "values"),
    [
        (2, {2: (1 + 5**0.5) / 2, np.inf: 2 / 3**0.5}),
        (16, {2: 6.7576147, 4: 3.3847245, np.inf: 1.7044802}),
        (64, {2: 16.7988518, 4: 5.9451866, np.inf: 2.1113667}),
        (512, {2: 61.9851989, 4: 13.0362075, np.inf: 2.7464333}),
    ],
)
def test_prefix_sums(n, values):
    for p, gamma in values.items():
        operator = parse_workload(f"prefix:{n}")
        solution = solve_norm(operator, p, options=SolverOptions(rel_gap=GAP))
        assert_certified(solution, prefix(n), p=p, rel_gap=GAP)
        # 7 decimals are known
        assert solution.certificate.lower <= gamma + 5e-8
        assert solution.certificate.upper >= gamma - 5e-8
        assert solution.eigendecompositions <= 40


# invariances


@pytest.mark.sweep
@all_p
@pytest.mark.parametrize(("rows", "columns"), [(5, 3), (3, 5), (4, 4)])
def test_invariances(rows, columns, p):
    rng = np.random.default_rng([rows, columns])
    A = gaussian(rows, columns, rows)
    reference = norm(A, p)
    signs, more_signs = rng.choice([-1.0, 1.0], rows), rng.choice([-1.0, 1.0], columns)
    shuffled = (signs[:, None] * A * more_signs)[rng.permutation(rows)][:, rng.permutation(columns)]
    assert_overlap(norm(shuffled, p), reference)
    assert_overlap(norm(-250.0 * A, p), reference, 250.0)
    rotated = np.linalg.qr(gaussian(rows, rows))[0] @ A
    if p == 2:  # tr(L L^T) does not see a rotation of the answers
        assert_overlap(norm(rotated, p), reference)
    if np.isinf(p):
        assert_overlap(norm(A.T, p), reference)
    # k copies of every query: the p-norm of the row norms grows by k^(1/p)
    assert_overlap(norm(np.vstack([A, A, -A]), p), reference, power(3, p))
    # a repeated cell is one cell, an unused one nothing
    spread = np.hstack([A[:, :1], np.zeros((rows, 2)), A, A[:, -1:]])
    assert_overlap(norm(np.vstack([spread, np.zeros((1, columns + 4))]), p), reference)


@all_p
def test_kronecker_products_multiply(p):
    A, B = gaussian(4, 3, 1), prefix(4)
    first, second = norm(A, p), norm(B, p)
    product = norm(np.kron(A, B), p)
    assert product.lower <= first.upper * second.upper * (1 + 1e-12)
    assert product.upper >= first.lower * second.lower * (1 - 1e-12)


@given(st.tuples(sizes, sizes).filter(lambda shape: shape[0] >= shape[1]), seeds)
@example((4, 3), 271)  # duals vanish, and the closed form of B is off by 2e-12
def test_random_workloads_over_p(shape, seed):
    A = gaussian(*shape, seed)
    m, n = shape
    before = None
    for p in CHECK_P:
        solution = solve_norm(DenseOperator(A), p)
        assert_certified(solution, A, p=p)
        bounds = solution.certificate
        # the norm is non-increasing in p, and at least the uniform dual's value
        if before is not None:
            assert bounds.lower <= before.upper * (1 + 1e-12)
        schatten = np.linalg.svd(A, compute_uv=False).sum()
        assert bounds.upper >= power(m, p) / np.sqrt(m * n) * schatten * (1 - 1e-12)
        # measuring every cell, measuring every query
        rows, columns = np.linalg.norm(A, axis=1), np.linalg.norm(A, axis=0)
        assert bounds.lower <= min(p_norm(rows, p), power(m, p) * columns.max()) * (1 + 1e-12)
        assert bounds.gap < 0.05
        before = bounds


@given(sizes, sizes, exponents, seeds)
def test_no_point_beats_the_certificate(rows, columns, p, seed):
    rng = np.random.default_rng(seed)
    A = rng.integers(-2, 3, (rows, columns)).astype(float)
    A[0, 0] = 1.0
    solution = solve_norm(DenseOperator(A), p)
    assert_certified(solution, A, p=p)
    bounds = solution.certificate
    for _ in range(5):
        # neighbours of the answer: no dual above the upper bound, no factorization below the lower
        u = np.abs(solution.dual_u * (1 + 0.1 * rng.standard_normal(rows)))
        w = np.abs(solution.dual_w * (1 + 0.1 * rng.standard_normal(columns)))
        assert dual_value(A, u, w, p) <= bounds.upper * (1 + 1e-12)
        R = solution.strategy + 0.05 * rng.standard_normal(solution.strategy.shape)
        R = np.vstack([R, 0.1 * rng.standard_normal((columns, columns))])
        L = A @ np.linalg.pinv(R, 1e-11)
        assert factorization_value(R, L, p) >= bounds.lower * (1 - 1e-10)


# shapes and scales


@pytest.mark.sweep
@all_p
@pytest.mark.parametrize(
    "A",
    [
        gaussian(40, 3),
        gaussian(9, 3) @ gaussian(3, 7),
        gaussian(3, 2) @ gaussian(2, 12),
        np.outer([1.0, 0, 2, 0], [0.0, 3, 3, 0, 1]),
        np.vstack([np.eye(6), np.ones((1, 6))]),
        [[1.0, -2, 3, 0]],
        [[1.0], [0], [-1], [5]],
        [[1e-5]],
    ],
    ids=["tall", "deficient", "wide deficient", "rank one", "total", "row", "column", "one"],
)
def test_shapes(A, p):
    norm(A, p)


@pytest.mark.sweep
@all_p
@pytest.mark.parametrize("decades", [8, 15, 20])
def test_badly_scaled_rows_and_columns(decades, p):
    A = gaussian(6, 6)
    scale = np.logspace(0, -decades, 6)
    norm(scale[:, None] * A, p)
    norm(A * scale, p)
    norm(scale[:, None] * A * scale[::-1], p)
    norm(scale[:, None] * A * scale, p)


@pytest.mark.sweep
@all_p
@pytest.mark.parametrize("seed", range(4))
def test_nearly_dependent_queries_are_not_dependent(seed, p):
    # the last query is the sum of the others but for 1e-9, less than the root of a Gram's rounding
    A = gaussian(6, 6, seed)
    A[-1] = A[:-1].sum(axis=0) + 1e-9 * A[-1]
    norm(A, p)
    norm(A * np.logspace(0, -8, 6), p, rel_gap=1e-5)


@pytest.mark.parametrize("p", [2.5, np.inf])
def test_the_search_believes_no_false_upper_bound(p):
    # rows of norm 1e-8: a quadratic form would square their condition number
    A = np.logspace(0, -8, 6)[:, None] * gaussian(6, 6)
    seen = []
    final = solve_norm(
        DenseOperator(A), p, options=SolverOptions(rel_gap=1e-9, callback=seen.append)
    ).certificate
    tight = norm(A, p, rel_gap=1e-6)
    assert all(step.upper >= tight.lower * (1 - 1e-9) for step in seen)
    assert seen[-1].upper == pytest.approx(final.upper, rel=1e-9)


@pytest.mark.parametrize("p", [2, 4, np.inf])
def test_ranges_are_solved_without_their_matrix(p):
    starts, stops = zip(*itertools.combinations(range(13), 2), strict=True)
    workload = RangeWorkload(starts, stops, 12)
    A = workload.to_dense()
    structured = solve_norm(workload, p)
    assert_certified(structured, A, p=p)
    assert_overlap(structured.certificate, solve_norm(DenseOperator(A), p).certificate)
    gap = structured.certificate.gap
    assert gap <= GAP or (np.isinf(p) and gap <= 1e-3)


# stopping


def test_callback_sees_bounds_that_only_improve():
    seen = []
    solution = solve_norm(DenseOperator(prefix(32)), 4, options=SolverOptions(callback=seen.append))
    assert [step.number for step in seen] == list(range(1, solution.steps + 1))
    for before, after in itertools.pairwise(seen):
        assert before.lower <= after.lower <= after.upper <= before.upper
        assert before.seconds <= after.seconds
        assert after.gap == after.upper / after.lower - 1
    assert seen[-1].lower == pytest.approx(solution.certificate.lower, rel=1e-9)
    assert seen[-1].upper == pytest.approx(solution.certificate.upper, rel=1e-9)


@pytest.mark.parametrize("p", [2, 4, np.inf])
def test_limits_are_kept_and_said(p):
    A = gaussian(12, 8)
    for steps in (1, 3):
        limited = solve_norm(
            DenseOperator(A), p, options=SolverOptions(rel_gap=1e-12, max_steps=steps)
        )
        assert limited.status is Status.ITERATION_LIMIT
        assert limited.steps == steps
        assert_certified(limited, A, p=p)
    late = solve_norm(
        DenseOperator(A), p, options=SolverOptions(rel_gap=1e-12, deadline=Deadline(0.0))
    )
    assert late.status is Status.TIME_LIMIT
    assert_certified(late, A, p=p)


@pytest.mark.parametrize("when", [1, 4])
@pytest.mark.parametrize("p", [2, 4, np.inf])
def test_an_interrupt_returns_the_best_so_far(p, when):
    A = gaussian(12, 8)
    seen = []

    def interrupt(step):
        seen.append(step)
        if step.number == when:
            raise KeyboardInterrupt

    solution = solve_norm(
        DenseOperator(A), p, options=SolverOptions(rel_gap=1e-12, callback=interrupt)
    )
    assert solution.status is Status.INTERRUPTED
    assert solution.steps == when
    assert_certified(solution, A, p=p)
    assert solution.certificate.lower == pytest.approx(seen[-1].lower, rel=1e-9)


def test_a_gap_below_rounding_is_not_claimed():
    A = gaussian(12, 8)
    solution = solve_norm(DenseOperator(A), 4, options=SolverOptions(rel_gap=0.0))
    assert solution.status is Status.STALLED
    assert_certified(solution, A, p=4)
    assert solution.certificate.gap < 1e-7


@pytest.mark.parametrize("p", [2, 4, np.inf])
def test_a_search_ends_where_only_rounding_keeps_the_bounds_apart(p, monkeypatch):
    # a Gram matrix of 200 cells, as larger workloads have, tells the lower bound to about 1e-9
    for module in (cells, dual_function):
        monkeypatch.setattr(module, "SVD_ENTRIES", 2**15)
    solution = solve_norm(parse_workload("prefix:200"), p, options=SolverOptions(rel_gap=3e-10))
    assert solution.status is Status.STALLED
    assert 3e-10 < solution.certificate.gap < 1e-8
    assert solution.steps <= 45  # 12 of the fixed point before and after the interior point


@pytest.mark.parametrize("p", [1.9, 0, -1, np.nan, -np.inf])
def test_p_outside_its_range_is_refused(p):
    with pytest.raises(ValueError, match="p must be in"):
        solve_norm(DenseOperator(np.eye(2)), p)


def test_a_workload_of_zeros_is_refused():
    with pytest.raises(ValueError, match="zero"):
        solve_norm(DenseOperator(np.zeros((3, 2))), 2)


@settings(max_examples=10)
@given(seeds, exponents)
def test_the_workload_is_left_as_it_was(seed, p):
    A = gaussian(4, 3, seed)
    copy = A.copy()
    first = solve_norm(DenseOperator(A), p)
    second = solve_norm(DenseOperator(A), p)
    assert (copy == A).all()
    assert (first.strategy == second.strategy).all()  # nothing random, nothing remembered


def test_weights_over_orders_of_magnitude_are_solved_in_few_steps():
    weights = np.exp(np.random.default_rng(0).uniform(-4.6, 0, 128))
    A = np.tril(np.ones((128, 128))) * weights[:, None]
    solution = solve_norm(DenseOperator(A), np.inf, options=SolverOptions(rel_gap=2e-6))
    assert solution.status is Status.OPTIMAL
    assert_certified(solution, A, p=np.inf)
    assert solution.steps <= 40  # the fixed point alone takes hundreds
