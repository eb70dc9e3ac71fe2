"""Workloads of marginals: tables of counts by some of the attributes.

The domain has attributes 0 ... d - 1 of sizes n_1 ... n_d, one cell for each combination of their
values, the last attribute fastest (as in np.kron). The marginal of a set S of attributes has a
query for each combination of the values of those in S, in the same order; it sums the cells with
these values, times the marginal's weight c_S. Queries come marginal by marginal. As a matrix,

    A_S = c_S (x)_i (I if i in S, else 1^T),

which is formed for small domains only: the solver (`pmldesign_solvers.norm.marginals`) never needs
it. With x as a tensor, A_S x sums over the axes outside S, and A_S^T repeats along them. The Gram
matrix, as a tensor of two cells, gets c_S^2 u where the cells agree on S.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from string import ascii_letters
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmldesign.arguments import real_numbers
from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import check_entries
from pmldesign.workloads.ranges import RangeWorkload
from pmldesign.workloads.tables.base import (
    AttributeTables,
    attribute_sets,
    attribute_sizes,
    counts_of,
    positive_weights,
)
from pmldesign_solvers.operators.operator import EPS, Array


class MarginalsWorkload(AttributeTables):
    """The marginals of some sets of attributes.

    Args:
        sizes: number of values of each attribute, from 1 to MAX_SIZE.
        subsets: the attributes (from 0) of each marginal, in any order; () is the total.
        weights: c_S > 0 for each marginal; None for 1.
        name: what messages and tables call it.

    Raises:
        InvalidInputError: no attribute or no marginal, over MAX_SETS of them, a size or an
            attribute out of its range, a repeated one, or weights that are not positive and finite.
    """

    between = ", "

    def __init__(
        self,
        sizes: Sequence[int],
        subsets: Iterable[Iterable[int]],
        weights: ArrayLike | None = None,
        *,
        name: str = "marginals",
    ) -> None:
        self.name = name
        self.sizes = attribute_sizes(sizes)
        self.subsets = attribute_sets("marginal", subsets, len(self.sizes))
        ones = np.ones(len(self.subsets))
        self.weights = positive_weights("marginal", ones if weights is None else weights, len(ones))
        self._values: dict[int, RangeWorkload] = {}

    def queries_on(self, attribute: int) -> RangeWorkload:
        """The count of each value."""
        if attribute not in self._values:
            self._values[attribute] = counts_of(self.sizes[attribute])
        return self._values[attribute]

    def queries_of(self, number: int) -> tuple[RangeWorkload, ...]:
        """The counts of the values of its attributes."""
        return tuple(map(self.queries_on, self.subsets[number]))

    def asked_of(self, number: int) -> tuple[int, ...]:
        """The number of values of each attribute of table `number`."""
        return tuple(self.sizes[i] for i in self.subsets[number])

    def reweighted(self, scales: Array) -> MarginalsWorkload:
        """The same with each marginal times its scale, shape (K,)."""
        return MarginalsWorkload(self.sizes, self.subsets, scales * self.weights)

    @property
    def distinct_shape(self) -> tuple[int, int]:
        """Number of distinct queries, and of cells that some query tells apart."""
        wide = [tuple(i for i in subset if self.sizes[i] > 1) for subset in self.subsets]
        distinct = set(zip(wide, self.weights.tolist(), strict=True))
        used = set().union(*wide)
        return (
            sum(math.prod(self.sizes[i] for i in subset) for subset, _ in distinct),
            math.prod(self.sizes[i] for i in used),
        )

    def gram(self, weights: Array) -> Array:
        """A^T diag(weights) A, shape (n, n), for weights of shape (m,); refused if too large."""
        n = self.shape[1]
        check_entries(f"the Gram matrix of {self.name}", (n, n))
        total = np.zeros((n, n))
        for subset, scale, part in zip(
            self.subsets, self.weights, self.split(weights), strict=True
        ):
            view, table = self._agreeing(total, subset)
            view += scale**2 * part.reshape(table + (1,) * (view.ndim - len(table)))
        return total

    def row_quadratic(self, matrix: Array) -> Array:
        """diag(A X A^T), shape (m,), for a symmetric matrix X of shape (n, n)."""
        values = []
        for subset, scale in zip(self.subsets, self.weights, strict=True):
            view, table = self._agreeing(matrix, subset)
            sums = view.sum(axis=tuple(range(len(table), view.ndim)))
            values.append(scale**2 * np.ravel(sums))
        return np.concatenate(values)

    def column_squares(self) -> Array:
        """diag(A^T A), shape (n,): sum_S c_S^2 for every cell; refused if too large."""
        check_entries(f"the cells of {self.name}", (self.shape[1], 1))
        return np.full(self.shape[1], float(self.weights @ self.weights))

    def longest_column(self) -> float:
        """Largest squared norm of a column, rounded up; there may be any number of cells."""
        return float(self.weights @ self.weights) * (1 + len(self.weights) * EPS)

    def longest_difference(self) -> float:
        """Largest squared distance of two columns, rounded up: of cells that differ in all."""
        wide = [any(self.sizes[i] > 1 for i in subset) for subset in self.subsets]
        squares = float((self.weights**2).sum(where=wide))
        return 2 * squares * (1 + len(self.weights) * EPS)

    def matvec(self, x: Array) -> Array:
        """A x, for x of shape (n,) or (n, c)."""
        axes, sizes = self._axes()
        tensor = x.reshape(*sizes, *x.shape[1:])
        answers = []
        for subset, scale in zip(self.subsets, self.weights, strict=True):
            kept = [axes[i] for i in subset if i in axes]
            sums = tensor.sum(axis=tuple(set(range(len(sizes))) - set(kept)))
            answers.append(scale * sums.reshape(-1, *x.shape[1:]))
        return np.concatenate(answers)

    def rmatvec(self, y: Array) -> Array:
        """A^T y, for y of shape (m,) or (m, c); refused if too large."""
        check_entries(f"the histogram of {self.name}", (self.shape[1], math.prod(y.shape[1:])))
        axes, sizes = self._axes()
        total = np.zeros((*sizes, *y.shape[1:]))
        for subset, scale, part in zip(self.subsets, self.weights, self.split(y), strict=True):
            table = [1] * len(sizes)
            for i in subset:
                if i in axes:
                    table[axes[i]] = self.sizes[i]
            total += scale * part.reshape(*table, *y.shape[1:])
        return total.reshape(-1, *y.shape[1:])

    def row_sizes(self) -> Array:
        """Largest absolute entry of every row, shape (m,)."""
        return np.repeat(self.weights, self.table_queries)

    def to_dense(self) -> Array:
        """The matrix itself, shape (m, n); refused if too large."""
        check_entries(self.name, self.shape)
        axes, sizes = self._axes()
        dense = np.zeros(self.shape)
        cells = np.arange(self.shape[1]).reshape(sizes)
        for subset, scale, rows in zip(self.subsets, self.weights, self.split(dense), strict=True):
            kept = [axes[i] for i in subset if i in axes]
            queries = np.moveaxis(cells, kept, range(len(kept))).reshape(len(rows), -1)
            np.put_along_axis(rows, queries, scale, axis=1)
        return dense

    def _words(self, number: int, place: int, row: int) -> str:  # noqa: ARG002 - alike for all
        return f"is {row}"

    def tables(self, records: ArrayLike) -> Iterator[Array]:
        """The exact answers for records, marginal by marginal, whatever the size of the domain.

        Args:
            records: whole numbers of shape (N, d), the value of each attribute, from 0.

        Raises:
            InvalidInputError: another shape or type, a value out of its range, or a table with more
                than MAX_ENTRIES cells.
        """
        values = self._records(records)
        for subset, scale, cells in zip(
            self.subsets, self.weights, self.table_queries, strict=True
        ):
            check_entries(f"the table of attributes {subset}", (1, cells))
            place = np.zeros(len(values), dtype=np.intp)
            for i in subset:
                place = place * self.sizes[i] + values[:, i]
            yield scale * np.bincount(place, minlength=cells)

    def _records(self, records: ArrayLike) -> NDArray[np.integer[Any]]:
        values = real_numbers("records", records)
        if values.dtype.kind not in "iu" or values.shape[1:] != (len(self.sizes),):
            raise InvalidInputError(
                f"records are whole numbers of shape (N, {len(self.sizes)}), one column for each "
                f"attribute; got {values.dtype} of shape {values.shape}"
            )
        wrong = (values < 0) | (values >= np.array(self.sizes))
        if wrong.any():
            record, attribute = np.argwhere(wrong)[0]
            raise InvalidInputError(
                f"attribute {attribute} has the values 0 to {self.sizes[attribute] - 1}, record "
                f"{record} has {values[record, attribute]}"
            )
        return values

    def _axes(self) -> tuple[dict[int, int], tuple[int, ...]]:
        """The axis of each attribute of a tensor of cells, and its shape.

        Attributes with one value have no axis, for numpy allows 64; but one axis there is.
        """
        wide = [i for i, size in enumerate(self.sizes) if size > 1] or [0]
        return {i: axis for axis, i in enumerate(wide)}, tuple(self.sizes[i] for i in wide)

    def _agreeing(self, matrix: Array, subset: tuple[int, ...]) -> tuple[Array, tuple[int, ...]]:
        """A view of the entries (j, j') of two cells that agree on a subset, and its table.

        Its first axes are those of the table, the others those of j and then of j'.
        """
        axes, sizes = self._axes()
        kept = [axes[i] for i in subset if i in axes]
        first = ascii_letters[: len(sizes)]
        second = [
            first[axis] if axis in kept else ascii_letters[axis + len(sizes)]
            for axis in range(len(sizes))
        ]
        table = [first[axis] for axis in kept]
        others = [axis for axis in (*first, *second) if axis not in table]
        labels = "".join((*first, *second, "->", *table, *others))
        return np.einsum(labels, matrix.reshape(sizes + sizes)), tuple(sizes[a] for a in kept)


class FromMarginals(AttributeTables):
    """Tables of which each is asked for queries Q_T on its cells, whose counts are marginals.

    One set of attributes may have several tables.
    """

    @abstractmethod
    def spread(self, number: int, answers: Array) -> Array:
        """Q_T^T y for answers y of table `number`, shape (m_T,) or (m_T, c)."""

    @cached_property
    def _counts(self) -> MarginalsWorkload:
        return MarginalsWorkload(self.sizes, dict.fromkeys(self.subsets), name=self.name)

    @cached_property
    def _place(self) -> list[int]:
        """Which marginal each table is asked of."""
        places = {subset: place for place, subset in enumerate(self._counts.subsets)}
        return [places[subset] for subset in self.subsets]

    @property
    def distinct_shape(self) -> tuple[int, int]:
        """Number of queries, and of cells that some query may tell apart."""
        used = set().union(*self.subsets)
        return self.shape[0], math.prod(self.sizes[i] for i in used)

    def matvec(self, x: Array) -> Array:
        """A x, for x of shape (n,) or (n, c)."""
        return np.concatenate([*self._answers(self._counts.split(self._counts.matvec(x)))])

    def rmatvec(self, y: Array) -> Array:
        """A^T y, for y of shape (m,) or (m, c); refused if too large."""
        tables = self._counts.split(np.zeros((self._counts.shape[0], *y.shape[1:])))
        pairs = zip(self.weights.tolist(), self.split(y), strict=True)
        for number, (scale, part) in enumerate(pairs):
            tables[self._place[number]] += scale * self.spread(number, part)
        return self._counts.rmatvec(np.concatenate(tables))

    def tables(self, records: ArrayLike) -> Iterator[Array]:
        """The exact answers for records, table by table, as `MarginalsWorkload.tables`."""
        yield from self._answers([*self._counts.tables(records)])

    def _answers(self, counts: Sequence[Array]) -> Iterator[Array]:
        for number, scale in enumerate(self.weights.tolist()):
            yield scale * self.ask(number, counts[self._place[number]])
