"""The workload: the queries to answer.

A workload is an m x n matrix A; query i on a histogram x of n cells is (A x)_i. Solvers and
strategies never ask for the matrix itself, only for products with it, for
`gram(u) = A^T diag(u) A`, `row_quadratic(X) = diag(A X A^T)` and
`row_norms(H) = diag(A H H^T A^T)`, so that a workload with structure (ranges, products) can answer
without forming it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.workloads.display import Displayed, Facts, count_text
from pmldesign.workloads.public import NOTHING, Public
from pmldesign_solvers.limits import GRAM_CELLS, MAX_ENTRIES
from pmldesign_solvers.operators.dense import DenseOperator, largest_entries
from pmldesign_solvers.operators.operator import (
    EPS,
    Array,
    Indices,
    Merged,
    Operator,
    column_blocks,
)

if TYPE_CHECKING:
    from pmldesign.workloads.nested.regions import RegionsWorkload
    from pmldesign.workloads.tables.base import AttributeTables
    from pmldesign_solvers.streams.chain import RunningSums

LOOKED_AT = 2**22
"""Entries of a workload that are written out to see their signs."""


def check_entries(
    name: str, shape: tuple[int, int], *, remedy: str = "take a smaller workload"
) -> None:
    """Refuse a matrix that is too large to be written out.

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
    """What the cells are made of: attributes of people (`releases.people.schema`)."""

    @property
    def participation(self) -> Any:
        """How many rows a person has in the cells; None for a single one."""

    @property
    def denominator(self) -> int:
        """D: a record adds whole multiples of 1/D to cells, together 1; 1 without numbers."""

    @property
    def cells(self) -> int:
        """Number of cells."""


class Workload(Displayed, Operator):
    """Queries on a histogram.

    Attributes:
        name: what the user called it ("prefix:64", a file's name).
        label: what query i (from 0) is called; None for plain "row i".
        binary: whether all entries are known to be 0 or 1.
        unweighted: the same queries without the weights that they were given, where they were.
        public: what is public, so that the queries count without it.
        schema: of the people in the cells, where the queries were written with their attributes;
            it belongs to the queries with what is public (`whole`).
    """

    name: str
    schema: People | None = None
    public: Public = NOTHING
    label: Callable[[int], str] | None = None
    binary: bool = False
    listed: ClassVar[bool] = True
    """Whether there are arrays with a number for each query."""
    unweighted: Workload | None = None
    _shape: tuple[int, int]
    _beside: Workload | None = None
    """A P for what it was asked beside last."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries m and of cells n, as large as they may be."""
        return self._shape

    @property
    def whole(self) -> Workload:
        """The queries with what is public: A for A P."""
        return self

    @property
    def inner(self) -> Workload:
        """Queries that differ from A by what P takes away: those for computing with."""
        return self

    @property
    def factors(self) -> tuple[Workload, ...]:
        """What a product is made of, a factor for each attribute; any other is its only one."""
        return (self,)

    @property
    def domain(self) -> tuple[int, ...]:
        """The number of values of each attribute, where queries are made of those on attributes."""
        return ()

    @property
    def ends(self) -> tuple[Indices, Indices] | None:
        """The first cell of every query and the one past its last, for sums of cells in a row."""
        return None

    @property
    def sparse(self) -> Any:
        """A as a scipy sparse array in rows, where it is kept as one."""
        return None

    @property
    def running_sums(self) -> RunningSums | None:
        """The running sums that the queries are, for the solver of streams."""
        return None

    @property
    def part_names(self) -> Sequence[str]:
        """What the parts of a union, or tables, are called."""
        return [self.name]

    @property
    def part_queries(self) -> Sequence[int]:
        """How many queries each of these has, in the order of the queries."""
        return [self.shape[0]]

    def times(self, weights: Array | float) -> Workload:
        """diag(c) A with what structure it has, for weights that are checked (`weighting`)."""
        from pmldesign.workloads.weighting import WeightedWorkload

        return WeightedWorkload(self, weights, name=self.name)

    def times_parts(self, weights: Sequence[Array | float]) -> Workload | None:  # noqa: ARG002
        """Every part times its weight; None where there is but one."""
        return None

    def as_tables(self) -> AttributeTables | None:
        """The workload, where it is tables over sets of attributes and nothing else."""
        return None

    def as_regions(self) -> RegionsWorkload | None:
        """The workload, where it is counts of regions that nest."""
        return None

    def difference_within(self, public: Public) -> float | None:  # noqa: ARG002
        """Largest squared distance of two columns of a group of cells, or a bound above it.

        Rounded up; None where structure does not tell what is left beside public answers.
        """
        return None

    def public_groups(self) -> tuple[Indices, bool] | None:
        """The groups of cells that its answers tell apart, and whether they tell their sums.

        The number of the group of each cell, from 0 without gaps, shape (n,); None where only the
        matrix tells.
        """
        return None

    def stated(self) -> dict[str, Any]:
        """What `verify.queries.Queries` has of it beside matrix and tables."""
        return {}

    def separable_gram(self) -> tuple[Array, Array] | None:
        """Vectors u, v with (A^T A)_ij = u_min(i,j) v_max(i,j), where it has such a form."""
        return None

    @property
    def non_negative(self) -> bool:
        """Whether all coefficients are known to be 0 or positive."""
        m, n = self.shape
        return m * n <= LOOKED_AT and bool((self.to_dense() >= 0).all())

    def beside(self, public: Public) -> Workload:
        """A P, the queries without what is public (`beside`).

        Raises:
            InvalidInputError: as `BesideWorkload`.
        """
        if not public or public.agrees(self.public):
            return self
        from pmldesign.workloads.beside import BesideWorkload

        if self._beside is None or self._beside.public is not public:
            self._beside = BesideWorkload(self.whole, public)
        return self._beside

    def _display(self) -> tuple[str, Facts]:
        m, n = self.shape
        title = f"{type(self).__name__} {self.name!r}"
        rows = None if self.schema is None else self.schema.participation
        facts = [] if rows is None else [("one record is", rows.describe())]
        return f"{title}: {count_text(m)} queries on {count_text(n)} cells", facts

    @property
    def squares_known(self) -> bool:
        """Whether `weighted_squares` follows from entries or structure, without every A e_j."""
        return type(self).weighted_squares is not Workload.weighted_squares

    def weighted_squares(self, weights: Array) -> Array:
        """diag(A diag(w) A^T), shape (m,), for weights w >= 0 of shape (n,)."""
        n = self.shape[1]
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
        """Largest squared distance of two columns, rounded up; a bound of more than GRAM_CELLS."""
        if self.shape[1] > GRAM_CELLS and self.ends is None:
            return 4 * self.longest_column()
        return self._farthest(self.gram(np.ones(self.shape[0])))

    def _farthest(self, gram: Array) -> float:
        """Largest squared distance of columns with this Gram matrix, rounded up."""
        squares = gram.diagonal()
        allowance = 4 * sum(self.shape) * EPS * float(squares.max())
        return float((squares[:, None] + squares - 2 * gram).max()) + allowance

    def to_dense(self) -> Array:
        """The matrix itself, shape (m, n).

        Raises:
            InvalidInputError: it has more than MAX_ENTRIES entries.
        """
        check_entries(self.name, self.shape)
        return super().to_dense()

    def gram(self, weights: Array) -> Array:
        """A^T diag(weights) A, shape (n, n), for weights of shape (m,)."""
        return DenseOperator(self.to_dense()).gram(weights)

    def row_quadratic(self, matrix: Array) -> Array:
        """diag(A X A^T), shape (m,), for a symmetric matrix X of shape (n, n)."""
        return DenseOperator(self.to_dense()).row_quadratic(matrix)

    def row_sizes(self) -> Array:
        """Largest absolute entry of every row, shape (m,)."""
        return largest_entries(self.to_dense())

    def merge(self) -> Merged:
        """The same workload without repeated or zero rows and columns, as solvers want it."""
        return DenseOperator(self.to_dense()).merge()

    def relative(self, *, idle: bool) -> tuple[Operator, Indices]:
        """The same on vectors that sum to zero, without zero rows; and which rows are left."""
        return DenseOperator(self.to_dense()).relative(idle=idle)

    def without_offsets(self) -> tuple[Workload, Array]:
        """The same on vectors that sum to zero, where rows lost what their entries share.

        Also, shape (m,), how far apart the entries are at most in rows that count as constant.
        """
        return self, np.zeros(0)

    @property
    def distinct_shape(self) -> tuple[int, int]:
        """Number of distinct queries and of distinct cells, as `merge` leaves them."""
        return self.merge().operator.shape

    @cached_property
    def different_cells(self) -> int:
        """Number of different columns, one of zeros among them."""
        return int(np.unique(self.merge().column_of).size)

    def row_label(self, index: int) -> str:
        """How messages and tables call query `index` (from 0)."""
        return f"row {index}" if self.label is None else self.label(index)
