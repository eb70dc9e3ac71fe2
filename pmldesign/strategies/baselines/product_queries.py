r"""The queries of a union of products measured themselves, R = A, over many cells.

On every attribute but one, i, the Gram matrices of the parts A_s = A_s1 x ... x A_sk commute. With
V_j their common eigenvectors there, and c_sb the product of the eigenvalues of A_sj^T A_sj on the
columns b of the V_j,

    A^T A = sum_b R_b^T R_b x v_b v_b^T,     R_b = (c_1b^(1/2) A_1i; c_2b^(1/2) A_2i; ...),

so that a strategy of blocks has the same Gram matrix (`blocks`), and with it the same variances,
and (A^T A)^+, with A^+ y = (A^T A)^+ A^T y. Blocks are decomposed by themselves.

Eigenvalues of one attribute are squared norms of A_sj v. They count as 0 below NONE of the largest;
attributes where some lie between that and LEAST_CONDITION, or where the v are off by more than
TURNED of the least, count as not commuting: variances keep eight digits.

Distances. All entries are 0 or 1. Two cells differ in n_x + n_y - 2 G_xy queries, n the diagonal of
G = A^T A, integers, the l1 distance of their columns and their squared l2 distance. With h_s
the product of the Gram matrices of part s over all attributes but the longest, l,

    G_(a, x)(b, y) = sum_s (A_sl^T A_sl)_ab (h_s)_xy,

of one pair a <= b after the other, without rounding, as integers below 2^53 are exact. For more
cells the distance is at most the sum of the largest ones of the parts, and at most the sum of the
two largest n.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import scipy

from pmldesign.privacy.neighbours import DistanceProfile, Norm
from pmldesign.privacy.outward import root_above
from pmldesign.strategies.arguments import read_only
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.baselines.regular import LEAST_CONDITION
from pmldesign.strategies.baselines.written_queries import differing_queries, distances_of_counts
from pmldesign.strategies.blocks import BlockStrategy
from pmldesign.strategies.sensitivity import diameter_of_product
from pmldesign.strategies.structured import StructuredStrategy
from pmldesign.strategies.total import free_vector
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.ranges import asks_total
from pmldesign.workloads.terms.over import products_over
from pmldesign_solvers.limits import WRITTEN_CELLS
from pmldesign_solvers.operators.operator import RANK_CUTOFF, Array, Indices
from pmldesign_solvers.structure import kronecker
from pmldesign_solvers.structure.eigenspaces import Eigenspaces, common_eigenspaces

NONE, TURNED = 1e-20, 1e-8
"""Parts of the largest and of the least eigenvalue: see above."""
WRITTEN_ENTRIES = 2**24
"""Most entries of the queries about one attribute."""
BLOCKS_COST = 2**34
"""Most of blocks times the cube of their cells: ten seconds."""
PAIRED_CELLS, HELD_ENTRIES = 2**31, 2**24
"""Most pairs of cells that are all compared, and entries of the h_s that are held: some seconds."""

Parts = Sequence[tuple[Workload, ...]]


class UnionQueries(StructuredStrategy):
    """The queries of a union of products, all of them counts.

    Args:
        workload: A.
        parts: its products, of factors of entries 0 and 1.
        alike: a strategy of the same Gram matrix.

    Attributes:
        columns: number of different columns, or more, each of as many cells.
    """

    columns: int
    workload: Workload

    def __init__(self, workload: Workload, parts: Parts, alike: BlockStrategy) -> None:
        self.name, self.workload, self.shape = "workload", workload, workload.shape
        self._parts, self._alike, self.sizes = parts, alike, alike.sizes
        pairs = zip(self.sizes, self._asked, strict=True)
        self.columns = math.prod(n for n, asked in pairs if asked)

    def measure(self, x: Array) -> Array:
        """A x, shape (m,) or (m, c), for a histogram x of shape (n,) or several, (n, c)."""
        return self.workload.matvec(np.asarray(x, dtype=np.float64))

    def estimate(self, measurements: Array) -> Array:
        """A^+ y, shape (n,) or (n, c), for measurements y of shape (r,) or (r, c)."""
        return self._alike.gram_inverse(self.workload.rmatvec(measurements))

    def require_answers(self, workload: Workload) -> None:
        """Refuse a workload that R does not determine, as `Strategy.require_answers`."""
        self._alike.require_answers(workload)

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise."""
        return self._alike.variances(workload)

    @property
    def rank(self) -> int:
        """Of A."""
        return self._alike.shape[0]

    @cached_property
    def _inverse_and_rank(self) -> tuple[Array, int]:
        check_entries(f"the inverse of strategy {self.name!r}", self.shape)
        return read_only(self.estimate(np.eye(self.shape[0]))), self.rank

    def distance_profile(self, norm: Norm) -> DistanceProfile | None:
        """All columns as far away as the farthest two; of few different ones all distances."""
        return None if self.columns <= WRITTEN_CELLS else super().distance_profile(norm)

    def pair_distances(self, norm: Norm) -> tuple[Array, Indices | None, int]:
        """Distances of all pairs of different columns, from A^T A on these."""
        if norm == "linf":
            return super().pair_distances(norm)
        check_entries("the distances of all pairs of cells", (self.columns, self.columns))
        grams = [
            kronecker.product(
                q.gram(np.ones(q.shape[0])) if asked else np.ones((1, 1))
                for q, asked in zip(part, self._asked, strict=True)
            )
            for part in self._parts
        ]
        distances, place, exponent = distances_of_counts(
            differing_queries(np.asarray(sum(grams))), norm
        )
        kept = [n if asked else 1 for n, asked in zip(self.sizes, self._asked, strict=True)]
        numbers = np.arange(self.columns) if place is None else place
        cell_of = np.broadcast_to(numbers.reshape(kept), self.sizes).ravel()
        return distances, None if len(distances) == self.cells else cell_of, exponent

    @property
    def _asked(self) -> list[bool]:
        """Of which attributes more than the total is asked."""
        return [not all(map(asks_total, queries)) for queries in zip(*self._parts, strict=True)]

    def _longest(self, norm: Norm) -> float:
        longest = float(self._counts.max())
        return longest if norm == "l1" else root_above(longest)

    def _farthest(self, norm: Norm) -> float:
        return self._apart if norm == "l1" else root_above(self._apart)

    @cached_property
    def _counts(self) -> Array:
        """In how many queries each cell is."""
        each = [kronecker.outer([q.column_squares() for q in part]) for part in self._parts]
        return np.asarray(sum(each))

    @cached_property
    def _apart(self) -> float:
        """In how many queries two cells differ, at most."""
        along = int(np.argmax(self.sizes))
        others = self.shape[1] // self.sizes[along]
        held = len(self._parts) * others**2
        if self.shape[1] ** 2 <= PAIRED_CELLS and held <= HELD_ENTRIES:
            return self._largest_difference(along)
        each = [
            diameter_of_product([factor.to_dense() for factor in part], None, "l1")
            for part in self._parts
        ]
        return min(math.fsum(each), float(np.sort(self._counts)[-2:].sum()))

    def _largest_difference(self, along: int) -> float:
        """The same, exactly, from all pairs of cells."""
        grams = [[factor.gram(np.ones(factor.shape[0])) for factor in p] for p in self._parts]
        free = np.stack([part.pop(along) for part in grams])
        held = np.stack([kronecker.product(part).ravel() for part in grams])
        table = np.moveaxis(self._counts.reshape(self.sizes), along, 0).reshape(len(free[0]), -1)
        largest = 0.0
        for a, b in itertools.combinations_with_replacement(range(len(table)), 2):
            shared = (-2 * free[:, a, b] @ held).reshape(table.shape[1], -1)
            shared += table[a][:, None]
            shared += table[b]
            largest = max(largest, float(shared.max()))
        return largest


def union_queries(workload: Workload) -> UnionQueries | None:
    """The queries of a union of products; None without this structure, or with too large a one."""
    parts = products_over(workload, workload.domain) if len(workload.domain) > 1 else None
    if parts is None or len(parts) < 2 or not workload.binary:
        return None
    alike = _in_blocks(parts)
    return None if alike is None else UnionQueries(workload, parts, alike)


def _in_blocks(parts: Parts) -> BlockStrategy | None:
    """A strategy of blocks of the same Gram matrix as the parts together."""
    every = list(zip(*parts, strict=True))
    if any(math.prod(factor.shape) > WRITTEN_ENTRIES for part in parts for factor in part):
        return None
    spaces = [_common(queries) for queries in every]
    mixed = [j for j, found in enumerate(spaces) if found is None]
    if len(mixed) > 1:
        return None
    numbers = [len(found[1][0]) if found else 1 for found in spaces]
    costs = [
        math.prod(numbers[:j] + numbers[j + 1 :]) * queries[0].shape[1] ** 3
        for j, queries in enumerate(every)
    ]
    index = mixed[0] if mixed else int(np.argmin(costs))
    if costs[index] > BLOCKS_COST:
        return None
    others = [found for j, found in enumerate(spaces) if j != index and found is not None]
    values = [kronecker.outer(rows) for rows in zip(*(found[1] for found in others), strict=True)]
    shares = np.sqrt(np.stack(values))
    asked = shares.any(axis=0)
    labels = [found[0].labels for found in others]
    pattern = np.where(asked, np.cumsum(asked) - 1, -1)
    combinations = pattern.reshape([len(found[1][0]) for found in others])[np.ix_(*labels)]
    triangles = [_triangle(factor.to_dense()) for factor in every[index]]
    blocks = [
        _block(np.vstack([c * T for c, T in zip(column, triangles, strict=True)]))
        for column in shares.T[asked]
    ]
    return BlockStrategy(
        "workload", index, [found[0].vectors for found in others], combinations, blocks
    )


def _common(queries: Sequence[Workload]) -> tuple[Eigenspaces, Array] | None:
    """Common eigenspaces, and the eigenvalues of every Gram matrix, shape (parts, spaces)."""
    found = common_eigenspaces(queries)
    if found is None:
        return None
    spaces = found[0]
    values = []
    for factor in queries:
        squares = (factor.matvec(spaces.vectors) ** 2).sum(axis=0)
        means = squares @ spaces.members / spaces.members.sum(axis=0)
        none = means <= NONE * means.max()
        least = float(means[~none].min())
        turned = spaces.vectors.T @ factor.gram(np.ones(factor.shape[0])) @ spaces.vectors
        off = np.abs(turned - np.diag(means[spaces.labels])).max()
        if least < LEAST_CONDITION * means.max() or off > TURNED * least:
            return None
        values.append(np.where(none, 0.0, means))
    return spaces, np.stack(values)


def _triangle(matrix: Array) -> Array:
    """A matrix of as many rows as columns at most, of the same Gram matrix."""
    rows, cells = matrix.shape
    return matrix if rows <= cells else np.asarray(scipy.linalg.qr(matrix, mode="r")[0][:cells])


def _block(matrix: Array) -> Strategy:
    """A strategy of full row rank, of the same Gram matrix as this one."""
    _, values, rows = np.linalg.svd(matrix, full_matrices=False)
    kept = values > RANK_CUTOFF * values[0]
    values, rows = values[kept], rows[kept]
    return Strategy("workload", values[:, None] * rows, rows.T / values)


@free_vector.register
def _(strategy: UnionQueries) -> Array:
    """(A^T A)^+ 1, shape (n,)."""
    return free_vector(strategy._alike)
