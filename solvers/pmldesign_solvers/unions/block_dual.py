r"""The best dual weights of a union of products that are constant along all attributes but one.

Let w = w_i x 1/N', constant along the other attributes (N' cells), and u of the same form. If on
every other attribute j the Gram matrices A_sj^T A_sj, s = 1 ... S, commute, they have common
eigenvectors with eigenvalues lambda_sj, and A^T diag(u) A splits into blocks of the size of
attribute i, one for each combination b of eigenvectors of the others:

    K_b = sum_s c_sb A_si^T diag(u_s) A_si,    c_sb = prod_{j != i} lambda_sj(b_j),
    f(u, w) = sum_b tr (W^(1/2) K_b W^(1/2))^(1/2) / N'^(1/2).

The best u, w of this form are found by the fixed point of `dense_dual`, and equal blocks are
taken once.

Strategy. With W^(1/2) K_b W^(1/2) = Q_b S_b^2 Q_b^T it measures what belongs to combination b by

    R_b = S_b^(1/2) Q_b^T W^(-1/2)                 (`block_design`).

If this is the whole union and the projections of the other attributes are even (`eigenspaces`), the
squared norms d of its columns depend on the cell of attribute i only, and both upper bounds of
`dense_dual` hold: the plain one, and where all R_b are invertible that of R_b diag(d)^(-1/2).
If the rows of the A_sj also have equal shares in every projection, or at p = 2, they meet f.

If the best weights of some cells, or at p = inf of some queries, are zero, R_b has no limit. The
fixed point may therefore give a part mu of all weight equally to all. At its limit w_j d_j / f and
(p = inf) u_i v_i / f are then (1 + mu) w_j - mu/n and (1 + mu) u_i - mu/m, so that d and v are at
most (1 + mu) f, and so is the plain upper bound.

Rounding. Lambda_sj are lowered by what V^T A_sj^T A_sj V, V the computed eigenvectors, is off a
diagonal matrix, and those alike are the least of them, which both lower f: tr M^(1/2) grows with M.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pmldesign_solvers.norm.fixed_point import WeightsPoint
from pmldesign_solvers.operators.merge import right_inverse_of
from pmldesign_solvers.operators.operator import (
    EPS,
    TINY,
    Array,
    Indices,
    dual_exponent,
    dual_norm,
    power_mean,
    sum_of_roots,
)
from pmldesign_solvers.structure import kronecker
from pmldesign_solvers.structure.eigenspaces import Eigenspaces, is_even
from pmldesign_solvers.unions.block_design import BlockDesign
from pmldesign_solvers.unions.product_basis import Basis, Parts


@dataclass(frozen=True, slots=True, eq=False)
class BlockPoint(WeightsPoint):
    """Weights on the free attribute, shapes (all queries on the attribute,) and (n_i,).

    Attributes:
        scale: shape (n_i,), divisors of the columns of the R_b for the upper bound.
    """

    scale: Array


class BlockProblem:
    """The dual weights of one attribute, those of the others being constant.

    Args:
        parts: all parts of the union.
        kept: the numbers of those that count.
        index: of the free attribute.
        spaces: common eigenspaces of the kept parts, for each of the others.
        coefficients: c_sb, shape (kept parts, blocks).
        pattern: the block of every combination of eigenspaces, -1 where nothing is asked.
        p: in [2, inf].
        shared: mu, the part of the next weights that all share alike.

    `BlockPoint.upper` is that of `design` only if all parts are kept and the spaces are even.
    """

    def __init__(
        self,
        parts: Parts,
        kept: Sequence[int],
        index: int,
        spaces: Sequence[Eigenspaces],
        coefficients: Array,
        pattern: Indices,
        p: float,
        shared: float,
    ) -> None:
        self.parts, self.p, self._shared = parts, p, shared
        self._kept, self._index = kept, index
        self._free = [parts[s][index] for s in kept]
        self._spaces, self._coefficients, self._pattern = spaces, coefficients, pattern
        sizes = kronecker.outer([space.members.sum(axis=0) for space in spaces])
        self.counts = np.array(
            [sizes[pattern.ravel() == block].sum() for block in range(coefficients.shape[1])]
        )
        self._cells = [factor.shape[1] for factor in parts[0]]
        self._spread = math.prod(map(float, self._cells)) / self._cells[index]
        rows = [factor.shape[0] for factor in self._free]
        queries = [math.prod(float(factor.shape[0]) for factor in parts[s]) for s in kept]
        self._stops = np.cumsum(rows)[:-1]
        self._copies = np.repeat(np.array(queries) / rows, rows)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of weights u and w."""
        return len(self._copies), self._free[0].shape[1]

    @cached_property
    def exact(self) -> bool:
        """Whether the best strategy of blocks is optimal, if blocks answer everything."""
        if self.p == 2:
            return True
        others = [j for j in range(len(self._cells)) if j != self._index]
        return all(
            is_even(space.shares(self.parts[s][j]))
            for s in self._kept
            for j, space in zip(others, self._spaces, strict=True)
        )

    def normalise(self, u: Array, w: Array) -> tuple[Array, Array]:
        """Scaled to norm 1 over all queries and to sum(w) = 1."""
        return np.asarray(u / dual_norm(u, self.p, self._copies)), np.asarray(w / w.sum())

    def evaluate(self, u: Array, w: Array) -> BlockPoint:
        """Both bounds and the next weights at normalised weights."""
        n = len(w)
        root = np.sqrt(w / self._spread)
        total, diagonal = 0.0, np.zeros(n)
        inverses = [np.zeros((n, n)) for _ in self._free]
        for block, values, vectors in self._decompose(u, root):
            count = self.counts[block]
            total += count * float(np.sqrt(np.maximum(values, 0.0)).sum())
            roots = _roots(values, n)
            diagonal += count * (vectors**2 @ roots)
            half = root[:, None] * vectors / np.sqrt(roots)
            inverse = count * (half @ half.T)
            for moment, coefficient in zip(inverses, self._coefficients[:, block], strict=True):
                moment += coefficient * inverse
        columns = diagonal / w
        variances = self._variances(inverses)
        scale = np.ones(n)
        upper = math.sqrt(self._spread_of(variances) * float(columns.max()))
        if all(basis.shape[1] == n for basis in self._ranges):
            norms = np.sqrt(columns)
            scaled = [norms[:, None] * moment * norms for moment in inverses]
            value = math.sqrt(self._spread_of(self._variances(scaled)))
            if value < upper:
                upper, scale = value, norms
        next_u = (u * variances / total) ** dual_exponent(self.p)
        if math.isinf(self.p):
            next_u += self._shared / self._copies.sum()
        # some cells are uncovered
        next_w = np.maximum(diagonal, EPS * diagonal.max()) / total + self._shared / n
        return BlockPoint(total, upper, u, w, next_u, next_w, scale)

    def lower_bound(self, u: Array, w: Array) -> float:
        """f(u, w), rounded down."""
        total = 0.0
        pairs = zip(self._free, np.split(u, self._stops), strict=True)
        rounding = (
            max(factor.gram_rounding(weights) for factor, weights in pairs) + len(self._free) * EPS
        )
        for block, gram in self._blocks(u, np.sqrt(w / self._spread)):
            roots = sum_of_roots(
                np.asarray(np.linalg.eigvalsh(gram)), float(np.trace(gram)), rounding
            )
            total += self.counts[block] * roots
        return float(total * (1 - (sum(self.shape) + len(self.counts)) * EPS))

    def design(self, point: BlockPoint) -> BlockDesign:
        """The strategy of the upper bound of a point, scaled to sensitivity 1."""
        root = np.sqrt(point.w / self._spread)
        matrices, columns = [], np.zeros(len(root))
        for block, values, vectors in self._decompose(point.u, root):
            roots = np.sqrt(_roots(values, len(root)))
            matrix = (vectors * roots / (root * point.scale)[:, None]).T
            # only the row space of the queries, for an accurate inverse if weights vanish
            basis = self._ranges[block]
            inner = matrix @ basis
            matrices.append((inner @ basis.T, basis @ right_inverse_of(inner)))
            columns += self.counts[block] / self._spread * (matrices[-1][0] ** 2).sum(axis=0)
        size = math.sqrt(float(columns.max()))
        return BlockDesign(
            index=self._index,
            bases=tuple(space.vectors for space in self._spaces),
            combinations=self._pattern[np.ix_(*(space.labels for space in self._spaces))],
            blocks=tuple(
                Basis(np.ascontiguousarray(matrix / size), np.ascontiguousarray(inverse * size))
                for matrix, inverse in matrices
            ),
        )

    def expand(self, u: Array, w: Array) -> tuple[Array, Array]:
        """The weights of all queries and all cells."""
        weights = dict(zip(self._kept, np.split(u, self._stops), strict=True))
        queries = []
        for s, part in enumerate(self.parts):
            rows = [np.ones(factor.shape[0]) for factor in part]
            rows[self._index] = weights.get(s, np.zeros_like(rows[self._index]))
            queries.append(kronecker.outer(rows))
        cells = [np.full(n, 1 / n) for n in self._cells]
        cells[self._index] = w
        return np.concatenate(queries), kronecker.outer(cells)

    def _variances(self, inverses: Sequence[Array]) -> Array:
        """The mean variance of all queries that have this row on the attribute."""
        pairs = zip(self._free, inverses, strict=True)
        return (
            np.concatenate([factor.row_quadratic(inverse) for factor, inverse in pairs])
            / self._copies
        )

    def _spread_of(self, variances: Array) -> float:
        return power_mean(variances, self.p / 2, self._copies)

    def _blocks(self, u: Array, root: Array) -> Iterator[tuple[int, Array]]:
        """Every block: its number and W^(1/2) K_b W^(1/2)."""
        grams = [
            root[:, None] * factor.gram(weights) * root
            for factor, weights in zip(self._free, np.split(u, self._stops), strict=True)
        ]
        for block, weights in enumerate(self._coefficients.T):
            yield block, np.tensordot(weights, grams, axes=1)

    def _decompose(self, u: Array, root: Array) -> Iterator[tuple[int, Array, Array]]:
        """Every block: its number, S_b^2 and Q_b, of the rank that the queries have there."""
        for (block, gram), basis in zip(self._blocks(u, root), self._ranges, strict=True):
            first = basis.shape[0] - basis.shape[1]
            values, vectors = np.linalg.eigh(gram)
            yield block, values[first:], vectors[:, first:]

    @cached_property
    def _ranges(self) -> list[Array]:
        """Orthonormal bases of all that is asked in every block, shape (n_i, rank)."""
        m, n = self.shape
        ranges = []
        for _, gram in self._blocks(np.ones(m), np.ones(n)):
            values, vectors = np.linalg.eigh(gram)
            ranges.append(vectors[:, values > n * EPS * values[-1]])
        return ranges


def _roots(values: Array, n: int) -> Array:
    """S_b; no direction is left out, or the upper bound would be that of fewer queries."""
    return np.asarray(np.sqrt(np.maximum(values, max(n * EPS * float(values[-1]), TINY))))
