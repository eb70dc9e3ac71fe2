"""The workload: the queries to answer.

A workload is an m x n matrix A; query i on a histogram x of n cells is (A x)_i. Solvers and
strategies never need the matrix itself, only products with it,
`gram(u) = A^T diag(u) A`, `row_quadratic(X) = diag(A X A^T)` and
`row_norms(H) = diag(A H H^T A^T)`, so that a workload with structure (ranges, products) can answer
without forming it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache, singledispatch
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.display import Displayed, Facts, count_text
from pmldesign.workloads.public import NOTHING, Public
from pmldesign_solvers.limits import GRAM_CELLS, MAX_ENTRIES
from pmldesign_solvers.operators.dense import ByMatrix
from pmldesign_solvers.operators.operator import EPS, Array, Indices, column_blocks

if TYPE_CHECKING:
    from pmldesign_solvers.streams.chain import RunningSums

LOOKED_AT = 2**22
"""Workloads of at most this many entries are materialized to find the signs of the entries."""


def check_entries(
    name: str, shape: tuple[int, int], *, remedy: str = "take a smaller workload"
) -> None:
    """Refuse a matrix that is too large to be materialized.

    Raises:
        InvalidInputError: it has more than MAX_ENTRIES entries.
    """
    m, n = shape
    if m * n > MAX_ENTRIES:
        raise InvalidInputError(
            f"{name} as a matrix has {count_text(m)} x {count_text(n)} entries "
            f"({Decimal(m * n) / 2**27:.3g} GiB), more than the "
            f"{MAX_ENTRIES} that are ever written out; {remedy}"
        )


class People(Protocol):
    """The attributes of people that form the cells (`releases.people.schema`)."""

    @property
    def participation(self) -> Any:
        """How many rows a person has in the cells; None for a single one."""

    @property
    def denominator(self) -> int:
        """D: a record adds integer multiples of 1/D to cells, in total 1; D = 1 without numbers."""

    @property
    def cells(self) -> int:
        """Number of cells."""


class Workload(Displayed, ByMatrix):
    """Queries on a histogram: facts about them, and the operations of solvers (`Operator`).

    Operations with few callers are functions in the modules of those callers
    (`functools.singledispatch`): weights (`weighting`), invariants (`beside`), files and statements
    for verification (`files`).

    Attributes:
        name: the user's name for it ("prefix:64", a file's name).
        binary: whether all entries are known to be 0 or 1.
        unweighted: the same queries without their weights; None if they have none.
        public: the invariants, which the queries leave out.
        schema: of the people in the cells, if the queries were written with their attributes;
            it belongs to the queries that include the invariants (`whole`).
    """

    name: str
    schema: People | None = None
    public: Public = NOTHING
    binary: bool = False
    unweighted: Workload | None = None
    _shape: tuple[int, int]
    _label: Callable[[int], str] | None = None
    """The label of query i (from 0)."""
    _beside: Workload | None = None
    """A P for the invariants of the latest call of `given_invariants`."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries m and of cells n, as large as they may be."""
        return self._shape

    @property
    def whole(self) -> Workload:
        """The queries that include the invariants: A for A P."""
        return self

    @property
    def inner(self) -> Workload:
        """Queries that differ from A only by parts that P removes; computations use them."""
        return self

    @property
    def factors(self) -> tuple[Workload, ...]:
        """The factors of a product, one for each attribute; others are their own only factor."""
        return (self,)

    @property
    def domain(self) -> tuple[int, ...]:
        """The number of values of each attribute; () unless the queries are over attributes."""
        return ()

    @property
    def ends(self) -> tuple[Indices, Indices] | None:
        """The first cell of every query and the one past its last, for sums of cells in a row."""
        return None

    @property
    def running_sums(self) -> RunningSums | None:
        """The running sums that the queries are, for the solver of streams."""
        return None

    @property
    def part_rows(self) -> Sequence[tuple[str, int]]:
        """Name and number of queries of each part, such as the parts of a union or the tables."""
        return [(self.name, self.shape[0])]

    @property
    def non_negative(self) -> bool:
        """Whether all coefficients are known to be 0 or positive."""
        m, n = self.shape
        return m * n <= LOOKED_AT and bool((self.to_dense() >= 0).all())

    def _display(self) -> tuple[str, Facts]:
        m, n = self.shape
        title = f"{type(self).__name__} {self.name!r}"
        rows = None if self.schema is None else self.schema.participation
        facts = [] if rows is None else [("one record is", rows.describe())]
        return f"{title}: {count_text(m)} queries on {count_text(n)} cells", facts

    def weighted_squares(self, weights: Array) -> Array:
        """diag(A diag(w) A^T), shape (m,), for weights w >= 0 of shape (n,).

        Raises:
            InvalidInputError: there are too many cells to form every A e_j, and there is no
                faster way.
        """
        n = self.shape[1]
        check_entries(f"the squared entries of {self.name}", (n, n))
        total = np.zeros(self.shape[0])
        for columns in column_blocks(n, n):
            half = np.zeros((n, columns.stop - columns.start))
            np.fill_diagonal(half[columns], np.sqrt(weights[columns]))
            total += self.row_norms(half)
        return total

    def column_squares(self) -> Array:
        """diag(A^T A), shape (n,): the squared norms of the columns."""
        m, n = self.shape
        if m < n:
            dense = self.to_dense()
            return np.asarray(np.einsum("ij,ij->j", dense, dense))
        return self.gram(np.ones(m)).diagonal()

    def longest_column(self) -> float:
        """Largest squared norm of a column, rounded up."""
        return float(self.column_squares().max()) * (1 + sum(self.shape) * EPS)

    def longest_difference(self) -> float:
        """Largest squared distance of two columns, rounded up; an upper bound beyond GRAM_CELLS."""
        if self.shape[1] > GRAM_CELLS and self.ends is None:
            return 4 * self.longest_column()
        return self._farthest(self.gram(np.ones(self.shape[0])))

    def _farthest(self, gram: Array) -> float:
        """Largest squared distance of columns with this Gram matrix, rounded up."""
        squares = gram.diagonal()
        allowance = 4 * sum(self.shape) * EPS * float(squares.max())
        return float((squares[:, None] + squares - 2 * gram).max()) + allowance

    def without_offsets(self) -> tuple[Workload, Array]:
        """Queries with equal answers on vectors that sum to zero: rows without common offsets.

        Also, shape (m,), the largest distance of two entries in rows that count as constant.
        """
        return self, np.zeros(0)

    def to_dense(self) -> Array:
        """The matrix itself, shape (m, n).

        Raises:
            InvalidInputError: it has more than MAX_ENTRIES entries.
        """
        check_entries(self.name, self.shape)
        return super().to_dense()

    def row_label(self, index: int) -> str:
        """The label of query `index` (from 0) in messages and tables."""
        return f"row {index}" if self._label is None else self._label(index)


@singledispatch
def distinct_shape(workload: Workload) -> tuple[int, int]:
    """Number of distinct queries and of distinct cells, as `merge` leaves them."""
    return workload.merge().operator.shape


@singledispatch
def different_cells(workload: Workload) -> int:
    """Number of different columns, one of zeros among them."""
    return _cells_of_matrix(workload)


@lru_cache(maxsize=4)
def _cells_of_matrix(workload: Workload) -> int:
    return int(np.unique(workload.merge().column_of).size)
