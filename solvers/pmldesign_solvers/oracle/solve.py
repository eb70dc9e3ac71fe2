"""The two CVXPY programs whose value gives gamma_(p)(A), and their run.

Primal, a semidefinite program whose value is gamma_(p)(A)^2:

    minimise    norm(v)_{p/2}
    subject to  [[X, A], [A^T, Y]] >= 0,   diag(X) <= v,   d_k^T Y d_k <= 1.

Y is the Gram matrix of a strategy, d_k are the difference vectors of neighbours (the unit vectors,
for cells); the multipliers of the last two constraints are the dual u, w.

Dual, diagonal scaling, whose value is gamma_(p)(A):

    maximise    <A, Z>
    subject to  [[diag(u), Z], [Z^T, W]] >= 0,   W = sum_k w_k d_k d_k^T,
                norm(u)_q <= 1,   sum(w) <= 1,   w >= 0.

References:
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, Definition A.3 and
    the dual in the proof of Lemma 2.10.
"""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import redirect_stdout, suppress
from functools import partial
from inspect import signature
from io import StringIO
from typing import Any

import numpy as np
import scipy

from pmldesign_solvers.operators.norms import dual_exponent
from pmldesign_solvers.operators.operator import Array

SOLVERS = ("SCS", "CLARABEL")
FINEST_ORDER = 2**15
"""Orders of norms from here on, and their duals, are written as infinity and 1."""
SCS_INTERRUPTED = -5
"""Its status after Ctrl-C, which it keeps from Python."""
LOOK = 0.1
"""Seconds between two looks for signals while a solver runs."""

Answer = tuple[Array, Array, Array | None, str, int]
"""u, w, the Gram matrix of a strategy if the solver has one, status, iterations."""


class ProgramError(RuntimeError):
    """The convex solver returned no point at all."""


def solver_options(
    solver: str, accuracy: float, max_iterations: int, time_limit: float | None
) -> dict[str, float]:
    """What the solver calls these limits."""
    if solver == "SCS":
        limit = {} if time_limit is None else {"time_limit_secs": time_limit}
        return {
            "eps_abs": accuracy,
            "eps_rel": accuracy,
            "max_iters": max_iterations,
            "acceleration_lookback": 0,  # its safeguard may give up early on these programs
            **limit,
        }
    limit = {} if time_limit is None else {"time_limit": time_limit}
    return {
        "tol_gap_abs": accuracy,
        "tol_gap_rel": accuracy,
        "max_iter": min(max_iterations, 500),
        **limit,
    }


def primal(
    matrix: Array, vectors: Array, p: float, solver: str, options: dict[str, float]
) -> Answer:
    """The answer of the primal program; the difference vectors are rows, shape (N, k).

    Raises:
        ProgramError: the solver failed and returned no point.
    """
    import cvxpy as cp

    m, k = matrix.shape
    block = cp.Variable((m + k, m + k), PSD=True)
    variances = cp.Variable(m)
    size = _norm(variances, p / 2)
    rows = cp.diag(block)[:m] <= variances
    columns = cp.sum(cp.multiply(vectors @ block[m:, m:], vectors), axis=1) <= 1
    problem = cp.Problem(cp.Minimize(size), [block[:m, m:] == matrix, rows, columns])
    raw, iterations = _run(problem, solver, options)
    gram = np.asarray(block.value[m:, m:])
    return np.asarray(rows.dual_value), np.asarray(columns.dual_value), gram, raw, iterations


def dual(matrix: Array, vectors: Array, p: float, solver: str, options: dict[str, float]) -> Answer:
    """The answer of the dual program; arguments and errors as for the primal one."""
    import cvxpy as cp

    m, k = matrix.shape
    block = cp.Variable((m + k, m + k), PSD=True)
    u, w = cp.Variable(m), cp.Variable(len(vectors), nonneg=True)
    exponent = dual_exponent(p)
    ball = _norm(u, 1 / exponent if exponent > 0 else np.inf)
    weighted = cp.reshape(_outer_products(vectors) @ w, (k, k), order="C")
    balance = block[m:, m:] == weighted
    problem = cp.Problem(
        cp.Maximize(cp.sum(cp.multiply(matrix, block[:m, m:]))),
        [block[:m, :m] == cp.diag(u), balance, ball <= 1, cp.sum(w) <= 1],
    )
    raw, iterations = _run(problem, solver, options)
    gram = None
    if balance.dual_value is not None and np.isfinite(balance.dual_value).all():
        # the multiplier of W is a multiple of the primal program's Y, of either sign
        gram = balance.dual_value * np.sign(np.trace(balance.dual_value))
    return np.asarray(u.value), np.asarray(w.value), gram, raw, iterations


def _norm(values: Any, order: float) -> Any:
    """norm(values)_order, order >= 1, of nonnegative values, close to it at extreme orders.

    CVXPY takes the order for a fraction, whose denominator decides the number of cones; beyond
    2^15 the norm is the largest value or the sum, to a factor m^(2^-15) for m values.
    """
    import cvxpy as cp

    if order >= FINEST_ORDER:
        return cp.max(values)
    if order <= 1 + 1 / FINEST_ORDER:
        return cp.sum(values)
    # before CVXPY 1.8 there are cones of second order only; its power cones are faster by far
    power = {"approx": False} if "approx" in signature(cp.pnorm).parameters else {}
    return cp.pnorm(values, order, max_denom=FINEST_ORDER, **power)


def _outer_products(vectors: Array) -> Any:
    """The sparse matrix whose column k is v_k v_k^T, written row after row."""
    count, k = vectors.shape
    index, first = np.nonzero(vectors)
    same, second = np.nonzero(vectors[index])
    owner, first = index[same], first[same]
    values = vectors[owner, first] * vectors[owner, second]
    return scipy.sparse.csr_array((values, (first * k + second, owner)), shape=(k * k, count))


def _run(problem: Any, solver: str, options: dict[str, float]) -> tuple[str, int]:
    import cvxpy as cp

    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # "may be inaccurate": the status and the certificate say it
        try:
            data, chain, inverse = problem.get_problem_data(solver, solver_opts=options)
            work = partial(chain.solve_via_data, problem, data, solver_opts=options)
            raw = _run_scs(work) if solver == "SCS" else work()
            problem.unpack_results(raw, chain, inverse)
        except cp.error.SolverError as error:
            raise ProgramError(f"{solver} failed: {error}") from error
    if problem.status in ("optimal", "optimal_inaccurate", "user_limit") and all(
        variable.value is not None for variable in problem.variables()
    ):
        return problem.status, int(problem.solver_stats.num_iters or 0)
    raise ProgramError(
        f"{solver} returned no point (status {problem.status!r}); try the other solver or the"
        " diagonal-scaling method"
    )


def _run_scs(work: Callable[[], Any]) -> Any:
    """What SCS returns, run beside: the handlers of signals go on, and what they raise ends it.

    It takes Ctrl-C for itself, and ends within an iteration; so it is ended by one.
    """
    outcome: Future[Any] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    with redirect_stdout(StringIO()):  # where it says that it was interrupted
        threading.Thread(target=run).start()
        try:
            while not outcome.done():
                wait([outcome], timeout=LOOK)
        finally:
            while not outcome.done():
                with suppress(KeyboardInterrupt):
                    signal.raise_signal(signal.SIGINT)
                    wait([outcome], timeout=LOOK)
    raw = outcome.result()
    if raw["info"]["status_val"] == SCS_INTERRUPTED:
        signal.raise_signal(signal.SIGINT)
    return raw
