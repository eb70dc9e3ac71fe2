from unittest.mock import patch

import mpmath
import numpy as np
import pytest
from certified import CHECK_P, EPS, p_norm
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.linalg import hadamard

from pmldesign.workloads import as_workload, parse_workload
from pmldesign_solvers.certificate import (
    cells,
    certify,
    factors,
    laplacian_root,
    lower_bound,
    pairs,
    upper_bound,
)
from pmldesign_solvers.norm import SolverOptions, solve_norm
from pmldesign_solvers.operators import TINY, DenseOperator, diameter, power_mean

seeds = st.integers(0, 2**32 - 1)
exponents = st.sampled_from([*CHECK_P, 2 + 1e-6, 1e6])
scales = st.sampled_from([0, 3, 8])


def closed_form(kind, size, p, rng):
    """A workload and its gamma_(p)."""
    per = 0.0 if np.isinf(p) else 1 / p
    if kind == "identity":  # R = I; u = 1, w = 1/n scaled to norm 1
        return np.eye(size), size**per
    if kind == "parity":  # distinct rows of a Hadamard matrix: all singular values are equal
        rows = rng.permutation(8)[:size]
        return hadamard(8)[rows].astype(float), size ** (per + 0.5)
    if kind == "circulant":  # uniform weights are optimal by symmetry
        first = rng.standard_normal(size)
        C = np.array([np.roll(first, shift) for shift in range(size)])
        # eigenvalues of a circulant are the Fourier transform of its first row
        return C, size ** (per - 1) * np.abs(np.fft.fft(first)).sum()
    row, column = rng.standard_normal(size), rng.standard_normal(size + 2)
    # rank one: R = column / norm_inf, and the dual puts all of w on its largest entry
    return np.outer(row, column), p_norm(np.abs(row), p) * np.abs(column).max()


kinds = st.sampled_from(["identity", "parity", "circulant", "rank one"])


def garbage(rng, size, decades):
    """Non-negative weights over many decades, some of them zero."""
    weights = 10.0 ** rng.uniform(-decades, decades, size) * (rng.random(size) < 0.8)
    weights[rng.integers(size)] = 1.0
    return weights


@given(kinds, st.integers(1, 7), exponents, seeds, scales)
def test_garbage_brackets_the_closed_form(kind, size, p, seed, decades):
    rng = np.random.default_rng(seed)
    A, gamma = closed_form(kind, size, p, rng)
    m, n = A.shape
    rank = int(rng.integers(1, n + 3))
    R = rng.standard_normal((rank, n)) * 10.0 ** rng.uniform(-decades, decades, n)
    B = rng.standard_normal((n, rank)) if rng.random() < 0.5 else np.linalg.pinv(R, 1e-11)
    bounds = certify(DenseOperator(A), R, B, garbage(rng, m, decades), garbage(rng, n, decades), p)
    slack = 1e-13  # of the closed form itself
    assert bounds.lower <= gamma * (1 + slack)
    assert bounds.upper >= gamma * (1 - slack)


@given(st.integers(1, 9), st.integers(1, 5), exponents, seeds)
def test_no_strategy_at_all_costs_the_whole_workload(rows, columns, p, seed):
    # R = 0, B = 0: everything is residual, and gamma_(p)(A) <= (sum_i norm(A_i)^p)^(1/p) by R = I
    A = np.random.default_rng(seed).standard_normal((rows, columns))
    zero = np.zeros((1, columns))
    bound = upper_bound(DenseOperator(A), zero, zero.T, p)
    direct = upper_bound(DenseOperator(A), np.eye(columns), np.eye(columns), p)
    assert bound == pytest.approx(direct, rel=1e-14)


def test_a_right_inverse_that_misses_a_query_pays_for_it():
    # R = B = diag(1, 0) answers the first query only; the second costs norm(e_2) = 1 on its own
    half = np.diag([1.0, 0.0])
    for p, norm in ((2, 2**0.5), (4, 2**0.25), (np.inf, 1.0)):
        bound = upper_bound(DenseOperator(np.eye(2)), half, half, p)
        assert norm <= bound
        assert bound == pytest.approx(2.0, rel=1e-13)


def exact_dual_value(A, u, w, p):
    """The normalised dual value to 60 digits."""
    with mpmath.workdps(60):
        m, n = A.shape
        entry = np.vectorize(mpmath.mpf, otypes=[object])
        root_u, root_w = np.vectorize(mpmath.sqrt)(entry(u)), np.vectorize(mpmath.sqrt)(entry(w))
        scaled = root_u[:, None] * entry(A) * root_w
        tall = scaled if m >= n else scaled.T
        nuclear = mpmath.fsum(mpmath.svd_r(mpmath.matrix(tall.tolist()), compute_uv=False))
        if p == 2:
            norm = max(entry(u))
        else:
            q = mpmath.mpf(1) if np.isinf(p) else mpmath.mpf(p) / (mpmath.mpf(p) - 2)
            norm = mpmath.fsum(value**q for value in entry(u) if value > 0) ** (1 / q)
        return nuclear / mpmath.sqrt(norm * mpmath.fsum(entry(w)))


def exact_value(A, R, B, p):
    """Value of L = A B, R and what the residual costs, to 60 digits."""
    with mpmath.workdps(60):
        A, R, B = (mpmath.matrix(array.tolist()) for array in (A, R, B))
        L = A * B

        def norms(X):
            return [mpmath.norm(X[i, :], 2) for i in range(X.rows)]

        def size(values):
            if np.isinf(p):
                return max(values)
            return mpmath.fsum(value ** mpmath.mpf(p) for value in values) ** (1 / mpmath.mpf(p))

        return size(norms(L)) * max(norms(R.T)) + size(norms(A - L * R))


@pytest.mark.sweep
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (6, 3), (3, 6)])
@pytest.mark.parametrize("shortcut", [False, True], ids=["direct", "gram"])
@pytest.mark.parametrize("kind", ["gaussian", "deficient", "scaled", "equal"])
def test_bounds_are_rounded_outwards(monkeypatch, shape, shortcut, kind):
    if shortcut:
        monkeypatch.setattr(cells, "SVD_ENTRIES", 0)
        monkeypatch.setattr(factors, "DIRECT_ENTRIES", 0)
    m, n = shape
    for seed, p in enumerate([2.0, 2 + 1e-6, 2.5, 4.0, 1e3, 1e6, np.inf]):
        rng = np.random.default_rng([m, n, seed])
        A = rng.standard_normal((m, n))
        if kind == "deficient":
            A = A[:, :1] @ A[:1]
        elif kind == "scaled":
            A *= 10.0 ** rng.uniform(-8, 8, (m, 1)) * 10.0 ** rng.uniform(-8, 8, n)
        elif kind == "equal":
            A = np.round(A)
            A[0, 0] = 1.0
        u, w = garbage(rng, m, 4), garbage(rng, n, 4)
        lower = lower_bound(DenseOperator(A), u, w, p)
        exact = exact_dual_value(A, u, w, p)
        assert lower <= exact
        # a Gram matrix hides singular values below the root of its rounding error
        assert lower >= exact * (1 - (n * 1e-7 if shortcut else 1e-13))
        R = np.linalg.qr(rng.standard_normal((n, n)))[0] * rng.uniform(0.5, 2, n)
        B = np.linalg.inv(R)
        value = exact_value(A, R, B, p)
        upper = upper_bound(DenseOperator(A), R, B, p)
        assert value <= upper <= value * (1 + 1e-13)


@given(st.sampled_from([1e-300, 1e-170, 1e-155, 1e-150, 1e-100, 1e100, 1e150]), exponents)
def test_extreme_units_do_not_falsify_the_bounds(scale, p):
    # identity 3 in another unit: gamma is 3^(1/p) times the unit
    gamma = scale * (1.0 if np.isinf(p) else 3 ** (1 / p))
    one = np.ones(3)
    bounds = certify(DenseOperator(np.eye(3) * scale), np.eye(3), np.eye(3), one, one, p)
    assert bounds.lower <= gamma * (1 + 1e-15)
    assert bounds.upper >= gamma * (1 - 1e-15)


@given(st.integers(1, 6), seeds, st.sampled_from([1e3, 1e6, np.inf]), st.sampled_from([-200, 200]))
def test_power_mean_neither_overflows_nor_underflows(size, seed, power, decade):
    values = np.random.default_rng(seed).uniform(0.5, 1, size) * 10.0**decade
    counts = np.arange(1.0, size + 1)
    mean = power_mean(values, power, counts)
    # between the largest value and the largest value with all the counts
    top, spread = values.max(), counts.sum() ** (0 if np.isinf(power) else 1 / power)
    assert top * (1 - 1e-15) <= mean <= top * spread * (1 + 1e-15)


def test_power_mean_of_nothing_and_of_too_much():
    assert power_mean(np.zeros(3), 2.0) == 0
    assert power_mean(np.array([1.0, np.inf]), 2.0) == np.inf
    assert power_mean(np.array([3.0, 4.0]), 2.0) == pytest.approx(5, rel=1e-15)
    # counts stand for repetitions: (2 * 3^2 + 1 * 4^2)^(1/2)
    assert power_mean(np.array([3.0, 4.0]), 2.0, np.array([2.0, 1.0])) == pytest.approx(34**0.5)


@pytest.mark.parametrize("p", CHECK_P)
@pytest.mark.parametrize("error", [0.0, 1e-12, 1e-3])
def test_the_rest_of_a_tall_workload_is_never_too_small(monkeypatch, p, error):
    monkeypatch.setattr(cells, "SVD_ENTRIES", 0)
    monkeypatch.setattr(factors, "DIRECT_ENTRIES", 0)
    rng = np.random.default_rng(3)
    A, R = rng.standard_normal((9, 3)), rng.standard_normal((3, 3))
    B = np.linalg.inv(R) * (1 + error * rng.standard_normal((3, 3)))
    value, upper = exact_value(A, R, B, p), upper_bound(DenseOperator(A), R, B, p)
    # what is not negligible is computed as for any workload
    assert value <= upper <= value * (1 + (1e-13 if error == 1e-3 else 1e-10))


@pytest.mark.parametrize("name", ["all-range:64", "random"])
def test_sums_of_variances_from_the_gram_matrix_are_rounded_up(monkeypatch, name):
    # as for tall workloads, the certificate at p = 2 does not go through the queries one by one
    monkeypatch.setattr(cells, "SVD_ENTRIES", 0)
    monkeypatch.setattr(factors, "DIRECT_ENTRIES", 0)
    entries = np.random.default_rng(3).standard_normal((1500, 50))
    operator = DenseOperator(entries) if name == "random" else parse_workload(name)
    solution = solve_norm(operator, 2.0, options=SolverOptions(rel_gap=1e-3))
    right_inverse = solution.right_inverse.astype(np.longdouble)
    exact = 0.0
    for rows in np.array_split(operator.to_dense(), 20):
        exact += float(((rows @ right_inverse) ** 2).sum())
    sensitivity = np.linalg.norm(solution.strategy, axis=0).max()
    assert np.sqrt(exact) * sensitivity <= solution.certificate.upper
    assert solution.certificate.upper == pytest.approx(np.sqrt(exact) * sensitivity, rel=1e-7)


def exact_pairs_value(A, w, p):
    """The normalised dual value of u = 1 and weights of pairs to 60 digits."""
    with mpmath.workdps(60):
        m, n = A.shape
        pairs = [pair for pair in zip(*np.triu_indices(n, 1), strict=True) if w[pair] > 0]
        total = mpmath.fsum(mpmath.mpf(w[pair]) for pair in pairs)
        share = mpmath.mpf(m) if p == np.inf else mpmath.mpf(1)  # norm of u
        M = mpmath.matrix(m, len(pairs))
        for k, (i, j) in enumerate(pairs):
            root = mpmath.sqrt(mpmath.mpf(w[i, j]) / total / share)
            for row in range(m):
                M[row, k] = root * (mpmath.mpf(A[row, i]) - mpmath.mpf(A[row, j]))
        values = mpmath.eigsy(M * M.T, eigvals_only=True)
        return mpmath.fsum(mpmath.sqrt(max(value, 0)) for value in values)


def weights_of_pairs(rng, n, kind):
    """Over many decades, with one cell that has nearly all, or of a graph in several parts."""
    w = 10.0 ** rng.uniform(-15, 0, (n, n))
    if kind == "one cell":
        hub = rng.integers(n)
        w *= 1e-12
        w[hub] = w[:, hub] = rng.uniform(0.5, 1.0, n)
    elif kind == "parts":
        part = rng.integers(0, 2, n)
        w[part[:, None] != part] = 0.0
        w[0, 1] = 1.0
    w = np.triu(w, 1)
    return w + w.T


@pytest.mark.parametrize("kind", ["decades", "one cell", "parts"])
@given(seeds, st.integers(2, 6), st.integers(2, 6), st.sampled_from([2.0, np.inf]), st.booleans())
def test_pairs_are_rounded_down(kind, seed, m, n, p, nearly_equal):
    # cells that may differ in the last digits only
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, n))
    if nearly_equal:
        A = 1e8 + A * 10.0 ** rng.uniform(-8, 0, (1, n))
    w = weights_of_pairs(rng, n, kind)
    lower = lower_bound(DenseOperator(A), np.ones(m), w, p)
    exact = exact_pairs_value(A, w, p)
    assert lower <= exact
    rounding = 1e-15 * np.sqrt((A - A[:, :1]).size) * np.abs(A - A[:, :1]).max()
    assert lower >= float(exact) * (1 - 1e-12) - 100 * n**2 * rounding


@pytest.mark.parametrize("kind", ["decades", "one cell", "parts"])
@given(seeds, st.integers(2, 9), st.integers(2, 6), st.booleans())
def test_pairs_by_products_are_rounded_down(kind, seed, m, n, nearly_equal):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, n))
    if nearly_equal:
        A = 1e8 + A * 10.0 ** rng.uniform(-8, 0, (1, n))
    w, u = weights_of_pairs(rng, n, kind), 4.0 ** rng.integers(-9, 1, m)  # of exact roots
    root = laplacian_root(w / (w.sum() / 2))
    found = pairs._by_products(DenseOperator(A), u, root)
    exact = float(exact_pairs_value(np.sqrt(u)[:, None] * A, w, 2.0))
    assert found <= exact * (1 + 1e-13)
    apart = np.linalg.norm(A - A[:, -1:])
    assert found >= exact - 1e-6 * n * apart


def test_large_ranges_are_never_written_out_for_pairs(monkeypatch):
    workload = parse_workload("all-range:60")
    m, n = workload.shape
    rng = np.random.default_rng(0)
    w = rng.uniform(0.1, 1.0, (n, n))
    w, u = (w + w.T) * (1 - np.eye(n)), rng.uniform(0.1, 1.0, m)
    decomposed = lower_bound(workload, u, w, 4.0)
    monkeypatch.setattr(pairs, "DECOMPOSED", 0)
    written = []
    monkeypatch.setattr(type(workload), "to_dense", written.append)
    by_products = lower_bound(workload, u, w, 4.0)
    assert by_products == pytest.approx(decomposed, rel=1e-8)  # both rounded down
    assert not written


@given(seeds, st.sampled_from([1e-15, 1e-13, 1e-10, 1e-6]))
def test_two_cells_at_the_mean_of_others_that_weigh_nothing(seed, apart):
    # A without its mean has nothing left where the weights are, but what rounding left there
    rng = np.random.default_rng(seed)
    middle, side = rng.standard_normal((2, 5, 1))
    A = np.hstack([middle - side, middle, middle * (1 + apart), middle + side])
    w = np.zeros((4, 4))
    w[1, 2] = w[2, 1] = 1.0
    exact = np.linalg.norm(A[:, 1] - A[:, 2])  # of which every digit is right
    assert lower_bound(DenseOperator(A), np.ones(5), w, 2.0) <= exact * (1 + 1e-15)


@pytest.mark.parametrize("kind", ["decades", "one cell", "parts"])
@given(seeds, st.integers(2, 8), st.sampled_from([1, 3, 64]))
def test_the_root_of_a_laplacian_keeps_the_digits_of_every_weight(kind, seed, n, block):
    w = weights_of_pairs(np.random.default_rng(seed), n, kind)
    with patch.object(pairs, "ELIMINATED", block):
        root = laplacian_root(w)
    assert root.shape == (n, n - 1)
    with mpmath.workdps(60):
        F = mpmath.matrix(root.tolist())
        W = F * F.T
        for i, j in zip(*np.triu_indices(n, 1), strict=True):
            # w_ij = -W_ij; rounding is relative to the terms of that sum
            terms = float(np.abs(root[i]) @ np.abs(root[j]))
            assert abs(float(W[int(i), int(j)]) + w[i, j]) <= 50 * EPS * terms


@given(seeds, st.integers(1, 5), st.integers(2, 9), scales)
def test_the_diameter_comes_from_differences(seed, rank, n, decades):
    # far from the origin, where a Gram matrix has lost all digits of the distances
    rng = np.random.default_rng(seed)
    R = rng.standard_normal((rank, n)) * 10.0 ** rng.uniform(-decades, 0, n)
    R += rng.choice([0.0, 1e8]) * rng.standard_normal((rank, 1))
    pairs = [R[:, i] - R[:, j] for i in range(n) for j in range(i)]
    largest = max(np.linalg.norm(pair) for pair in pairs)
    assert diameter(R) == pytest.approx(largest, rel=1e-14)


@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1e160])
def test_a_diameter_is_never_too_small_in_extreme_units(scale):
    with np.errstate(all="ignore"):
        assert diameter(scale * np.eye(3)) + np.sqrt(TINY) >= scale


@pytest.mark.parametrize(("seed", "of"), [(0, sparse.csr_array), (1, np.asarray)])
def test_null_directions_of_tall_workloads_stay_null(seed, of):
    # A^T A = 10^4 times a tight frame of 4 vectors in 2 dimensions: gamma_(2) = 2 (5 10^3)^(1/2)
    angles = np.random.default_rng(seed).uniform(0, np.pi) + np.pi * np.arange(4) / 4
    A = np.repeat(np.array([np.cos(angles), np.sin(angles)]), 10_000, axis=0)
    workload = as_workload(of(A))
    u, w = np.ones(len(A)), np.full(4, 0.25)
    exact = 2 * np.sqrt(5e3)
    assert exact * (1 - 1e-8) <= lower_bound(workload, u, w, 2) <= exact * (1 + 1e-14)
    assert solve_norm(workload, 2).certificate.upper >= exact * (1 - 1e-14)


@pytest.mark.sweep
@pytest.mark.parametrize("p", [2, 4, np.inf])
@pytest.mark.parametrize("power", [6, 10, 14])
def test_what_all_columns_have_in_common_is_not_rounded(p, power):
    rng = np.random.default_rng(power)
    for _ in range(4):
        m, n = rng.integers(3, 7, 2)
        moves = rng.integers(-3, 4, (m, n)).astype(float)
        moves[:, 0] = 0.0
        if np.linalg.matrix_rank(moves) == 0:
            continue
        plain = solve_norm(DenseOperator(moves), p, relation="replace").certificate
        # whole numbers, exact in float64: the same differences
        common = np.round(10.0**power * rng.uniform(0.5, 1.0, (m, 1)))
        found = solve_norm(DenseOperator(moves + common), p, relation="replace").certificate
        assert found.lower <= plain.upper
        assert plain.lower <= found.upper
        assert found.lower <= found.upper


@pytest.mark.parametrize("seed", range(6))
def test_the_diameter_of_equal_columns_in_blocks(seed, monkeypatch):
    monkeypatch.setattr("pmldesign_solvers.operators.differences.COMPARED", 0)
    monkeypatch.setattr("pmldesign_solvers.operators.differences.BLOCK_BYTES", 200)
    rng = np.random.default_rng(seed)
    R = rng.integers(0, 3, (3, 9)) / 7 if seed % 2 else rng.standard_normal((3, 9))
    R = R[:, rng.integers(0, 9, 30)]
    moves = R[:, :, None] - R[:, None, :]
    assert diameter(R) == pytest.approx(np.sqrt((moves**2).sum(axis=0).max()), rel=1e-14)
    assert diameter(R[:, :1].repeat(4, axis=1)) == 0
