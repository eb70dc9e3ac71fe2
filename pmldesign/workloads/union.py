"""Unions of workloads: the queries of several workloads on the same cells, one below the other.

A^T diag(u) A is the sum of the parts' Gram matrices, diag(A X A^T) their diagonals in turn. Where
every part is a product over the same attributes, A = [A_11 x ... x A_1k; A_21 x ... x A_2k; ...],
the union keeps the factors: `sizes` has the cells of each attribute, `attribute(i)` all queries
asked about attribute i, A_1i; A_2i; ... .
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.display import count_text
from pmldesign.workloads.kronecker import MERGED_ENTRIES, KroneckerWorkload
from pmldesign.workloads.tables.base import AttributeTables, asks_counts, asks_total, total_of
from pmldesign.workloads.tables.marginals import MarginalsWorkload
from pmldesign.workloads.tables.workload import TablesWorkload
from pmldesign.workloads.weighting import without_scale
from pmldesign_solvers.limits import WRITTEN_CELLS
from pmldesign_solvers.operators.dense import DenseOperator
from pmldesign_solvers.operators.operator import EPS, Array, Merged

MAX_MARGINALS = 1000
"""Most tables of one part that are looked at one by one."""


class UnionWorkload(Workload):
    """The queries of several workloads, one below the other.

    Args:
        parts: at least two workloads on the same number of cells, in the order of the rows; unions
            among them are flattened.
        name: what messages and tables call it; by default the parts' names joined by "+".

    Raises:
        InvalidInputError: fewer than two parts, or different numbers of cells.
    """

    def __init__(self, parts: Sequence[Workload], *, name: str | None = None) -> None:
        self.parts: tuple[Workload, ...] = tuple(
            piece
            for part in parts
            for piece in (part.parts if isinstance(part, UnionWorkload) else (part,))
        )
        if len(self.parts) < 2:
            raise InvalidInputError(f"a union needs at least two workloads, got {len(self.parts)}")
        self.name = "+".join(part.name for part in self.parts) if name is None else name
        cells = self.parts[0].shape[1]
        for part in self.parts[1:]:
            if part.shape[1] != cells:
                raise InvalidInputError(
                    f"the parts of a union ask about the same cells; {self.parts[0].name!r} has "
                    f"{count_text(cells)} cells, {part.name!r} has {count_text(part.shape[1])}"
                )
        self.binary = all(part.binary for part in self.parts)
        self._stops = np.cumsum([part.shape[0] for part in self.parts])
        self._shape = int(self._stops[-1]), cells

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells of each attribute; only the number of cells if it is no union of products."""
        sizes = _sizes(self.parts[0])
        return (self.shape[1],) if products_over(self, sizes) is None else sizes

    @property
    def domain(self) -> tuple[int, ...]:
        """The sizes of the attributes of all parts."""
        return self.sizes

    @property
    def non_negative(self) -> bool:
        """Whether all parts are."""
        return all(part.non_negative for part in self.parts)

    @property
    def part_names(self) -> Sequence[str]:
        """The names of the parts."""
        return [part.name for part in self.parts]

    @property
    def part_queries(self) -> Sequence[int]:
        """The number of queries of each part."""
        return [part.shape[0] for part in self.parts]

    def times(self, weights: Array | float) -> UnionWorkload:
        """Each part with its weights."""
        split = [weights] * len(self.parts) if isinstance(weights, float) else self._split(weights)
        return self.times_parts(split)

    def times_parts(self, weights: Sequence[Array | float]) -> UnionWorkload:
        """Each part with its weight, or its weights."""
        pairs = zip(self.parts, weights, strict=True)
        return UnionWorkload([part.times(weight) for part, weight in pairs])

    def attribute(self, index: int) -> Workload:
        """All queries on attribute `index`: the factors of the parts there.

        Of factors with as many queries and the same Gram matrix only the first one counts.

        Raises:
            InvalidInputError: a Gram matrix is too large to be written out.
        """
        sizes = self.sizes
        parts = products_over(self, sizes)
        if len(sizes) == 1 or parts is None:
            return self
        distinct: dict[tuple[int, bytes], Workload] = {}
        for part in parts:
            factor = part[index]
            m, n = factor.shape
            check_entries(f"the Gram matrix of {factor.name}", (n, n))
            distinct.setdefault((m, factor.gram(np.ones(m)).tobytes()), factor)
        return together(list(distinct.values()))

    def gram(self, weights: Array) -> Array:
        """A^T diag(weights) A, shape (n, n), for weights of shape (m,)."""
        pairs = zip(self.parts, self._split(weights), strict=True)
        return np.asarray(sum(part.gram(part_weights) for part, part_weights in pairs))

    def row_quadratic(self, matrix: Array) -> Array:
        """diag(A X A^T), shape (m,), for a symmetric matrix X of shape (n, n)."""
        return np.concatenate([part.row_quadratic(matrix) for part in self.parts])

    def row_norms(self, half: Array) -> Array:
        """diag(A H H^T A^T), shape (m,), for H of shape (n, c)."""
        return np.concatenate([part.row_norms(half) for part in self.parts])

    def weighted_squares(self, weights: Array) -> Array:
        """diag(A diag(w) A^T), shape (m,), for weights w >= 0 of shape (n,)."""
        return np.concatenate([part.weighted_squares(weights) for part in self.parts])

    def matvec(self, x: Array) -> Array:
        """A x, for x of shape (n,) or (n, c)."""
        return np.concatenate([part.matvec(x) for part in self.parts])

    def rmatvec(self, y: Array) -> Array:
        """A^T y, for y of shape (m,) or (m, c)."""
        pairs = zip(self.parts, self._split(y), strict=True)
        return np.asarray(sum(part.rmatvec(values) for part, values in pairs))

    def column_squares(self) -> Array:
        """diag(A^T A), shape (n,): the squared norms of the columns."""
        return np.asarray(sum(part.column_squares() for part in self.parts))

    def to_dense(self) -> Array:
        """The matrix itself, shape (m, n)."""
        check_entries(self.name, self.shape)
        return np.concatenate([part.to_dense() for part in self.parts])

    def longest_difference(self) -> float:
        """Largest squared distance of two columns, rounded up; for many cells a bound above it."""
        if self.shape[1] <= WRITTEN_CELLS:
            return super().longest_difference()
        return math.fsum(part.longest_difference() for part in self.parts) * (1 + 4 * EPS)

    def row_sizes(self) -> Array:
        """Largest absolute entry of every row, shape (m,)."""
        return np.concatenate([part.row_sizes() for part in self.parts])

    def without_offsets(self) -> tuple[UnionWorkload, Array]:
        """The same on vectors that sum to zero, part by part."""
        parts, left_out = zip(*(part.without_offsets() for part in self.parts), strict=True)
        if all(new is old for new, old in zip(parts, self.parts, strict=True)):
            return self, np.zeros(0)
        sizes = [part.shape[0] for part in self.parts]
        every = [
            rows if rows.size else np.zeros(m) for rows, m in zip(left_out, sizes, strict=True)
        ]
        return UnionWorkload(parts, name=self.name), np.concatenate(every)

    def merge(self) -> Merged:
        """The same workload without zero rows and columns, nor repeated ones if it is small.

        One with fewer queries than cells counts as small.
        """
        m, n = self.shape
        large = m * n > MERGED_ENTRIES and m >= n
        if large and self.row_sizes().all() and self.column_squares().all():
            return Merged(self, np.arange(m), np.arange(n))
        return DenseOperator(self.to_dense()).merge()

    def row_label(self, index: int) -> str:
        """The label of the part's row."""
        part = int(np.searchsorted(self._stops, index, side="right"))
        row = index - int(self._stops[part]) + self.parts[part].shape[0]
        return f"{self.parts[part].name} {self.parts[part].row_label(row)}"

    def _split(self, vector: Array) -> list[Array]:
        return np.split(vector, self._stops[:-1])


def together(parts: Sequence[Workload]) -> Workload:
    """The queries of all parts; of a single one, itself."""
    return parts[0] if len(parts) == 1 else UnionWorkload(parts)


def by_attribute(workload: Workload) -> tuple[Workload, ...]:
    """What a workload asks about each attribute; the workload itself if it has but one."""
    if isinstance(workload, UnionWorkload):
        return tuple(workload.attribute(index) for index in range(len(workload.sizes)))
    if isinstance(workload, AttributeTables) and workload.crossed:
        used = set().union(*workload.subsets)
        return tuple(
            workload.queries_on(i) if i in used else total_of(n)
            for i, n in enumerate(workload.sizes)
        )
    return workload.factors


def products_over(workload: Workload, sizes: Sequence[int]) -> list[tuple[Workload, ...]] | None:
    """The factors of every product that a workload consists of, in the order of the rows.

    None if it is no union of products over attributes of these sizes.
    """
    for parts in (stacked(workload), spread_out(workload)):
        lists = [products_of(part) for part in parts]
        products = [product for listed in lists for product in listed or ()]
        shapes = {tuple(factor.shape[1] for factor in product) for product in products}
        if None not in lists and shapes <= {tuple(sizes)}:
            return products
    return None


def spread_out(workload: Workload) -> Sequence[Workload]:
    """The products that a product is a union of, in the order of its rows: its first factor is one.

    Any other workload is made of those of `stacked`.
    """
    first, *others = workload.factors
    if not others or not isinstance(first, UnionWorkload):
        return stacked(workload)
    return [KroneckerWorkload([part, *others], name=part.name) for part in first.parts]


def tables_asked(workload: Workload) -> list[MarginalsWorkload] | None:
    """The tables of counts that a workload consists of, part by part; None if it has others."""
    return _all_marginals(stacked(workload))


def counts_asked(workload: Workload) -> MarginalsWorkload | None:
    """The marginals that a workload consists of; None if it has other queries, or any twice."""
    return as_marginals(stacked(workload))


def as_marginals(parts: Sequence[Workload]) -> MarginalsWorkload | None:
    """The union of workloads as one of marginals, if all are counts and totals of attributes.

    A marginal that occurs twice is not merged, as its queries count twice in the error.
    """
    tables = _all_marginals(parts)
    subsets = [subset for table in tables or () for subset in table.subsets]
    if tables is None or len(set(subsets)) < len(subsets):
        return None
    weights = np.concatenate([table.weights for table in tables])
    name = "+".join(part.name for part in parts)
    return MarginalsWorkload(tables[0].sizes, subsets, weights, name=name)


def _all_marginals(parts: Sequence[Workload]) -> list[MarginalsWorkload] | None:
    marginals = [_marginals(part) for part in parts]
    tables = [part for part in marginals if part is not None]
    fits = len(tables) == len(marginals) and len({part.sizes for part in tables}) == 1
    return tables if fits else None


def stacked(workload: Workload) -> Sequence[Workload]:
    """The workloads that a union is made of; any other is its only one."""
    return workload.parts if isinstance(workload, UnionWorkload) else (workload,)


def _sizes(part: Workload) -> tuple[int, ...]:
    if isinstance(part, AttributeTables):
        return part.sizes
    return tuple(attribute.shape[1] for attribute in by_attribute(part))


def products_of(part: Workload) -> list[tuple[Workload, ...]] | None:
    """The products that a part consists of: itself, or those of a few marginals."""
    if isinstance(part, AttributeTables):
        few = part.crossed and len(part.subsets) <= MAX_MARGINALS
        return part.products() if few else None
    return [part.factors]


def _marginals(part: Workload) -> MarginalsWorkload | None:
    if isinstance(part, MarginalsWorkload):
        return part
    if isinstance(part, TablesWorkload):
        return part.as_marginals() if part.is_plain else None
    if isinstance(part, AttributeTables):
        return None
    scale, factors = without_scale(part.factors)
    sizes = [factor.shape[1] for factor in factors]
    counted = []
    for i, factor in enumerate(factors):
        if asks_counts(factor):
            counted.append(i)
        elif not asks_total(factor):
            return None
    return MarginalsWorkload(sizes, [counted], [scale])
