"""Strategies that measure by their structure, and are materialized if the matrix gives more.

Under replace the matrix of few cells has the exact distances; of more, two columns are at most
twice the longest one apart, 2^(1/2) times in the l2 norm if no entry is negative, or a distance
that a structure gives.

Strategies that measure tables of counts never form the histogram. With T the tables by some sets of
attributes, R x is a function of T x only: it is the same from a histogram x and from the records
themselves, however many cells the domain has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.privacy.neighbours import DistanceProfile, Neighbours, Norm
from pmldesign.privacy.outward import raised, root_above
from pmldesign.strategies.arguments import read_only
from pmldesign.strategies.base import Strategy, inverse_known
from pmldesign.strategies.beside import BesideStrategy
from pmldesign.strategies.residuals import Contrasts
from pmldesign.strategies.total import knows
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.public import Public
from pmldesign.workloads.terms.constructors import TablesWorkload
from pmldesign.workloads.terms.over import products_over
from pmldesign.workloads.terms.workload import TermsWorkload
from pmldesign_solvers.limits import WRITTEN_CELLS
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.structure import kronecker

LEAST_BESIDE = 512
"""Up to so many cells a matrix without the total and its inverse take a tenth of a second."""


@dataclass(frozen=True, eq=False)
class Term:
    """The measurements of a table: diag(w) times a product over its axes, (x) M.

    Attributes:
        subset: the attributes of the table.
        axes: the number of cells of each axis; several attributes may be one.
        maps: M of each axis, None for the cells themselves.
        weight: w, a number or one for each row.
    """

    subset: tuple[int, ...]
    axes: tuple[int, ...]
    maps: tuple[Array | Contrasts | None, ...]
    weight: float | Array = 1.0

    @property
    def rows(self) -> int:
        """The number of rows."""
        pairs = zip(self.maps, self.axes, strict=True)
        return math.prod(n if M is None else _rows_of(M) for M, n in pairs)

    def of(self, table: Array) -> Array:
        """The rows for a table of shape (m,) or (m, c)."""
        rows = table
        if any(M is not None for M in self.maps):
            maps = [_same if M is None else M.__matmul__ for M in self.maps]
            flat = kronecker.apply(maps, self.axes, table.reshape(len(table), -1))
            rows = flat.reshape(-1, *table.shape[1:])
        return np.asarray((self.weight * rows.T).T)


def _rows_of(factor: Array | Contrasts) -> int:
    return factor.values - 1 if isinstance(factor, Contrasts) else len(factor)


class StructuredStrategy(Strategy):
    """A strategy that measures without its matrix."""

    non_negative: ClassVar[bool] = False
    """Whether no entry of R is negative."""
    sizes: tuple[int, ...] = ()
    """Number of cells of each attribute, of strategies over products."""
    terms: Sequence[Term] | None = None
    """The measurements as products on tables, or on all cells; None for anything else."""
    stays_beside: ClassVar[bool] = False
    """Whether one that is not over a product keeps its structure given the number of records."""

    @cached_property
    def matrix(self) -> Array:
        """R, shape (r, n); refused if too large."""
        check_entries(f"strategy {self.name!r}", self.shape)
        return read_only(self.measure(np.eye(self.cells)))

    def _beside(self, public: Public) -> Strategy:
        """R P, with its structure beyond WRITTEN_CELLS cells, if that helps; else its inverse.

        One that has all distances without its matrix keeps it from LEAST_BESIDE cells on. It helps
        where R is regular and has an inverse: that of R P follows.
        """
        helps = self.regular and inverse_known(self) and self.cells > WRITTEN_CELLS
        keeps = self.stays_beside or self.sizes or helps
        if public.kind != "records" or not keeps:
            return super()._beside(public)
        centred = BesideStrategy(self)
        if self.cells > (LEAST_BESIDE if self.stays_beside else WRITTEN_CELLS):
            return centred
        written = super()._beside(public)
        written._uncentred = self
        if written.shape == self.shape and self.rank == self.cells:
            inverse = centred.estimate(np.eye(len(written.matrix)))
            written._inverse_and_rank = read_only(inverse), self.cells - 1
        return written

    def products(self, workload: Workload) -> list[tuple[Workload, ...]] | None:
        """The workload as products over the attributes of R, if both are of such structure."""
        return products_over(workload, self.sizes) if self.sizes else None

    def sensitivity_under(self, neighbours: Neighbours, norm: Norm) -> float:
        """Largest distance of the measurements of neighbours, rounded up.

        Under replace with more than WRITTEN_CELLS cells it may be a bound above it.
        """
        self._require_same_answers(neighbours)
        if neighbours == Neighbours.ADD_REMOVE:
            return self._longest(norm)
        if self._matrix_tells(norm):
            return super().sensitivity_under(neighbours, norm)
        return 0.0 if self.columns == 1 else self._farthest(norm)

    def distance_profile(self, norm: Norm) -> DistanceProfile | None:
        """Beyond WRITTEN_CELLS: all other columns as far away as the farthest two can be."""
        if self.columns is None or self._matrix_tells(norm):
            return super().distance_profile(norm)
        distance = self.sensitivity_under(Neighbours.REPLACE, norm)
        return DistanceProfile.all_at(distance, self.columns, float(self.cells // self.columns))

    @property
    def few(self) -> bool:
        """Whether there are at most WRITTEN_CELLS cells."""
        return self.cells <= WRITTEN_CELLS

    def _matrix_tells(self, norm: Norm) -> bool:  # noqa: ARG002
        """Whether distances under replace are those of the matrix."""
        return self.few

    def _longest(self, norm: Norm) -> float:
        """Largest norm of a column, rounded up."""
        return super().sensitivity_under(Neighbours.ADD_REMOVE, norm)

    def _farthest(self, norm: Norm) -> float:
        """Largest distance of two columns, or a bound above it, rounded up."""
        apart = root_above(2.0) if self.non_negative and norm == "l2" else 2.0
        return raised(apart * self._longest(norm), 1)


class CountsStrategy(StructuredStrategy):
    """A strategy that measures functions of tables of counts.

    Attributes:
        sizes: number of values of each attribute.
    """

    sizes: tuple[int, ...]
    from_tables: ClassVar[bool] = True
    centred: bool = False
    """Whether tables are measured without their means, which the number of records determines."""

    terms: Sequence[Term]

    @cached_property
    def counts(self) -> TermsWorkload:
        """The tables."""
        return TablesWorkload(self.sizes, [term.subset for term in self.terms])

    def measure_tables(self, tables: Iterable[Array]) -> Array:
        """R x from the tables of `counts`, each of shape (m,) or (m, c): shape (r,) or (r, c)."""
        kept = map(without_mean, tables) if self.centred else tables
        return np.concatenate(
            [term.of(table) for term, table in zip(self.terms, kept, strict=True)]
        )

    @cached_property
    def matrix(self) -> Array:
        """R, shape (r, n); refused if too large."""
        check_entries(f"strategy {self.name!r}", self.shape)
        tables = (TablesWorkload(self.sizes, [subset]) for subset in self.counts.subsets)
        return read_only(self.measure_tables(table.to_dense() for table in tables))

    def measure(self, x: Array) -> Array:
        """R x, shape (r,) or (r, c), for a histogram x of shape (n,) or several, (n, c)."""
        return self.measure_tables(self.counts.split(self.counts.matvec(x)))

    def measure_records(self, records: ArrayLike) -> Array:
        """R x, shape (r,), for the histogram x of records, which is never formed.

        Args:
            records: integers of shape (N, d), the value of each attribute, from 0.

        Raises:
            InvalidInputError: as `TermsWorkload.of_records`.
        """
        check_entries(f"strategy {self.name!r}", (self.shape[0], 1))
        return self.measure_tables(self.counts.of_records(records))


def _same(y: Array) -> Array:
    return y


def without_mean(table: Array) -> Array:
    """The part of a table that the total does not determine: every column without its mean."""
    return np.asarray(table - table.mean(axis=0))


@knows.register
def _(strategy: StructuredStrategy, workload: Workload) -> bool:
    """Whether both are over the same attributes."""
    return strategy.products(workload) is not None
