r"""Strategies in a product basis: for unions of products too large to be solved as one matrix.

The workload is a union of parts A_s = A_s1 x ... x A_sk over k attributes. With a basis R_i
(r_i x n_i, full row rank) of all that is asked about attribute i, and x > 0, the strategy

    R = diag(x)^(1/2) (R_1 x ... x R_k),      L = A (R_1^+ x ... x R_k^+) diag(x)^(-1/2)

has row and column norms that take products along one axis at a time, squares being entry by entry:

    v_s = (x_i (A_si R_i^+)^2) (1/x),         d = (x_i (R_i^T)^2) x.

For given bases the best x is a convex problem with vectors only. Its dual is the largest

    f(u, w) = sum_a (kappa_a c_a)^(1/2),   kappa = sum_s (x_i (A_si R_i^+)^2)^T u_s,
                                           c = (x_i (R_i^T)^2)^T w,

over u, w as in `dense_dual`; x = (kappa/c)^(1/2) gives both bounds, and u and w move by the
same fixed point.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pmldesign_solvers.norm import fixed_point
from pmldesign_solvers.norm.fixed_point import WeightsPoint
from pmldesign_solvers.operators.operator import (
    EPS,
    RANK_CUTOFF,
    Array,
    Operator,
    dual_exponent,
    dual_norm,
    power_mean,
)
from pmldesign_solvers.structure import kronecker

Parts = Sequence[Sequence[Operator]]
"""For every part of the union its factors, one for each attribute."""


@dataclass(frozen=True, slots=True)
class Basis:
    """What is measured of one attribute.

    Attributes:
        matrix: R_i, shape (r, n), of full row rank.
        inverse: R_i^+, shape (n, r).
    """

    matrix: Array
    inverse: Array


@dataclass(frozen=True, slots=True, eq=False)
class ProductDesign:
    """A strategy R = diag(weights)^(1/2) (R_1 x ... x R_k) of sensitivity 1.

    Attributes:
        bases: R_i and R_i^+.
        weights: shape (r,), positive.
    """

    bases: tuple[Basis, ...]
    weights: Array


@dataclass(frozen=True, slots=True, eq=False)
class BasisPoint(WeightsPoint):
    """Weights of the dual, shapes (m,) and (n,), and the strategy that belongs to them.

    At p = 2 u is a single 1 that stands for all. The lower bound is one on the best value in these
    bases only.

    Attributes:
        weights: x, shape (r,).
    """

    weights: Array


class BasisProblem:
    """The choice of the weights x for given bases."""

    def __init__(self, parts: Parts, bases: Sequence[Basis], p: float) -> None:
        self.p = p
        self.bases = tuple(bases)
        self._parts = parts
        self._columns = [np.ascontiguousarray(basis.matrix.T**2) for basis in bases]
        self._rows = [
            [factor.matvec(basis.inverse) ** 2 for factor, basis in zip(part, bases, strict=True)]
            for part in parts
        ]
        counts = [math.prod(len(squares) for squares in part) for part in self._rows]
        self._stops = np.cumsum(counts)[:-1]
        self.queries = sum(counts)
        self._plain = self._kappa(np.ones(self.queries)) if p == 2 else None

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of weights u (a single one at p = 2) and w."""
        cells = math.prod(len(squares) for squares in self._columns)
        return 1 if self._plain is not None else self.queries, cells

    def normalise(self, u: Array, w: Array) -> tuple[Array, Array]:
        """Scaled to norm(u)_q = 1 and sum(w) = 1."""
        return np.asarray(u / dual_norm(u, self.p)), np.asarray(w / w.sum())

    def evaluate(self, u: Array, w: Array) -> BasisPoint:
        """Both bounds and the next weights at normalised weights."""
        kappa = self._kappa(u) if self._plain is None else self._plain
        reach = kronecker.multiply([squares.T for squares in self._columns], w)
        # unneeded rows are measured with a tiny weight, so that R keeps its rank
        weights = np.sqrt(np.maximum(kappa, EPS * kappa.max()) / reach)
        lower = float(np.sqrt(kappa * reach).sum())
        columns = kronecker.multiply(self._columns, weights)
        if self._plain is not None:
            total, next_u = float((kappa / weights).sum()), u
        else:
            variances = self._row_norms(weights)
            total = power_mean(variances, self.p / 2)
            next_u = (u * variances / lower) ** dual_exponent(self.p)
        upper = math.sqrt(total * float(columns.max()))
        return BasisPoint(lower, upper, u, w, next_u, w * columns / lower, weights)

    def points(self, rel_gap: float, max_steps: int) -> Iterator[BasisPoint]:
        """The fixed point, until its own bounds are this close."""
        lower, upper = 0.0, np.inf
        for step, point in enumerate(fixed_point.points(self), start=1):
            yield point
            lower, upper = max(lower, point.lower), min(upper, point.upper)
            if upper <= lower * (1 + rel_gap) or step >= max_steps:
                return

    def design(self, weights: Array) -> ProductDesign:
        """The strategy with these weights, scaled to sensitivity 1."""
        largest = float(kronecker.multiply(self._columns, weights).max())
        return ProductDesign(self.bases, np.asarray(weights / largest))

    def upper_bound(self, weights: Array) -> float:
        """Certified upper bound on gamma_(p)(A) from the strategy with these weights.

        L answers A R^+ R; what rounding leaves of A (R^+ R - 1) is measured cell by cell, as in
        `certificate`, and its norm is bounded factor by factor.
        """
        sensitivity = math.sqrt(float(kronecker.multiply(self._columns, weights).max()))
        spread = math.sqrt(power_mean(self._row_norms(weights), self.p / 2))
        rest = math.fsum(residual(part, self.bases) ** 2 for part in self._parts)
        rounding = 1 + (len(weights) + sum(self.shape) + self.queries) * EPS
        return (spread * sensitivity + math.sqrt(rest)) * rounding

    def cell_weights(self, operator: Operator, u: Array, weights: Array) -> Array:
        """W, shape (n,), not normalised, that goes with a strategy, by matrices of all cells.

        At the optimum G W G = K with G = R^T R and K = A^T diag(u) A, so that
        w_j^2 = (G^-1 K G^-1 K G^-1)_jj / G_jj.
        """
        half = np.ones((1, 1))
        for basis in self.bases:
            half = np.kron(half, basis.inverse).astype(np.float64, copy=False)
        half /= np.sqrt(weights)
        inverse = half @ half.T
        moved = operator.gram(u) @ inverse
        squares = np.einsum("ij,ij->j", moved, inverse @ moved)
        columns = kronecker.multiply(self._columns, weights)
        columns = np.maximum(columns, EPS * columns.max())  # zero where nothing is asked
        return np.asarray(np.sqrt(np.maximum(squares, 0.0) / columns))

    def _row_norms(self, weights: Array) -> Array:
        parts = [kronecker.multiply(rows, 1 / weights) for rows in self._rows]
        return np.concatenate(parts)

    def _kappa(self, u: Array) -> Array:
        total = np.zeros(math.prod(squares.shape[1] for squares in self._columns))
        for rows, weights in zip(self._rows, np.split(u, self._stops), strict=True):
            total += kronecker.multiply([squares.T for squares in rows], weights)
        return total


def eigenbasis(strategy: Array) -> Basis:
    """Orthonormal eigenvectors of R^T R, for a strategy R of shape (r, n)."""
    rows = _row_space(strategy)
    return Basis(rows, np.ascontiguousarray(rows.T))


def residual_basis(strategy: Array) -> Basis:
    """The total, and orthonormal eigenvectors of R^T R on vectors that sum to zero."""
    cells = strategy.shape[1]
    rows = np.full((1, cells), 1 / math.sqrt(cells))
    centred = strategy - strategy.mean(axis=1, keepdims=True)
    if np.linalg.norm(centred) > RANK_CUTOFF * np.linalg.norm(strategy):
        rows = np.vstack([rows, _row_space(centred)])
    return Basis(rows, np.ascontiguousarray(rows.T))


def _row_space(matrix: Array) -> Array:
    _, values, vectors = np.linalg.svd(matrix, full_matrices=False)
    return np.ascontiguousarray(vectors[values > RANK_CUTOFF * values[0]])


def residual(part: Sequence[Operator], bases: Sequence[Basis]) -> float:
    """At least the Frobenius norm of A_s (R^+ R - 1)."""
    size, growth = 1.0, 1.0
    for factor, basis in zip(part, bases, strict=True):
        norm = math.sqrt(float(np.trace(factor.gram(np.ones(factor.shape[0])))))
        size *= norm
        growth *= 1 + factor_residual(factor, norm, basis) / norm
    return size * (growth - 1) * (1 + 8 * EPS) + EPS * size


def factor_residual(factor: Operator, norm: float, basis: Basis) -> float:
    """At least the Frobenius norm of A_si (R_i^+ R_i - 1), for A_si of this Frobenius norm."""
    rest = factor.matvec(basis.inverse @ basis.matrix - np.eye(basis.matrix.shape[1]))
    condition = float(np.linalg.norm(basis.inverse) * np.linalg.norm(basis.matrix))
    return float(np.linalg.norm(rest)) + condition * EPS * norm
