r"""Strategies that measure one attribute by a matrix of its own for each combination of the others.

With orthonormal bases V_j of the cells of all attributes but i, a combination b takes one column of
each, v_b = x_j V_j[:, b_j]. Some combinations share a block R_b (of full row rank, over the cells
of attribute i), others are not measured. As the v_b are orthonormal,

    R = sum_b R_b x v_b^T,     R^+ = sum_b R_b^+ x v_b,

with attribute i in its place. For the columns of R and the queries (r, q) of a part,

    norm(R e_(c,x))^2 = sum_b norm(R_b e_c)^2 prod_j V_j[x_j, b_j]^2,
    variance of (r, q) = sum_b norm(a_r^T R_b^+)^2 prod_j ((A_sj V_j)[q_j, b_j])^2,

sums over b of a number of the block times one for each other attribute. Columns of
V_j that go with the same blocks throughout are taken together, as a space (`eigenspaces`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pmldesign_solvers.operators.operator import EPS, TINY, Array, Indices, Operator, power_mean
from pmldesign_solvers.structure import kronecker
from pmldesign_solvers.structure.eigenspaces import Eigenspaces
from pmldesign_solvers.unions.product_basis import Basis, Parts, factor_residual, residual


@dataclass(frozen=True, eq=False)
class BlockDesign:
    """A strategy of blocks.

    Attributes:
        index: i, of the attribute that the blocks are about.
        bases: V_j of the others, in their order, shapes (n_j, n_j).
        combinations: the block of each combination, -1 if it is not measured; of the shape of the
            sizes of the others.
        blocks: R_b and R_b^+.
    """

    index: int
    bases: tuple[Array, ...]
    combinations: Indices
    blocks: tuple[Basis, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of cells of each attribute."""
        others = [len(basis) for basis in self.bases]
        return (*others[: self.index], self.blocks[0].matrix.shape[1], *others[self.index :])

    @cached_property
    def counts(self) -> Indices:
        """How many combinations each block measures."""
        measured = self.combinations[self.combinations >= 0]
        return np.bincount(measured, minlength=len(self.blocks))

    @cached_property
    def spaces(self) -> tuple[Eigenspaces, ...]:
        """The columns of each V_j by their blocks."""
        return tuple(
            Eigenspaces(basis, labels)
            for basis, (_, labels) in zip(self.bases, self._alike, strict=True)
        )

    @cached_property
    def _alike(self) -> list[tuple[Indices, Indices]]:
        """The first column of each space and the space of each column, for each V_j."""
        groups = []
        for axis, basis in enumerate(self.bases):
            rows = np.moveaxis(self.combinations, axis, 0).reshape(len(basis), -1)
            _, first, labels = np.unique(rows, axis=0, return_index=True, return_inverse=True)
            groups.append((first, labels.ravel()))
        return groups

    @cached_property
    def pattern(self) -> Indices:
        """The block of every combination of spaces, -1 if it is not measured."""
        return self.combinations[np.ix_(*(first for first, _ in self._alike))]

    def spread(self, values: Array, shares: Sequence[Array]) -> Array:
        """Sum over b of a number of the block times one for each other attribute.

        Args:
            values: for every block, and last for the unmeasured rest, a row of numbers.
            shares: for every other attribute numbers by space, shape (c_j, spaces).

        Returns:
            Shape (all combinations of numbers,), the last attribute fastest.
        """
        tensor = np.moveaxis(values[self.pattern], -1, self.index)
        maps: list[kronecker.Map] = [share.__matmul__ for share in shares]
        maps.insert(self.index, lambda y: y)
        return kronecker.apply(maps, tensor.shape, tensor.ravel())

    def row_norms(self, part: Sequence[Operator]) -> Array:
        """diag(L L^T), shape (queries of the part,), for L = A_s R^+."""
        free, others = self._split(part)
        norms = [free.row_norms(block.inverse) for block in self.blocks]
        values = np.stack([*norms, np.zeros(free.shape[0])])
        return self.spread(values, self._shares(others))

    def missing(self, part: Sequence[Operator]) -> tuple[Array, Array]:
        """Squared norms of a and of a - a R^+ R for the queries a of a part."""
        free, others = self._split(part)
        unit = np.eye(free.shape[1])
        rest = [free.row_norms(unit - block.inverse @ block.matrix) for block in self.blocks]
        size = free.row_norms(unit)
        shares = self._shares(others)
        every = self.spread(np.stack([size] * (len(rest) + 1)), shares)
        return every, self.spread(np.stack([*rest, size]), shares)

    def upper_bound(self, parts: Parts, p: float) -> float:
        """Certified upper bound on gamma_(p)(A), rounded up.

        L answers A R^+ R; what rounding leaves of A (R^+ R - 1) is measured cell by cell, as in
        `certificate`. The column norms are bounded by the largest diagonal entry of every
        projection.
        """
        columns = [np.einsum("ij,ij->j", block.matrix, block.matrix) for block in self.blocks]
        longest = [block.diagonals.max(axis=0, keepdims=True) for block in self.spaces]
        squares = self.spread(np.stack([*columns, np.zeros(self.sizes[self.index])]), longest)
        variances = np.concatenate([self.row_norms(part) + TINY for part in parts])
        value = math.sqrt(power_mean(variances, p / 2) * (float(squares.max()) + TINY))
        rest = math.fsum(self._residual(part) ** 2 for part in parts)
        rounding = 1 + (sum(self.sizes) + len(self.blocks) + len(variances)) * EPS
        return float((value + math.sqrt(rest)) * rounding)

    def _residual(self, part: Sequence[Operator]) -> float:
        """At least the Frobenius norm of A_s (R^+ R - 1).

        R^+ R - 1 = sum_b (R_b^+ R_b - 1) x v_b v_b^T + 1 x (sum_b v_b v_b^T - 1).
        """
        free, others = self._split(part)
        norm = math.sqrt(float(np.trace(free.gram(np.ones(free.shape[0])))))
        missed = [factor_residual(free, norm, block) ** 2 for block in self.blocks]
        sums = [share.sum(axis=0, keepdims=True) for share in self._shares(others)]
        values = np.array([*missed, norm**2])[:, None]
        off = [float(np.linalg.norm(v.T @ v - np.eye(len(v)))) for v in self.bases]
        spread = float(self.spread(values, sums)[0])
        size = math.sqrt(spread * math.prod(1 + loss for loss in off))
        bases = [Basis(np.ascontiguousarray(v.T), v) for v in self.bases]
        return size + residual([*others, free], [*bases, _unit(free.shape[1])])

    def _split(self, part: Sequence[Operator]) -> tuple[Operator, list[Operator]]:
        return part[self.index], [factor for j, factor in enumerate(part) if j != self.index]

    def _shares(self, others: Sequence[Operator]) -> list[Array]:
        return [space.shares(factor) for space, factor in zip(self.spaces, others, strict=True)]


def _unit(n: int) -> Basis:
    return Basis(np.eye(n), np.eye(n))
