"""Bounds and strategies do not depend on units, and under replace not on constants of rows."""

import sys
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from pmldesign.workloads import SparseWorkload, parse_workload
from pmldesign_solvers.norm import SolverOptions, Status, fixed_point, solve_norm
from pmldesign_solvers.operators import DenseOperator, scale, without_offsets

sys.path.insert(0, str(Path(__file__).parent.parent / "robustness"))

import attack

PREFIX = np.tril(np.ones((8, 8)))
KINDS = ("add-remove", "replace")


def solved(matrix, p, relation):
    return solve_norm(DenseOperator(np.array(matrix, dtype=float)), p, relation=relation)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=12)
def test_no_random_matrix_contradicts_its_bounds(seed):
    A, p, relation, _ = attack.random_case(np.random.default_rng(seed))
    assert attack.verdict(A, p, relation)[0] == ""


@pytest.mark.sweep
@pytest.mark.parametrize("relation", KINDS)
@pytest.mark.parametrize("p", [2.0, 3.0, 10.0, 1000.0, 5000.0, np.inf])
@pytest.mark.parametrize("exponent", [-1000, -465, 66, 1010])
def test_powers_of_two_change_nothing_but_the_bounds(exponent, p, relation):
    plain, scaled = solved(PREFIX, p, relation), solved(np.ldexp(PREFIX, exponent), p, relation)
    assert plain.status is scaled.status is Status.OPTIMAL
    assert (scaled.strategy == plain.strategy).all()
    assert (scaled.dual_u == plain.dual_u).all()
    assert scaled.certificate.lower == np.ldexp(plain.certificate.lower, exponent)
    assert scaled.certificate.upper == np.ldexp(plain.certificate.upper, exponent)


@pytest.mark.parametrize("relation", KINDS)
@pytest.mark.parametrize("p", [2.0, 3.0, 10.0, 1000.0, np.inf])
def test_a_row_that_is_next_to_nothing(p, relation):
    # two rows that ask for one cell each: gamma is 1, or 2^(1/2) of distances under replace (the
    # second one adds 10^-308)
    found = solved([[1e154, 0], [0, 1e-154]], p, relation)
    assert found.status is Status.OPTIMAL
    norm = 1e154
    assert found.certificate.lower <= norm * (1 + 1e-15)
    assert found.certificate.upper >= norm * (1 - 1e-15)


@pytest.mark.parametrize("p", [2.0, 10.0, 1000.0, np.inf])
def test_rows_over_ten_orders_of_magnitude(p):
    rng = np.random.default_rng(3)
    for shape in [(3, 4), (5, 4), (7, 5)]:
        A = rng.standard_normal(shape) * 10.0 ** rng.uniform(-5, 5, (shape[0], 1))
        assert solved(A, p, "replace").status is Status.OPTIMAL


@pytest.mark.parametrize("p", [2.0, 4.0, np.inf])
def test_constants_of_rows_change_nothing_for_pairs(p):
    A = np.tril(np.ones((6, 6)))[:5]
    plain = solved(A, p, "replace")
    for offset in (1.0, -7e3, 1e10, -1e15):
        moved = solved(A + offset * np.array([[1], [0], [1], [-1], [1]]), p, "replace")
        assert moved.certificate.lower == pytest.approx(plain.certificate.lower, rel=1e-6)
        assert moved.certificate.upper == pytest.approx(plain.certificate.upper, rel=1e-6)
    # a sixth row is constant but for one rounding: the bounds count it, the strategy does not
    nearly = np.vstack([A, np.full(6, 0.3)])
    nearly[-1, 2] = np.nextafter(0.3, 1)
    assert solved(nearly, p, "replace").certificate.upper == pytest.approx(plain.certificate.upper)


def test_what_offsets_leave_is_exact():
    A = np.array([[1e10 + 1, 1e10, 1e10], [1, 2, 3], [-5, -5, -5], [-3, -4, -6], [0, 1, 1]])
    moved, left_out = without_offsets(A)
    expected = [[1, 0, 0], [1, 2, 3], [0, 0, 0], [0, -1, -3], [0, 1, 1]]
    assert moved.tolist() == np.array(expected, dtype=float).tolist()
    assert not left_out.any()
    assert without_offsets(moved)[0] is moved
    flat, left_out = without_offsets(np.array([[0.3, 0.3, np.nextafter(0.3, 1)]]))
    assert not flat.any()
    assert left_out[0] == np.spacing(0.3)
    workload = SparseWorkload(sparse.csr_array(A))
    assert (workload.without_offsets()[0].to_dense() == moved).all()


@pytest.mark.parametrize("matrix", [np.full((2, 3), 1e308), [[1e300, 1e300], [3.0, 3.0]]])
def test_nothing_but_the_total(matrix):
    with pytest.raises(ValueError, match="nothing but the total"):
        solved(matrix, 2.0, "replace")


@pytest.mark.parametrize(("entry", "rows"), [(1.7e308, 60), (5e-324, 1)])
def test_norms_that_are_no_numbers_are_refused(entry, rows):
    with pytest.raises(ValueError, match=r"outside the range of float64; rescale"):
        solved(np.full((rows, 2), entry) * np.array([1, -1]), 2.0, "add-remove")


@pytest.mark.parametrize("relation", KINDS)
def test_operators_that_are_no_matrix_keep_their_form(relation):
    for text in ("prefix:5*histogram:3+histogram:5*total:3", "all-range:6"):
        operator = parse_workload(text)
        rows, cells = operator.shape
        rng = np.random.default_rng(0)
        scaled = scale.PowersOfTwo(operator, np.full(rows, 2.0**30))
        dense = 2.0**30 * operator.to_dense()
        u, half = rng.random(rows), rng.standard_normal((cells, 3))
        assert scaled.gram(u) == pytest.approx(dense.T * u @ dense)
        assert scaled.row_norms(half) == pytest.approx(((dense @ half) ** 2).sum(axis=1))
        assert scaled.row_quadratic(half @ half.T) == pytest.approx(scaled.row_norms(half))
        assert scaled.matvec(half) == pytest.approx(dense @ half)
        assert scaled.rmatvec(u) == pytest.approx(dense.T @ u)
        assert (scaled.to_dense() == dense).all()
        assert (scaled.row_sizes() == abs(dense).max(axis=1)).all()
        plain = solve_norm(operator, 3.0, relation=relation).certificate
        found = solve_norm(scaled, 3.0, relation=relation).certificate
        assert found.upper == pytest.approx(2.0**30 * plain.upper, rel=1e-6)


def test_steps_are_reported_in_the_units_of_the_workload():
    seen = []
    solve_norm(
        DenseOperator(1e150 * PREFIX),
        2.0,
        relation="replace",
        options=SolverOptions(callback=seen.append),
    )
    norm = 4.1794334e150
    assert all(step.lower <= norm * 1.0001 and step.upper >= norm * 0.9999 for step in seen)


class Idle:
    """A fixed point whose bounds fall and whose second weight is nobody's."""

    shape = 1, 2

    def __init__(self):
        self.value = 1.0

    def normalise(self, u, w):
        return u, w / w.sum()

    def evaluate(self, u, w):
        self.value /= 2
        return SimpleNamespace(
            u=u, w=w, next_u=u, next_w=w * [1.0, 0.0], lower=self.value, upper=2.0
        )


@pytest.mark.filterwarnings("error")
def test_weights_of_cells_that_nobody_asks_about_do_not_vanish():
    for point in islice(fixed_point.points(Idle()), 6):
        assert (point.w > 0).all()
