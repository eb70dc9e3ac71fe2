r"""A strategy for add-remove neighbours, evaluated where a record is replaced by another.

The total is public: what counts of R are the distances of its columns, and of A the vectors that
sum to zero. With P = 1 - 1 1^T / n, d the largest distance, z = R^+^T 1 and v = R^+ z,

    R' = R P / d,    B' = d (R^+ - v (1^T R^+) / (1^T v)),    R' B' = 1 - z z^T / norm(z)^2,

if R determines the total; a reflection that takes z to a multiple of e_1 makes the first row of R'
and the first column of B' zero, and they are left out. If R does not, e = 1 - R^+ R 1 takes the
place of v, and R' B' = 1.

A pair of cells weighs the product of their weights, equal cells being one
(`certificate.product_pairs`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pmldesign_solvers.certificate.cells import Certificate
from pmldesign_solvers.certificate.pairs import upper_bound_of_pairs
from pmldesign_solvers.certificate.product_pairs import lower_of_weights
from pmldesign_solvers.norm.bounds_loop import final_status
from pmldesign_solvers.norm.options import SolverOptions
from pmldesign_solvers.norm.solution import Solution, Status
from pmldesign_solvers.operators.differences import diameter
from pmldesign_solvers.operators.merge import MergedWorkload
from pmldesign_solvers.operators.operator import Array

COMPLETE = 1e-9
"""A strategy determines the total of its cells if no more of it is missing than this."""


def under_replace(
    merged: MergedWorkload, p: float, solution: Solution, options: SolverOptions
) -> Solution:
    """The solution for add-remove neighbours, as one for neighbours that replace a record.

    Args:
        merged: the workload.
        p: in [2, inf].
        solution: with R^+ as its right inverse.
        options: of the search that had no time for pairs.
    """
    operator = merged.original
    strategy, inverse = _beside_the_total(solution.strategy, solution.right_inverse)
    _, first, classes = np.unique(merged.column_of, return_index=True, return_inverse=True)
    w = np.zeros(operator.shape[1])
    w[first] = np.bincount(classes, weights=solution.dual_w)
    certificate = Certificate(
        lower_of_weights(operator, solution.certificate.lower, solution.dual_u, w),
        upper_bound_of_pairs(operator, strategy, inverse, p),
    )
    status = solution.status if solution.status is not Status.OPTIMAL else Status.TIME_LIMIT
    some = np.flatnonzero(w)
    weights = np.outer(w[some], w[some])
    np.fill_diagonal(weights, 0.0)
    pairs = np.zeros((len(w), len(w)))  # of which memory holds what is not zero
    pairs[np.ix_(some, some)] = weights
    return replace(
        solution,
        strategy=strategy,
        right_inverse=inverse,
        dual_w=pairs,
        certificate=certificate,
        status=final_status(status, certificate, options.rel_gap),
    )


def _beside_the_total(strategy: Array, inverse: Array) -> tuple[Array, Array]:
    """R' and B', of full row rank."""
    size = diameter(strategy)
    centred = (strategy - strategy.mean(axis=1, keepdims=True)) / size
    total = inverse.sum(axis=0)
    missed = 1.0 - inverse @ strategy.sum(axis=1)
    complete = float(np.abs(missed).max()) <= COMPLETE
    free = inverse @ total if complete else missed
    beside = size * (inverse - np.outer(free, total / free.sum()))
    if not complete:
        return centred, beside
    normal = total / np.linalg.norm(total)
    normal[0] += np.copysign(1.0, normal[0])
    normal *= np.sqrt(2.0) / np.linalg.norm(normal)
    centred -= np.outer(normal, normal @ centred)
    beside -= np.outer(beside @ normal, normal)
    return np.ascontiguousarray(centred[1:]), np.ascontiguousarray(beside[:, 1:])
