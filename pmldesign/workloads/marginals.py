"""Workloads of marginals: tables of counts by some of the attributes.

The domain has attributes 0 ... d - 1 of sizes n_1 ... n_d, one cell for each combination of their
values, the last attribute fastest (as in np.kron). The marginal of a set S of attributes has a
query for each combination of the values of those in S, in the same order; it sums the cells with
these values, times the marginal's weight c_S. Queries come marginal by marginal. As a matrix,

    A_S = c_S (x)_i (I if i in S, else 1^T),

which is formed for small domains only: the solver (`pmldesign_solvers.marginals`) never needs it.
With x as a tensor, A_S x sums over the axes outside S, and A_S^T repeats along them. The Gram
matrix, as a tensor of two cells, gets c_S^2 u where the cells agree on S.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from numbers import Integral
from string import ascii_letters

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.base import Workload, check_entries
from pmldesign_solvers.operators import Array

MAX_SIZE = 2**53
"""Values of an attribute: beyond, float64 cannot count them."""
MAX_MARGINALS = 2**20
MAX_CELLS = 10**1000


class MarginalsWorkload(Workload):
    """The marginals of some sets of attributes.

    Args:
        sizes: number of values of each attribute, from 1 to MAX_SIZE.
        subsets: the attributes (from 0) of each marginal, in any order; () is the total.
        weights: c_S > 0 for each marginal; None for 1.
        name: what messages and tables call it.

    Attributes:
        sizes: n_1 ... n_d.
        subsets: the attributes of each marginal, in increasing order.
        weights: c_S, shape (K,), read-only.
        marginal_cells: the number of queries m_S of each marginal.

    Raises:
        InvalidInputError: no attribute or no marginal, over MAX_MARGINALS of them, a size or an
            attribute out of its range, a repeated one, or weights that are not positive and finite.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        subsets: Iterable[Iterable[int]],
        weights: ArrayLike | None = None,
        *,
        name: str = "marginals",
    ) -> None:
        self.name = name
        self.sizes = _sizes(sizes)
        self.subsets = _subsets(subsets, len(self.sizes))
        self.weights = _weights(weights, self.subsets)
        self.marginal_cells = tuple(
            math.prod(self.sizes[i] for i in subset) for subset in self.subsets
        )
        self._stops = list(accumulate(self.marginal_cells))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries m and of cells n, as large as they may be."""
        return self._stops[-1], math.prod(self.sizes)

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
            self.subsets, self.weights, self._parts(weights), strict=True
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
        for subset, scale, part in zip(self.subsets, self.weights, self._parts(y), strict=True):
            table = [1] * len(sizes)
            for i in subset:
                if i in axes:
                    table[axes[i]] = self.sizes[i]
            total += scale * part.reshape(*table, *y.shape[1:])
        return total.reshape(-1, *y.shape[1:])

    def to_dense(self) -> Array:
        """The matrix itself, shape (m, n); refused if too large."""
        check_entries(self.name, self.shape)
        axes, sizes = self._axes()
        dense = np.zeros(self.shape)
        cells = np.arange(self.shape[1]).reshape(sizes)
        for subset, scale, rows in zip(self.subsets, self.weights, self._parts(dense), strict=True):
            kept = [axes[i] for i in subset if i in axes]
            queries = np.moveaxis(cells, kept, range(len(kept))).reshape(len(rows), -1)
            np.put_along_axis(rows, queries, scale, axis=1)
        return dense

    def row_label(self, index: int) -> str:
        """What query `index` counts: "row 5 (attribute 0 is 1, attribute 2 is 1)"."""
        marginal = bisect_right(self._stops, index)
        rest = index - self._stops[marginal] + self.marginal_cells[marginal]
        values = []
        for i in reversed(self.subsets[marginal]):
            rest, value = divmod(rest, self.sizes[i])
            values.append(f"attribute {i} is {value}")
        return f"row {index} ({', '.join(reversed(values)) or 'total'})"

    def _axes(self) -> tuple[dict[int, int], tuple[int, ...]]:
        """The axis of each attribute of a tensor of cells, and its shape.

        Attributes with one value have no axis, for numpy allows 64; but one axis there is.
        """
        wide = [i for i, size in enumerate(self.sizes) if size > 1] or [0]
        return {i: axis for axis, i in enumerate(wide)}, tuple(self.sizes[i] for i in wide)

    def _parts(self, values: Array) -> list[Array]:
        """Views of the rows of each marginal."""
        return [
            values[stop - cells : stop]
            for stop, cells in zip(self._stops, self.marginal_cells, strict=True)
        ]

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


def _sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    if not len(sizes):
        raise InvalidInputError("marginals need at least one attribute, got no sizes")
    for attribute, size in enumerate(sizes):
        whole = isinstance(size, Integral) and not isinstance(size, bool)
        if not whole or not 1 <= size <= MAX_SIZE:
            raise InvalidInputError(
                f"the size of attribute {attribute} must be a whole number from 1 to {MAX_SIZE}, "
                f"got {size!r}"
            )
    kept = tuple(int(size) for size in sizes)
    if math.prod(kept) > MAX_CELLS:
        raise InvalidInputError(
            f"the {len(kept)} attributes have over 10^1000 cells together; leave some out"
        )
    return kept


def _subsets(subsets: Iterable[Iterable[int]], attributes: int) -> tuple[tuple[int, ...], ...]:
    found: dict[tuple[int, ...], int] = {}
    for number, members in enumerate(subsets):
        given = tuple(members)
        try:
            subset = tuple(sorted(map(operator.index, given)))
        except TypeError:
            subset = (-1,)
        if subset and not 0 <= subset[0] <= subset[-1] < attributes:
            raise InvalidInputError(
                f"marginal {number} has the attributes {given}; attributes are whole numbers from "
                f"0 to {attributes - 1}"
            )
        if len(set(subset)) < len(subset):
            raise InvalidInputError(f"marginal {number} names an attribute twice: {given}")
        if subset in found:
            raise InvalidInputError(
                f"marginals {found[subset]} and {number} are the same, {subset}; give it once, "
                "with a larger weight if it counts more"
            )
        found[subset] = number
    if not found or len(found) > MAX_MARGINALS:
        raise InvalidInputError(
            f"a workload has from 1 to {MAX_MARGINALS} marginals, got {len(found)}"
        )
    return tuple(found)


def _weights(weights: ArrayLike | None, subsets: Sequence[tuple[int, ...]]) -> Array:
    kept = np.ones(len(subsets)) if weights is None else np.array(weights, dtype=np.float64)
    if kept.shape != (len(subsets),):
        raise InvalidInputError(
            f"there is one weight for each of the {len(subsets)} marginals, got shape {kept.shape}"
        )
    wrong = np.flatnonzero(~((kept > 0) & np.isfinite(kept)))
    if wrong.size:
        raise InvalidInputError(
            f"the weight of marginal {wrong[0]} must be positive and finite, got {kept[wrong[0]]}"
        )
    kept.flags.writeable = False
    return kept
