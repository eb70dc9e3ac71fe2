r"""Measurements of each attribute by tables at regions: its values, or coordinates of their own.

Of an ordered attribute the rows Y are measured, n - 1 of them, and [1^T; Y] has the inverse
(v, Psi); for a categorical one v = 1/n and Psi Psi^T = (1 - 1 1^T/n)/n give its values and their
contrasts. In coordinates that are sums and contrasts along plain attributes, and 1^T x and Y x
along ordered ones, the table over T is a count of the residual spaces of the S within T that have
the same ordered attributes. A query (x)_T a_i has

    prod_{i in S} |a_i^T Psi_i|^2 prod_{i in T, not in S} (a_i^T v_i)^2

of the variance of S, times that of every S within T.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from pmldesign.privacy.neighbours import Norm
from pmldesign.strategies.residuals import contrasts, expand
from pmldesign.workloads.base import Workload
from pmldesign.workloads.nested.tables import Table, along_axes, table_distances
from pmldesign_solvers.operators.operator import Array, Indices, power_mean
from pmldesign_solvers.structure import kronecker
from pmldesign_solvers.tables.free_vector import Measured
from pmldesign_solvers.trees.spaces import Spaces, ordered_spaces, spaces_of

MOST_ANSWERS = 128
"""Maximum number of different answers to an attribute that the search for shares distinguishes."""


class Coordinates:
    """The coordinates of all attributes.

    Args:
        sizes: number of values of each attribute.
        ordered: Y of each ordered attribute, and its inverse.
    """

    def __init__(self, sizes: tuple[int, ...], ordered: Mapping[int, Measured]) -> None:
        self.sizes, self.ordered = sizes, dict(ordered)
        self.plain = math.prod(n for i, n in enumerate(sizes) if i not in ordered)

    def rows(self, table: Table) -> int:
        """The number of rows of a table at a region."""
        return math.prod(self.sizes[i] - (i in self.ordered) for i in table)

    def measure(self, table: Table, counts: Array) -> Array:
        """The measured coordinates of a table, from its counts, shape (k, m_T) or (k, m_T, c)."""
        maps = [self.ordered[i].rows.__matmul__ if i in self.ordered else None for i in table]
        return along_axes(maps, [self.sizes[i] for i in table], counts)

    def spread(self, table: Table, rows: Array) -> tuple[tuple[slice, ...], Array]:
        """Where the coordinates that a table counts are, and rows, shape (k, r, c), along these."""
        axes = [self.sizes[i] - (i in self.ordered) if i in table else 1 for i in self._all]
        ends = slice(1), slice(1, None)
        own = tuple(ends[i in table] if i in self.ordered else slice(None) for i in self._all)
        return (slice(None), *own), rows.reshape(len(rows), *axes, rows.shape[-1])

    def forward(self, own: Array) -> Array:
        """Sums and contrasts along plain attributes, for shape (k, n_1, ..., n_d, c)."""
        return self._along([None if i in self.ordered else _contrasts for i in self._all], own)

    def backward(self, found: Array) -> Array:
        """Cells from coordinates."""
        maps = [
            self.ordered[i].inverse.__matmul__ if i in self.ordered else expand for i in self._all
        ]
        return self._along(maps, found)

    def of_spaces(self, residuals: Sequence[tuple[int, ...]]) -> Indices:
        """The numbers of the coordinates of residual spaces, among those of a leaf."""
        numbers = np.arange(math.prod(self.sizes)).reshape(self.sizes)
        within = [
            tuple(slice(1, None) if i in S else slice(1) for i in self._all) for S in residuals
        ]
        return np.concatenate([numbers[place].ravel() for place in within])

    def free(self) -> Array:
        """The covariance of each value's cell with the total, as parts of the whole's, (cells,)."""
        parts = [
            self.ordered[i].inverse[:, 0] if i in self.ordered else np.full(n, 1 / n)
            for i, n in enumerate(self.sizes)
        ]
        return kronecker.outer(parts)

    def spaces(
        self,
        tables: Sequence[Table],
        queries: Mapping[int, Workload],
        p: float = 2.0,
        *,
        apart: bool = False,
    ) -> Spaces:
        """The spaces of tables, and what answers to queries have of their variances."""
        if not (self.ordered or queries):
            return spaces_of(self.sizes, tables, apart=apart)
        numbers = {}
        for i in {*self.ordered, *queries}:
            alike = 1.0 if i in self.ordered else self.sizes[i] ** (2.0 - 2.0 / p)  # `as_one`
            off, on = _classes(*self.asked(i, queries.get(i)), p)
            numbers[i] = off * alike, on * alike
        return ordered_spaces(self.sizes, tables, numbers, self.ordered)

    def asked(self, attribute: int, queries: Workload | None) -> tuple[Array, Array]:
        """(a^T v)^2 and |a^T Psi|^2 of the queries on an attribute, each of shape (m,)."""
        n = self.sizes[attribute]
        if attribute in self.ordered:
            inverse = self.ordered[attribute].inverse
            image = inverse if queries is None else queries.matvec(inverse)
            return image[:, 0] ** 2, (image[:, 1:] ** 2).sum(axis=1)
        if queries is None:
            return np.full(n, n**-2.0), np.full(n, (n - 1) / n**2)
        sums = queries.matvec(np.ones(n))
        squares = queries.weighted_squares(np.ones(n))
        return (sums / n) ** 2, np.maximum(squares - sums**2 / n, 0.0) / n

    def shares(
        self, table: Table, queries: Mapping[int, Workload], residuals: Sequence[Sequence[Table]]
    ) -> Array:
        """What every answer of a table has of the variances of kinds of spaces, (kinds, m_T)."""
        asked = [self.asked(i, queries.get(i)) for i in table]
        values = np.zeros((len(residuals), math.prod(len(off) for off, _ in asked)))
        for row, kind in zip(values, residuals, strict=True):
            for S in kind:
                if set(S) <= set(table):
                    pairs = zip(table, asked, strict=True)
                    row += kronecker.outer([parts[i in S] for i, parts in pairs])
        return values

    def distances(self, tables: Sequence[Table], norm: Norm) -> tuple[Array, Array]:
        """How long columns of tables are and how far apart, as `table_distances`."""
        ends = {}
        for i, part in self.ordered.items():
            if norm == "l2":
                gram = part.rows.T @ part.rows
                ends[i] = float(gram.diagonal().max()), float(gram.min())
            else:
                longest = float(np.abs(part.rows).sum(axis=0).max())
                ends[i] = longest, -longest
        lengths, apart = table_distances(self.sizes, tables, ends)
        return lengths, apart if norm == "l2" else np.minimum(apart, 2.0)

    @property
    def _all(self) -> range:
        return range(len(self.sizes))

    def _along(self, maps: Sequence[kronecker.Map | None], values: Array) -> Array:
        flat = values.reshape(len(values), -1, values.shape[-1])
        return along_axes(maps, self.sizes, flat).reshape(values.shape)


def _classes(off: Array, on: Array, p: float) -> tuple[Array, Array]:
    """Different answers with how often they come, as parts of variances.

    At p = 2, and if there are many, one replaces all: an upper bound, by Minkowski.
    """
    pairs, counts = np.unique(np.column_stack([off, on]), axis=0, return_counts=True)
    if p == 2 or len(pairs) > MOST_ANSWERS:
        sums = [power_mean(part, p / 2, counts.astype(np.float64)) for part in pairs.T]
        return np.array(sums[:1]), np.array(sums[1:])
    off, on = pairs.T * counts ** (2.0 / p)
    return off, on


def _contrasts(x: Array) -> Array:
    """The sum and the contrasts of every column, times N^(1/2) in all: `expand` undoes it."""
    return np.vstack([x.sum(axis=0), contrasts(x)])
