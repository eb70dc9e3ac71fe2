r"""Better product bases by descent on the bases and the weights together.

In the notation of `product_basis`, R_i = C_i^T B_i with B_i an orthonormal basis of the rows and
C_i any regular matrix, so that R_i^+ = B_i^T C_i^(-T). Minimised are, over C_i and log x,

    log norm(v)_(p/2) + log norm(d)_beta,

which is the square of the value of the strategy for large beta; p/2 is at most beta as well. With
T = M^2 entry by entry, M = A_si B_i^T C_i^(-T) and H = (B_i^T C_i)^2, the derivatives with respect
to T and H are products along the other axes, and

    dT = 2 M dM,   M = N Z, Z = C^(-T):   the derivative in C is -Z G^T Z, with G = N^T dM.

The descent is by limited-memory BFGS, with beta growing. It is not convex: it improves its start.

The derivatives of the objective with respect to v and d are proportional to

    u = v^(b - 1),   w = d^(beta - 1),   b = min(p/2, beta):

the weights of queries and cells that stand for the two norms. Where the bases did not restrict the
minimum they were dual weights of the smoothed problem; they give lower bounds in any case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from pmldesign_solvers.operators import lbfgs
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.structure import kronecker
from pmldesign_solvers.unions.product_basis import Basis, Parts

CORRECTIONS = 20
"""Pairs of steps and slopes of L-BFGS. Chosen, not measured."""
SHARPNESS = (20.0, 80.0, 640.0)
"""Beta, one descent after the other."""
PATIENCE, LEAST_GAIN = 50, 1e-4
"""Evaluations that have to gain so much, relatively, for others to follow at one sharpness."""


@dataclass(frozen=True, slots=True)
class UnionDescended:
    """Where a descent began or ended.

    Attributes:
        bases: R_i and R_i^+.
        weights: x, shape (r,).
        u, w: of all queries and all cells, not normalised; shapes (m,) and (n,).
    """

    bases: list[Basis]
    weights: Array
    u: Array
    w: Array


class BasisObjective:
    """The smoothed value of a strategy, as a function of a vector of all C_i and log x."""

    def __init__(self, parts: Parts, bases: Sequence[Basis], p: float) -> None:
        self._p = p
        self._bases = tuple(bases)
        self.sizes = [basis.matrix.shape[0] for basis in bases]
        self._known = [
            [factor.matvec(basis.inverse) for factor, basis in zip(part, bases, strict=True)]
            for part in parts
        ]

    def start(self, weights: Array) -> Array:
        """The vector for the bases given and these weights x."""
        units = [np.eye(size).ravel() for size in self.sizes]
        return np.concatenate([*units, np.log(weights)])

    def end(self, vector: Array, beta: float) -> UnionDescended:
        """The bases and weights that a vector stands for, and the weights of queries and cells."""
        turns, logarithms = self._split(vector)
        x = np.exp(logarithms)
        bases = [
            Basis(turn.T @ basis.matrix, basis.inverse @ np.linalg.inv(turn.T))
            for turn, basis in zip(turns, self._bases, strict=True)
        ]
        inverses = [np.linalg.inv(turn).T for turn in turns]
        rows = [
            _product(
                [matrix @ inverse for matrix, inverse in zip(part, inverses, strict=True)], 1 / x
            )
            for part in self._known
        ]
        columns = _product([basis.matrix.T for basis in bases], x)
        u = _log_norm(np.concatenate(rows), min(self._p / 2, beta))[1]
        return UnionDescended(bases, x, u, _log_norm(columns, beta)[1])

    def value(self, vector: Array, beta: float) -> tuple[float, Array]:
        """The objective and its gradient."""
        turns, logarithms = self._split(vector)
        x = np.exp(logarithms)
        inverses = [np.linalg.inv(turn).T for turn in turns]
        columns = [basis.matrix.T @ turn for basis, turn in zip(self._bases, turns, strict=True)]
        turned = [
            [matrix @ inverse for matrix, inverse in zip(part, inverses, strict=True)]
            for part in self._known
        ]
        largest, by_column = _log_norm(_product(columns, x), beta)
        rows = np.concatenate([_product(part, 1 / x) for part in turned])
        spread, by_row = _log_norm(rows, min(self._p / 2, beta))
        slopes = _factor_gradients(columns, x, by_column)
        by_turn = [basis.matrix @ slope for basis, slope in zip(self._bases, slopes, strict=True)]
        by_x = _product([column.T for column in columns], by_column)
        start = 0
        for part, matrix in zip(turned, self._known, strict=True):
            stop = start + math.prod(len(factor) for factor in part)
            share, start = by_row[start:stop], stop
            by_x -= _product([factor.T for factor in part], share) / x**2
            for i, gradient in enumerate(_factor_gradients(part, 1 / x, share)):
                by_turn[i] = by_turn[i] - inverses[i] @ (matrix[i].T @ gradient).T @ inverses[i]
        gradient = np.concatenate([*(matrix.ravel() for matrix in by_turn), by_x * x])
        return largest + spread, gradient

    def _split(self, vector: Array) -> tuple[list[Array], Array]:
        stops = np.cumsum([size * size for size in self.sizes])
        *turns, logarithms = np.split(vector, stops)
        return [
            turn.reshape(size, size) for turn, size in zip(turns, self.sizes, strict=True)
        ], logarithms


def beginning(parts: Parts, bases: Sequence[Basis], weights: Array, p: float) -> UnionDescended:
    """The start of `descend`, with the weights of its first norms."""
    objective = BasisObjective(parts, bases, p)
    return objective.end(objective.start(weights / weights.max()), SHARPNESS[0])


def descend(
    parts: Parts,
    bases: Sequence[Basis],
    weights: Array,
    p: float,
    *,
    evaluations: int,
    proceed: Callable[[], bool],
) -> Iterator[UnionDescended]:
    """Strategies of smaller and smaller value, one for every sharpness.

    Args:
        parts: of the union.
        bases: the start.
        weights: x of the start, shape (r,).
        p: in [2, inf].
        evaluations: at most, for each sharpness.
        proceed: asked before every evaluation; False ends the descent.
    """
    objective = BasisObjective(parts, bases, p)
    vector = objective.start(weights / weights.max())
    for beta in SHARPNESS:
        gains = lbfgs.Gains(PATIENCE, LEAST_GAIN)
        descended = lbfgs.descend(
            partial(objective.value, beta=beta),
            vector,
            proceed=proceed,
            report=gains,
            maxiter=evaluations,
            maxfun=evaluations,
            maxcor=CORRECTIONS,
        )
        vector = descended.unless_interrupted()
        if descended.stopped is not None and not gains.ended:
            return
        yield objective.end(vector, beta)


def _product(matrices: Sequence[Array], vector: Array) -> Array:
    """The Kronecker product of the squared matrices, times a vector."""
    return kronecker.multiply([matrix**2 for matrix in matrices], vector)


def _factor_gradients(matrices: Sequence[Array], vector: Array, outer: Array) -> list[Array]:
    """Derivatives of outer^T (x_i M_i^2) vector with respect to every M_i."""
    sizes = [matrix.shape[1] for matrix in matrices]
    rows = [matrix.shape[0] for matrix in matrices]
    gradients = []
    for i, matrix in enumerate(matrices):
        maps = [
            (lambda y: y) if j == i else (other**2).__matmul__ for j, other in enumerate(matrices)
        ]
        inner = kronecker.apply(maps, sizes, vector)
        mixed = [*rows[:i], sizes[i], *rows[i + 1 :]]
        product = _unfold(outer, rows, i) @ _unfold(inner, mixed, i).T
        gradients.append(2 * matrix * product)
    return gradients


def _unfold(vector: Array, sizes: Sequence[int], axis: int) -> Array:
    return np.moveaxis(vector.reshape(sizes), axis, 0).reshape(sizes[axis], -1)


def _log_norm(values: Array, power: float) -> tuple[float, Array]:
    """Log norm(values)_power and its gradient."""
    top = float(values.max())
    scaled = values / top
    total = float((scaled**power).sum())
    return math.log(top) + math.log(total) / power, scaled ** (power - 1) / (top * total)
