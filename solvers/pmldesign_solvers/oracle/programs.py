"""gamma_(p) as CVXPY programs: the readable oracle that the fast solver is tested against.

The primal program has the Gram matrix Y of a strategy as its variable, the dual one the weights u
of queries and w of difference vectors: see `solve`. For pairs both are written relative to
the last cell, as in `differences`.

Neither answer is taken at its word. From the weights follows a factorization in closed form, from Y
another one after a small multiple of the identity makes it invertible; the better of them is
exactly feasible, and its certificate is recomputed from the workload.
"""

from __future__ import annotations

import time
from typing import Literal

import numpy as np

from pmldesign_solvers.certificate.cells import Certificate, certify, upper_bound
from pmldesign_solvers.norm.dense_dual import ScalingProblem
from pmldesign_solvers.norm.dual_function import DualFunction
from pmldesign_solvers.norm.solution import Solution, Status
from pmldesign_solvers.operators.dense import DenseOperator
from pmldesign_solvers.operators.differences import Cells, Differences, Pairs, Relation, diameter
from pmldesign_solvers.operators.merge import FLOOR, MergedWorkload, right_inverse_of
from pmldesign_solvers.operators.norms import dual_norm
from pmldesign_solvers.operators.operator import Array, Operator
from pmldesign_solvers.oracle.solve import SOLVERS, dual, primal, solver_options

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

    At large p many columns are shorter than 1 at the optimum: made longer, they cost up to 1 %.
    """
    eigenvalues, vectors = np.linalg.eigh((gram + gram.T) / 2)
    roots = np.sqrt(np.maximum(eigenvalues, 0.0) + ridge * float(gram.diagonal().max()))
    return (vectors * roots).T, vectors / roots


def _status(raw: str, certificate: Certificate, rel_gap: float, *, late: bool) -> Status:
    if certificate.gap <= rel_gap:  # whatever the solver says: the certificate is recomputed
        return Status.OPTIMAL
    if late and raw != "optimal":  # SCS calls what it has by then inaccurate
        return Status.TIME_LIMIT
    return Status.ITERATION_LIMIT if raw == "user_limit" else Status.INACCURATE
