"""design(): closed forms, invariances, products, and a certificate that can be recomputed."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmldesign.comparison import compare
from pmldesign.designs import factorize
from pmldesign.errors import InvalidInputError, NotConvergedError
from pmldesign.files import write_strategy
from pmldesign.workloads import parse_workload
from pmldesign_solvers.norm import ScalingProblem, Status
from pmldesign_solvers.operators import MergedWorkload

P_VALUES = [2.0, 3.0, 4.0, 7.5, math.inf]


def inverse(p):
    return 0.0 if math.isinf(p) else 1 / p


def assert_certified(made, A, p, *, rel_gap=1e-6):
    """Both bounds again, from A and the arrays of the design alone."""
    R, L, u, w = made.strategy.matrix, made.reconstruction(), made.dual_u, made.dual_w
    np.testing.assert_allclose(L @ R, A, atol=1e-9 * np.abs(A).max())
    assert np.linalg.norm(R, axis=0).max() == pytest.approx(1, rel=1e-12)
    upper = np.linalg.norm(np.linalg.norm(L, axis=1), ord=p)
    q = 1.0 if math.isinf(p) else (math.inf if p == 2 else p / (p - 2))
    assert (u >= 0).all()
    assert (w >= 0).all()
    assert np.linalg.norm(u, ord=q) <= 1 + 1e-12
    assert w.sum() <= 1 + 1e-12
    lower = np.linalg.norm(np.sqrt(u)[:, None] * A * np.sqrt(w), ord="nuc")
    bounds = made.certificate
    assert bounds.upper == pytest.approx(upper, rel=1e-9)
    assert bounds.lower == pytest.approx(lower, rel=1e-9)
    assert bounds.lower <= lower * (1 + 1e-14)
    assert bounds.upper >= upper * (1 - 1e-14)
    assert made.status is Status.OPTIMAL
    assert bounds.gap <= rel_gap


def assert_norm(made, gamma):
    assert made.status is Status.OPTIMAL
    assert made.certificate.lower <= gamma * (1 + 1e-12)
    assert made.certificate.upper >= gamma * (1 - 1e-12)


@pytest.mark.parametrize("p", P_VALUES)
def test_identity(p):
    # u = n^(-(p-2)/p), w = 1/n gives the nuclear norm n^(1/p); L = I has norm n^(1/p)
    assert_norm(factorize("histogram:7", p=p), 7 ** inverse(p))


@pytest.mark.parametrize("p", P_VALUES)
def test_parity(p):
    # m orthogonal rows of norm sqrt n with entries +-1: all singular values of A/sqrt n are 1
    made = factorize("parity:5,2", p=p)
    assert_norm(made, 10 ** (inverse(p) + 0.5))


@pytest.mark.parametrize("p", P_VALUES)
def test_circulant(p):
    # by symmetry u and w are uniform: n^((1/p) - 1) times the nuclear norm
    first = np.array([3.0, -1, 0.5, 0, 2, 1])
    C = np.array([np.roll(first, shift) for shift in range(6)])
    gamma = 6 ** (inverse(p) - 1) * np.abs(np.fft.fft(first)).sum()
    assert_norm(factorize(C, p=p), gamma)


@pytest.mark.parametrize("p", P_VALUES)
def test_rank_one(p):
    a, b = np.array([1.0, -2, 4]), np.array([0.5, 3, -1, 2])
    gamma = np.linalg.norm(a, ord=p) * 3
    made = factorize(np.outer(a, b), p=p)
    assert made.certificate.lower <= gamma * (1 + 1e-9)
    assert made.certificate.upper >= gamma * (1 - 1e-9)
    assert made.status is Status.OPTIMAL


def test_prefix_of_two():
    # gamma_F is the golden ratio, gamma_2 is 2/sqrt 3
    assert_norm(factorize("prefix:2", p=2), (1 + math.sqrt(5)) / 2)
    assert_norm(factorize("prefix:2", p=math.inf), 2 / math.sqrt(3))


@pytest.mark.parametrize(("p", "gamma"), [(2, 16.7988518), (4, 5.9451866), (math.inf, 2.1113667)])
def test_prefix_of_64_as_other_programs_find_it(p, gamma):
    made = factorize("prefix:64", p=p)
    assert made.certificate.lower <= gamma + 5e-8
    assert made.certificate.upper >= gamma - 5e-8


matrices = st.integers(0, 2**32 - 1).map(
    lambda seed: np.random.default_rng(seed).integers(-2, 3, size=(5, 4)) + 0.25
)


@settings(max_examples=4)
@given(A=matrices, p=st.sampled_from(P_VALUES))
def test_random_matrices_are_certified(A, p):
    assert_certified(factorize(A, p=p, rel_gap=1e-4), A, p, rel_gap=1e-4)


@settings(max_examples=4)
@given(A=matrices, p=st.sampled_from(P_VALUES), data=st.data())
def test_signs_order_zeros_and_repeated_cells_do_not_matter(A, p, data):
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], size=(5, 1)), rng.choice([-1.0, 1.0], size=4)
    B = (signs[0] * A * signs[1])[rng.permutation(5)][:, rng.permutation(4)]
    B = np.column_stack([B, B[:, 1], np.zeros(5)])
    B = np.vstack([B, np.zeros(6)])
    one, other = (factorize(M, p=p, rel_gap=1e-4).certificate for M in (A, B))
    # both enclose the same number
    assert max(one.lower, other.lower) <= min(one.upper, other.upper) * (1 + 1e-12)


@settings(max_examples=5)
@given(A=matrices)
def test_scaling_stacking_monotonicity_and_the_transpose(A):
    bounds = {p: factorize(A, p=p, rel_gap=1e-4).certificate for p in P_VALUES}
    for p, larger in itertools.pairwise(P_VALUES):
        assert bounds[larger].lower <= bounds[p].upper  # norms fall with p
    for p in P_VALUES:
        stacked = factorize(np.vstack([A, -2 * A, 2 * A]), p=p, rel_gap=1e-4).certificate
        # norm over rows of (1, 2, 2) copies
        factor = np.linalg.norm([1.0, 2.0, 2.0], ord=p)
        assert stacked.lower <= factor * bounds[p].upper * (1 + 1e-12)
        assert stacked.upper >= factor * bounds[p].lower * (1 - 1e-12)
    flipped = factorize(A.T, p=math.inf, rel_gap=1e-4).certificate
    assert max(flipped.lower, bounds[math.inf].lower) <= min(flipped.upper, bounds[math.inf].upper)


@pytest.mark.parametrize("p", [2.0, 5.0, math.inf])
def test_products_are_the_designs_of_their_dense_matrices(p):
    product = parse_workload("prefix:3*haar:4*histogram:2")
    made = factorize(product, p=p)
    A = product.to_dense()
    assert_certified(made, A, p)
    dense = factorize(A, p=p).certificate
    assert max(made.certificate.lower, dense.lower) <= min(made.certificate.upper, dense.upper)
    factors = [
        factorize(f"{name}", p=p).certificate for name in ("prefix:3", "haar:4", "histogram:2")
    ]
    assert made.certificate.upper == pytest.approx(math.prod(f.upper for f in factors), rel=2e-6)


@pytest.mark.sweep
@pytest.mark.parametrize("method", ["scaling", "primal", "dual"])
@pytest.mark.parametrize("p", [2.0, 4.0, math.inf])
def test_every_method_certifies(p, method):
    A = np.tril(np.ones((5, 5)))
    made = factorize(A, p=p, method=method, solver="CLARABEL", rel_gap=1e-4)
    assert_certified(made, A, p, rel_gap=1e-4)


def test_callback_sees_bounds_that_close_in():
    steps = []
    made = factorize("prefix:32", p=4, callback=steps.append)
    assert [step.number for step in steps] == list(range(1, made.steps + 1))
    assert all(a.lower <= b.lower for a, b in itertools.pairwise(steps))
    assert all(a.upper >= b.upper for a, b in itertools.pairwise(steps))


@pytest.mark.parametrize(
    ("limit", "status"),
    [
        ({"max_steps": 2}, Status.ITERATION_LIMIT),
        ({"time_limit": 1e-9}, Status.TIME_LIMIT),
        ({"rel_gap": 1e-17}, Status.STALLED),
    ],
)
def test_early_stops_keep_a_true_certificate(limit, status):
    made = factorize("prefix:8", p=3, **limit)
    assert made.status is status
    R, L = made.strategy.matrix, made.reconstruction()
    np.testing.assert_allclose(L @ R, np.tril(np.ones((8, 8))), atol=1e-12)
    exact = factorize("prefix:8", p=3, rel_gap=1e-9).certificate
    assert made.certificate.lower <= exact.upper
    assert made.certificate.upper >= exact.lower
    with pytest.raises(NotConvergedError, match=status.value[:20]):
        made.require_optimal()


@pytest.mark.parametrize("p", [2.0, 4.0])
def test_both_bounds_are_of_second_order_near_the_optimum(p):
    workload = parse_workload("prefix:16")
    best = factorize(workload, p=p, rel_gap=1e-10)
    problem = ScalingProblem(MergedWorkload(workload), p)
    rng = np.random.default_rng(0)
    w_shift, u_shift = rng.normal(size=(2, 16))
    if p == 2:
        u_shift[:] = 0  # u = 1 is the corner of its box, where the solver stays

    def errors(step):
        u, w = best.dual_u * np.exp(step * u_shift), best.dual_w * np.exp(step * w_shift)
        point = problem.evaluate(*problem.normalise(u, w))
        upper = point.upper / best.certificate.upper - 1
        return np.array([1 - point.lower / best.certificate.lower, upper])

    # ten times closer, a hundred times better
    np.testing.assert_allclose(errors(1e-2) / errors(1e-3), 100, rtol=0.1)


def test_ctrl_c_returns_the_best_so_far():
    def interrupt(step):
        if step.number == 2:
            raise KeyboardInterrupt

    made = factorize("prefix:16", callback=interrupt)
    assert made.status is Status.INTERRUPTED
    assert made.certificate.lower <= 6.7576148
    assert made.certificate.upper >= 6.7576146


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("workload", "options"),
    [
        ("prefix:16*decay:20,0.9", {}),
        ("prefix:60*prefix:50", {"neighbours": "replace"}),
        ("marginals:prefix20,prefix15,ways=1", {"neighbours": "replace"}),
        ("marginals:2^5,ways=2", {}),
        ("prefix:3000", {"rel_gap": 1e-3}),
    ],
)
@pytest.mark.parametrize("close", [False, True])
def test_ctrl_c_is_known_to_the_caller(workload, options, close):
    """One Ctrl-C ends the work on every factor, and is told even where the gap was reached."""
    calls = []

    def interrupt(step):
        calls.append(step)
        if len(calls) == 1 and not close:
            raise KeyboardInterrupt
        if close and step.lower > 0 and step.gap <= 1:
            raise KeyboardInterrupt

    made = factorize(
        workload, callback=interrupt, **{**options, **({"rel_gap": 1} if close else {})}
    )
    assert made.status is Status.INTERRUPTED
    assert made.certificate.lower <= made.certificate.upper
    assert len(calls) <= 4  # a step for each of the others


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"p": 1.999}, "p must be in"),
        ({"p": math.nan}, "p must be in"),
        ({"rel_gap": 0.0}, "rel_gap must be positive"),
        ({"rel_gap": math.inf}, "rel_gap must be positive"),
        ({"max_steps": 0}, "max_steps must be a whole number of at least 1"),
        ({"time_limit": math.nan}, "time_limit must be positive"),
        ({"method": "newton"}, "method must be one of"),
        ({"neighbours": "both"}, "neighbours must be"),
    ],
)
def test_arguments_out_of_range(options, words):
    with pytest.raises(InvalidInputError, match=words):
        factorize("prefix:4", **options)


@pytest.mark.parametrize(("solver", "cells"), [("SCS", 201), ("CLARABEL", 41)])
def test_a_program_too_large_for_its_solver_is_refused(solver, cells):
    with pytest.raises(InvalidInputError, match=rf"at most \d+ .*got {cells} \+ {cells}"):
        factorize(f"prefix:{cells}", method="dual", solver=solver)


def test_a_strategy_too_large_to_write_out_is_refused():
    with pytest.raises(InvalidInputError, match="take a smaller workload"):
        factorize("histogram:40000")


REPLACE = {"neighbours": "replace"}


def centred(A):
    return A - A.mean(axis=1, keepdims=True)


def diameter(R):
    return max(np.linalg.norm(R - R[:, [j]], axis=0).max() for j in range(R.shape[1]))


@pytest.mark.parametrize("p", [2.0, 4.0, math.inf])
@pytest.mark.parametrize("method", ["scaling", "primal", "dual"])
def test_replace_reconstructs_what_the_total_does_not_tell(p, method):
    A = np.vstack([np.tril(np.ones((5, 5))), np.eye(5)[1:2]])
    made = factorize(A, p=p, method=method, solver="CLARABEL", rel_gap=1e-2, **REPLACE)
    R, L = made.strategy.matrix, made.reconstruction()
    np.testing.assert_allclose(R.sum(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(L @ R, centred(A), atol=1e-8)
    assert not L[4].any()  # the total itself
    assert diameter(R) == pytest.approx(1, rel=1e-12)
    value = np.linalg.norm(np.linalg.norm(L, axis=1), ord=p)
    assert made.certificate.upper == pytest.approx(value, rel=1e-6)
    # data with the public total: (N/n) A 1 + L (R x) = A x
    x = np.array([3.0, 0, 7, 1, 4])
    np.testing.assert_allclose(x.mean() * A.sum(axis=1) + L @ R @ x, A @ x, atol=1e-7)
    assert made.status is Status.OPTIMAL


@pytest.mark.parametrize("p", [2.0, 4.0, math.inf])
def test_the_file_of_a_design_has_the_error_of_the_table(p, tmp_path):
    made = factorize("prefix:8", p=p, **REPLACE)
    write_strategy(tmp_path / "s.npz", made)
    with np.load(tmp_path / "s.npz", allow_pickle=False) as arrays:
        R, L = arrays["strategy"], arrays["reconstruction"]
    shown = compare("prefix:8", strategies=[made.strategy], p=p, **REPLACE).rows[0]
    assert diameter(R) == pytest.approx(shown.sensitivity, rel=1e-9)
    deviations = shown.scale * np.linalg.norm(L, axis=1)
    assert deviations.max() == pytest.approx(shown.max_std, rel=1e-9)
    assert math.sqrt((deviations**2).mean()) == pytest.approx(shown.rmse, rel=1e-9)
    # (E |N(0, 1)|^p)^(1/p), 3^(1/4) at p = 4
    c = {2.0: 1.0, 4.0: 3**0.25, math.inf: 1.0}[p]
    assert c * np.linalg.norm(deviations, ord=p) == pytest.approx(shown.error, rel=1e-9)


@pytest.mark.parametrize("p", [2.0, 5.0, math.inf])
def test_products_under_replace_are_solved_as_a_whole(p):
    product = parse_workload("prefix:3*haar:4")
    made, dense = factorize(product, p=p, **REPLACE), factorize(product.to_dense(), p=p, **REPLACE)
    bounds, expected = made.certificate, dense.certificate
    assert made.status is dense.status is Status.OPTIMAL
    assert max(bounds.lower, expected.lower) <= min(bounds.upper, expected.upper) * (1 + 1e-12)
    np.testing.assert_allclose(
        made.reconstruction() @ made.strategy.matrix, centred(product.to_dense()), atol=1e-9
    )
    # the factors' norms do not multiply here: the total of one factor is no public number
    factors = [factorize(name, p=p, **REPLACE).certificate.lower for name in ("prefix:3", "haar:4")]
    assert not math.isclose(math.prod(factors), bounds.upper, rel_tol=1e-3)
