"""gamma_(p) as CVXPY programs: the readable oracle that the fast solver is tested against.

Primal, a semidefinite program whose value is gamma_(p)(A)^2:

    minimise    norm(v)_{p/2}
    subject to  [[X, A], [A^T, Y]] >= 0,   diag(X) <= v,   d_k^T Y d_k <= 1.

Y is the Gram matrix of a strategy, d_k are the difference vectors of neighbours (the unit vectors,
for cells); the multipliers of the last two constraints are the dual u, w.

Dual, diagonal scaling, whose value is gamma_(p)(A):

    maximise    <A, Z>
    subject to  [[diag(u), Z], [Z^T, W]] >= 0,   W = sum_k w_k d_k d_k^T,
                norm(u)_q <= 1,   sum(w) <= 1,   w >= 0.

For pairs both are written relative to the last cell, as in `differences`.

Neither answer is taken at its word. From the weights follows a factorization in closed form, from Y
another one after a small multiple of the identity makes it invertible; the better of them is
exactly feasible, and its certificate is recomputed from the workload.

References:
    [ZLU] Zou, Liu and Upadhyay, Optimality of matrix mechanism on l_p^p-metric, Definition A.3 and
    the dual in the proof of Lemma 2.10.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pmldesign_solvers.certificate import (
    Certificate,
    Kind,
    certify,
    diameter,
    dual_exponent,
    dual_norm,
    upper_bound,
)
from pmldesign_solvers.differences import Cells, Pairs
from pmldesign_solvers.interior_point import InteriorPoint
from pmldesign_solvers.merged import FLOOR, MergedWorkload, right_inverse
from pmldesign_solvers.operators import Array, DenseOperator
from pmldesign_solvers.scaling_problem import ScalingProblem
from pmldesign_solvers.solution import Solution, Status

Form = Literal["primal", "dual"]
SOLVERS = ("SCS", "CLARABEL")
RIDGES = (1e-12, 1e-9, 1e-7, 1e-5, 1e-3)
"""Multiples of the identity, relative to the largest diagonal entry, tried to make Y invertible."""


class ProgramError(RuntimeError):
    """The convex solver returned no point at all."""


def solve(
    matrix: Array,
    p: float,
    *,
    kind: Kind = "cells",
    form: Form = "primal",
    solver: str = "SCS",
    rel_gap: float = 1e-4,
    accuracy: float = 1e-7,
    max_iterations: int = 100_000,
    time_limit: float | None = None,
) -> Solution:
    """Compute gamma_(p)(A) by a general convex solver, repaired and certified.

    Args:
        matrix: A, shape (m, n), not all zero.
        p: in [2, inf].
        kind: what neighbours differ by: "cells" (add-remove) or "pairs" (replace).
        form: "primal" or "dual".
        solver: "SCS" or "CLARABEL".
        rel_gap: the status is OPTIMAL only if the certificate is at least this tight.
        accuracy: absolute and relative tolerance that the solver is asked for.
        max_iterations: of the solver.
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
    problem = _Coordinates.of(matrix, kind)
    size = float(np.abs(problem.matrix).max(initial=0.0))
    if size == 0.0:
        raise ValueError("the workload is zero: every answer is known without measuring anything")
    options = _options(solver, accuracy, max_iterations, time_limit)
    build = _primal if form == "primal" else _dual
    vectors = problem.differences.vectors()
    u, w, gram, raw, iterations = build(problem.matrix / size, vectors, p, solver, options)
    late = time_limit is not None and time.perf_counter() - start >= time_limit
    strategy, basis, u, w = _repair(problem, p, u, w, gram)
    certificate = certify(DenseOperator(matrix), strategy, basis, u, w, p, kind=kind)
    return Solution(
        strategy=strategy,
        basis=basis,
        dual_u=u,
        dual_w=w,
        certificate=certificate,
        status=_status(raw, certificate, rel_gap, late=late),
        steps=iterations,
        eigendecompositions=2,
        seconds=time.perf_counter() - start,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Coordinates:
    """A workload in the coordinates of its difference vectors, nothing merged."""

    matrix: Array
    differences: Cells | Pairs

    @classmethod
    def of(cls, matrix: Array, kind: Kind) -> _Coordinates:
        if kind == "cells":
            return cls(matrix, Cells(matrix.shape[1]))
        return cls(matrix[:, :-1] - matrix[:, -1:], Pairs(matrix.shape[1] - 1))

    @property
    def operator(self) -> DenseOperator:
        return DenseOperator(self.matrix)

    @property
    def row_copies(self) -> Array:
        return np.ones(len(self.matrix))

    @property
    def rank(self) -> int:
        return int(np.linalg.matrix_rank(self.matrix))

    def lift(self, strategy: Array, basis: Array) -> tuple[Array, Array]:
        """R and B on all cells, of sensitivity 1."""
        if isinstance(self.differences, Pairs):
            strategy = np.hstack([strategy, np.zeros((len(strategy), 1))])
            strategy -= strategy.mean(axis=1, keepdims=True)
            basis = np.vstack([basis, -basis.sum(axis=0)])
            sensitivity = diameter(strategy)
        else:
            sensitivity = float(np.linalg.norm(strategy, axis=0).max())
        return strategy / sensitivity, basis * sensitivity


def _options(
    solver: str, accuracy: float, max_iterations: int, time_limit: float | None
) -> dict[str, float]:
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


Answer = tuple[Array, Array, Array | None, str, int]
"""u, w, the Gram matrix of a strategy if the solver has one, status, iterations."""


def _primal(
    matrix: Array, vectors: Array, p: float, solver: str, options: dict[str, float]
) -> Answer:
    import cvxpy as cp

    m, k = matrix.shape
    block = cp.Variable((m + k, m + k), PSD=True)
    variances = cp.Variable(m)
    size = cp.max(variances) if np.isinf(p) else cp.pnorm(variances, p / 2)
    rows = cp.diag(block)[:m] <= variances
    columns = cp.sum(cp.multiply(vectors @ block[m:, m:], vectors), axis=1) <= 1
    problem = cp.Problem(cp.Minimize(size), [block[:m, m:] == matrix, rows, columns])
    raw, iterations = _run(problem, solver, options)
    gram = np.asarray(block.value[m:, m:])
    return np.asarray(rows.dual_value), np.asarray(columns.dual_value), gram, raw, iterations


def _dual(
    matrix: Array, vectors: Array, p: float, solver: str, options: dict[str, float]
) -> Answer:
    import cvxpy as cp

    m, k = matrix.shape
    block = cp.Variable((m + k, m + k), PSD=True)
    u, w = cp.Variable(m), cp.Variable(len(vectors), nonneg=True)
    exponent = dual_exponent(p)
    ball = cp.max(u) if exponent == 0.0 else cp.pnorm(u, 1.0 / exponent)
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


def _outer_products(vectors: Array) -> Any:
    """The sparse matrix whose column k is v_k v_k^T, written row after row."""
    from scipy import sparse

    count, k = vectors.shape
    index, first = np.nonzero(vectors)
    same, second = np.nonzero(vectors[index])
    owner, first = index[same], first[same]
    values = vectors[owner, first] * vectors[owner, second]
    return sparse.csr_array((values, (first * k + second, owner)), shape=(k * k, count))


def _run(problem: Any, solver: str, options: dict[str, float]) -> tuple[str, int]:
    import cvxpy as cp

    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # "may be inaccurate": the status and the certificate say it
        try:
            problem.solve(solver=solver, **options)
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
        u, w = scaling.weights(point)
        candidates.append(scaling.factors(point))
    else:
        u, w = (np.maximum(x, FLOOR * x.max()) for x in (u, w))
        iterate = InteriorPoint(problem, pairs, p).evaluate(u, w)
        candidates.append(problem.lift(iterate.strategy, right_inverse(iterate.strategy)))
        u, w = u / dual_norm(u, p), pairs.to_matrix(w / w.sum())
    if gram is not None and np.trace(gram) > 0:
        found = (_from_gram(gram, ridge, unit=pairs is None) for ridge in RIDGES)
        candidates += [problem.lift(*factors) for factors in found]
    kind: Kind = "cells" if pairs is None else "pairs"
    if pairs is not None:
        operator = DenseOperator(np.hstack([problem.matrix, np.zeros((len(problem.matrix), 1))]))
    strategy, basis = min(
        candidates, key=lambda pair: upper_bound(operator, pair[0], pair[1], p, kind=kind)
    )
    return strategy, basis, u, w


def _from_gram(gram: Array, ridge: float, *, unit: bool) -> tuple[Array, Array]:
    """R and B = R^-1, for R^T R close to the given matrix; with unit columns if so wanted.

    Unit columns are optimal for cells; differences to the reference cell differ in length.
    """
    eigenvalues, vectors = np.linalg.eigh((gram + gram.T) / 2)
    roots = np.sqrt(np.maximum(eigenvalues, 0.0) + ridge * float(gram.diagonal().max()))
    strategy = (vectors * roots).T
    norms = np.sqrt(np.einsum("ij,ij->j", strategy, strategy)) if unit else np.ones(len(gram))
    return strategy / norms, norms[:, None] * (vectors / roots)


def _status(raw: str, certificate: Certificate, rel_gap: float, *, late: bool) -> Status:
    if raw == "optimal" and certificate.gap <= rel_gap:
        return Status.OPTIMAL
    if late and raw != "optimal":  # SCS calls what it has by then inaccurate
        return Status.TIME_LIMIT
    return Status.ITERATION_LIMIT if raw == "user_limit" else Status.INACCURATE
