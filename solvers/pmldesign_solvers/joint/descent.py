r"""The best matrices for tables that are each measured by one of their own.

R_T = s_T^(1/2) Y_T with unit columns: cells are of squared length sum_T s_T = 1. With the queries
A_T of table T in its coordinates (`spaces`) the variances are v = diag(A_T (X^-1)_TT A_T^T), and
for M = X^-1 G X^-1, G made of A_T^T diag(u) A_T, u the slopes of norm(v)_(p/2) by v,

    d norm(v)_(p/2) = -sum_T tr(M_TT dE_T):

L-BFGS moves Y_T, which are scaled to unit columns, and log s_T. A part FLOOR of each table is
measured cell by cell, so that X stays invertible. Where p is large, powers below it come first.

Where records are replaced, the total is left out of X, and what counts is the largest distance of
two columns, whose square is at most sum_T s_T max (2 - 2 Y_x . Y_y); the maximum over pairs is
taken as a norm of power SHARP.

At the best point the slopes by the lengths of columns are weights of the cells of T. Their
sums over all attributes but one are weights of its values, in the mean over the tables: products of
these prove lower bounds (`joint.solve`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pmldesign_solvers.joint.spaces import Inverse, Spaces
from pmldesign_solvers.operators import lbfgs
from pmldesign_solvers.operators.operator import Array, power_mean

FLOOR = 1e-7
"""Part of each table's length for its cells one by one."""
FAINT = 1e-4
"""Least eigenvalue of A^T A in the start, as a part of the largest."""
CORRECTIONS = 20
POWERS = (1.0, 4.0, 16.0, 64.0)
"""Of variances, in turn, up to p/2; 256 for the largest one gained nothing."""
LEAST_WEIGHT = 1e-9
SHARP = 64
"""256 gained nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Matrices of tables, and the bounds from them.

    Attributes:
        rows: R_T, square; all columns of R have length 1.
        cells: w_i of each attribute, sum 1.
        queries: u, positive, of any norm.
    """

    rows: list[Array]
    cells: list[Array]
    queries: Array


class Descent:
    """The descent for given tables.

    Args:
        spaces: the tables, and their coordinates.
        asked: the queries of each, shape (m_T, n_T).
        grams: from which the start is made.
    """

    def __init__(self, spaces: Spaces, asked: Sequence[Array], grams: Sequence[Array]) -> None:
        self._spaces = spaces
        self._bases = spaces.inverses()
        self._squares = [V.T @ V for V in self._bases]
        self._asked = [A @ V for A, V in zip(asked, self._bases, strict=True)]
        self._grams = [A.T @ A for A in self._asked]
        self._ends = np.cumsum([len(A) for A in asked])
        self._shapes = [(len(V), len(V)) for V in self._bases]
        self._stops = np.cumsum([len(asked), *(n * n for n, _ in self._shapes)])
        starts = map(_root, grams)
        self.point = np.concatenate([np.zeros(len(asked)), *(Y.ravel() for Y in starts)])

    def run(self, power: float, *, steps: int, proceed: Callable[[], bool]) -> None:
        """Move on for the norm of variances with some power."""
        found = lbfgs.descend(
            lambda point: self._value(point, power)[:2],
            self.point,
            proceed=proceed,
            maxiter=steps,
            maxfun=2 * steps,
            maxcor=CORRECTIONS,
            ftol=1e-9,
        )
        self.point = found.unless_interrupted()

    @property
    def length(self) -> float:
        """The largest distance of the measurements of neighbours."""
        if self._spaces.has_total:
            return 1.0
        shares, columns, _ = self._unit(self.point)
        return math.sqrt(shares @ [2 - 2 * float((Y.T @ Y).min()) for Y in columns])

    def variances(self) -> Array:
        """The variances of all queries, table by table."""
        return self._variances(self._inverse(self._unit(self.point))[0])

    def measured(self, power: float) -> Measured:
        """What the point stands for, with dual weights for a power."""
        shares, columns, _ = self._unit(self.point)
        _, _, slopes, u = self._value(self.point, power)
        grams = [(1 - FLOOR) * Y.T @ Y + FLOOR * np.eye(len(Y)) for Y in columns]
        rows = [
            np.asarray(math.sqrt(s) * np.linalg.cholesky(gram).T)
            for s, gram in zip(shares.tolist(), grams, strict=True)
        ]
        return Measured(rows, self._cells(slopes), u)

    def _unit(self, point: Array) -> tuple[Array, list[Array], list[Array]]:
        """Shares, unit columns and the lengths that they had."""
        first, *parts = np.split(point, self._stops[:-1])
        shares = np.exp(first - first.max())
        columns = [part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True)]
        lengths = [np.linalg.norm(Y, axis=0) for Y in columns]
        pairs = zip(columns, lengths, strict=True)
        return shares / shares.sum(), [Y / length for Y, length in pairs], lengths

    def _inverse(self, unit: tuple[Array, list[Array], list[Array]]) -> tuple[Inverse, list[Array]]:
        shares, columns, _ = unit
        images = [Y @ V for Y, V in zip(columns, self._bases, strict=True)]
        blocks = [
            s * ((1 - FLOOR) * image.T @ image + FLOOR * square)
            for s, image, square in zip(shares.tolist(), images, self._squares, strict=True)
        ]
        return Inverse(self._spaces, blocks), images

    def _variances(self, inverse: Inverse) -> Array:
        pairs = zip(self._asked, inverse.blocks(), strict=True)
        return np.concatenate([np.einsum("ij,ij->i", A @ B, A) for A, B in pairs])

    def _value(self, point: Array, power: float) -> tuple[float, Array, list[Array], Array]:
        """Half the log of the norm, its slopes, those by lengths of columns, and u."""
        unit = shares, columns, lengths = self._unit(point)
        try:
            inverse, images = self._inverse(unit)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros_like(point), [], np.zeros(0)
        v = self._variances(inverse)
        value, u = power_mean(v, power), np.ones(len(v))
        grams = self._grams
        if power > 1:
            u = (v / value) ** (power - 1)
            parts = np.split(u, self._ends[:-1])
            grams = [A.T @ (part[:, None] * A) for A, part in zip(self._asked, parts, strict=True)]
        by_share, by_columns, slopes = [], list[Array](), list[Array]()
        distances = [_apart(Y) for Y in columns] if not self._spaces.has_total else []
        square = float(shares @ [d for d, _ in distances]) if distances else 1.0
        for k, M in enumerate(inverse.sandwich(grams)):
            Y, image = columns[k], images[k]
            turned = (1 - FLOOR) * image @ M
            gained = np.vdot(turned, image) + FLOOR * np.vdot(self._squares[k], M)
            by_share.append(-float(gained) / value)
            slope = turned @ self._bases[k].T * (-shares[k] / value)
            slopes.append(-(slope * Y).sum(axis=0))
            if distances:
                by_share[-1] += distances[k][0] / square
                slope += distances[k][1] * (shares[k] / (2 * square))
            by_columns.append((slope - Y * (slope * Y).sum(axis=0)) / lengths[k])
        by_log = shares * (np.array(by_share) - shares @ by_share) / 2
        gradient = np.concatenate([by_log, *(part.ravel() for part in by_columns)])
        return math.log(value * square) / 2, gradient, slopes, u

    def _cells(self, slopes: Sequence[Array]) -> list[Array]:
        """Weights of the values of each attribute."""
        sizes = self._spaces.sizes
        sums = [np.full(n, LEAST_WEIGHT) for n in sizes]
        for T, slope in zip(self._spaces.tables, slopes, strict=True):
            weights = np.maximum(slope, 0.0).reshape([sizes[i] for i in T])
            for axis, i in enumerate(T):
                others = tuple(k for k in range(len(T)) if k != axis)
                sums[i] += weights.sum(axis=others) / max(float(weights.sum()), LEAST_WEIGHT)
        return [part / part.sum() for part in sums]


def _apart(Y: Array) -> tuple[float, Array]:
    """About the largest squared distance of two unit columns, and its slopes by them."""
    squares = np.maximum(2 - 2 * Y.T @ Y, 0.0)
    top = max(float(squares.max()), LEAST_WEIGHT)
    powers = (squares / top) ** (SHARP - 1)
    value = top * float((powers * squares).sum() / top / squares.size) ** (1 / SHARP)
    by_squares = powers * (top / value) ** (SHARP - 1) / squares.size
    return value, -4 * Y @ by_squares


def _root(gram: Array) -> Array:
    """G^(1/4) with unit columns."""
    values, vectors = np.linalg.eigh(gram)
    roots = np.maximum(values, FAINT * values[-1]) ** 0.25
    root = (vectors * roots) @ vectors.T
    return np.asarray(root / np.linalg.norm(root, axis=0))
