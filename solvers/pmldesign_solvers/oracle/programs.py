"""gamma_(p) as CVXPY programs: the readable oracle that the fast solver is tested against.

The primal program has the Gram matrix Y of a strategy as its variable, the dual one the weights u
of queries and w of difference vectors. For pairs both are written relative to
the last cell, as in `differences`.

Neither answer is taken at its word. From the weights follows a factorization in closed form, from Y
another one after a small multiple of the identity makes it invertible; the better of them is
exactly feasible, and its certificate is recomputed from the workload.

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
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import redirect_stdout, suppress
from functools import partial
from inspect import signature
from io import StringIO
from typing import Any, Literal

import numpy as np
import scipy

from pmldesign_solvers.certificate.cells import Certificate, certify, upper_bound
from pmldesign_solvers.norm.dense_dual import ScalingProblem
from pmldesign_solvers.norm.dual_function import DualFunction
from pmldesign_solvers.norm.solution import Solution, Status
from pmldesign_solvers.operators.dense import DenseOperator
from pmldesign_solvers.operators.differences import Cells, Differences, Pairs, Relation, diameter
from pmldesign_solvers.operators.merge import FLOOR, MergedWorkload, right_inverse_of
from pmldesign_solvers.operators.operator import Array, Operator, dual_exponent, dual_norm

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
    """Result of SCS in a thread: signal handlers continue, and their exceptions end it.

    It takes Ctrl-C for itself, and ends within an iteration; so it is ended by one.
    """
    outcome: Future[Any] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    with redirect_stdout(StringIO()):  # it prints that it was interrupted
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


Form = Literal["primal", "dual"]
MAX_ITERATIONS = 100_000
"""Of the convex solver: a stop for runs without a limit of time."""
RIDGES = (1e-12, 1e-9, 1e-7, 1e-5, 1e-3)
"""Multiples of the identity, relative to the largest diagonal entry, tried to make Y invertible."""


def solve(
    matrix: Array,
    p: float,
    *,
    relation: Relation = "add-remove",
    form: Form = "primal",
    solver: str = "SCS",
    rel_gap: float = 1e-4,
    accuracy: float = 1e-7,
    time_limit: float | None = None,
) -> Solution:
    """Compute gamma_(p)(A) by a general convex solver, repaired and certified.

    Args:
        matrix: A, shape (m, n), not all zero.
        p: in [2, inf].
        relation: of neighbours, "add-remove" or "replace".
        form: "primal" or "dual".
        solver: "SCS" or "CLARABEL".
        rel_gap: the status is OPTIMAL only if the certificate is at least this tight.
        accuracy: absolute and relative tolerance that the solver is asked for.
        time_limit: in seconds, passed to the solver; None for none.

    Returns:
        The solution; `steps` are the solver's iterations, `eigendecompositions` the repair's.

    Raises:
        ValueError: an argument outside its range.
        ProgramError: the solver failed and returned no point.
    """
    if not p >= 2:
        raise ValueError(f"p must be in [2, inf], got {p}")
    if solver not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(SOLVERS)}, got {solver!r}")
    start = time.perf_counter()
    size = float(np.abs(matrix).max(initial=0.0))
    scale = 2.0 ** (np.frexp(size)[1] - 1)  # a power of two: nothing is rounded
    matrix = matrix / scale
    problem = _Coordinates(matrix, relation)
    size = float(np.abs(problem.matrix).max(initial=0.0))
    if size == 0.0:
        raise ValueError("the workload is zero: every answer is known without measuring anything")
    options = solver_options(solver, accuracy, MAX_ITERATIONS, time_limit)
    build = primal if form == "primal" else dual
    vectors = problem.differences.vectors()
    u, w, gram, raw, iterations = build(problem.matrix / size, vectors, p, solver, options)
    late = time_limit is not None and time.perf_counter() - start >= time_limit
    strategy, right_inverse, u, w = _repair(problem, p, u, w, gram)
    scaled = certify(DenseOperator(matrix), strategy, right_inverse, u, w, p, relation=relation)
    certificate = Certificate(scaled.lower * scale, scaled.upper * scale)
    return Solution(
        strategy=strategy,
        right_inverse=right_inverse,
        dual_u=u,
        dual_w=w,
        certificate=certificate,
        status=_status(raw, certificate, rel_gap, late=late),
        steps=iterations,
        eigendecompositions=2,
        seconds=time.perf_counter() - start,
    )


class _Coordinates:
    """A workload in the coordinates of its difference vectors, nothing merged."""

    def __init__(self, matrix: Array, relation: Relation) -> None:
        self.matrix = matrix if relation == "add-remove" else matrix[:, :-1] - matrix[:, -1:]
        cells = self.matrix.shape[1]
        self.differences: Differences = (Cells if relation == "add-remove" else Pairs)(cells)
        self.operator: Operator = DenseOperator(self.matrix)
        self.row_copies = np.ones(len(matrix))

    @property
    def rank(self) -> int:
        return int(np.linalg.matrix_rank(self.matrix))

    def lift(self, strategy: Array, right_inverse: Array) -> tuple[Array, Array]:
        """R and B on all cells, of sensitivity 1."""
        if isinstance(self.differences, Pairs):
            strategy = np.hstack([strategy, np.zeros((len(strategy), 1))])
            strategy -= strategy.mean(axis=1, keepdims=True)
            right_inverse = np.vstack([right_inverse, -right_inverse.sum(axis=0)])
            sensitivity = diameter(strategy)
        else:
            sensitivity = float(np.linalg.norm(strategy, axis=0).max())
        return strategy / sensitivity, right_inverse * sensitivity


def _repair(
    problem: _Coordinates, p: float, u: Array, w: Array, gram: Array | None
) -> tuple[Array, Array, Array, Array]:
    """An exactly feasible factorization and dual point from approximate ones."""
    operator = problem.operator
    # a solver that stops early may leave no positive weight; uniform ones give bounds as well
    u, w = (x if (x > 0).any() else np.ones_like(x) for x in (u, w))
    pairs = problem.differences if isinstance(problem.differences, Pairs) else None
    candidates: list[tuple[Array, Array]] = []
    if pairs is None:
        merged = MergedWorkload(operator)
        scaling = ScalingProblem(merged, p)
        point = scaling.evaluate(*scaling.normalise(*scaling.turn(*merged.fold(u, w))))
        u, w = scaling.weights(point.u, point.w)
        candidates.append(scaling.factors(point))
    else:
        u, w = (np.maximum(x, FLOOR * x.max()) for x in (u, w))
        iterate = DualFunction(problem, p).evaluate(u, w)
        candidates.append(problem.lift(iterate.strategy, right_inverse_of(iterate.strategy)))
        u, w = u / dual_norm(u, p), pairs.to_matrices(w / w.sum())[0]
    if gram is not None and np.trace(gram) > 0:
        candidates += [problem.lift(*_from_gram(gram, ridge)) for ridge in RIDGES]
    relation: Relation = "add-remove" if pairs is None else "replace"
    if pairs is not None:
        operator = DenseOperator(np.hstack([problem.matrix, np.zeros((len(problem.matrix), 1))]))
    strategy, right_inverse = min(
        candidates, key=lambda pair: upper_bound(operator, pair[0], pair[1], p, relation=relation)
    )
    return strategy, right_inverse, u, w


def _from_gram(gram: Array, ridge: float) -> tuple[Array, Array]:
    """R and B = R^-1, for R^T R close to the given matrix.

    At large p many columns are shorter than 1 at the optimum: made longer, they cost up to 1%.
    """
    eigenvalues, vectors = np.linalg.eigh((gram + gram.T) / 2)
    roots = np.sqrt(np.maximum(eigenvalues, 0.0) + ridge * float(gram.diagonal().max()))
    return (vectors * roots).T, vectors / roots


def _status(raw: str, certificate: Certificate, rel_gap: float, *, late: bool) -> Status:
    if certificate.gap <= rel_gap:  # whatever the solver says: the certificate is recomputed
        return Status.OPTIMAL
    if late and raw != "optimal":  # SCS calls its last point inaccurate
        return Status.TIME_LIMIT
    return Status.ITERATION_LIMIT if raw == "user_limit" else Status.INACCURATE
