"""What strategies share that measure tables of counts and never form the histogram.

With T the tables by some sets of attributes, R x is a function of T x alone: it is the same from a
histogram x and from the records themselves, however many cells the domain has.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.strategies.arguments import read_only
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.structured import StructuredStrategy
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.tables.marginals import MarginalsWorkload
from pmldesign_solvers.operators.operator import Array

if TYPE_CHECKING:
    from pmldesign.strategies.whole.lattice import Lattice


class CountsStrategy(StructuredStrategy):
    """A strategy that measures functions of tables of counts.

    Attributes:
        sizes: number of values of each attribute.
    """

    sizes: tuple[int, ...]
    from_tables: ClassVar[bool] = True

    @property
    @abstractmethod
    def counts(self) -> MarginalsWorkload:
        """T."""

    @abstractmethod
    def measure_tables(self, tables: Iterable[Array]) -> Array:
        """R x from the tables of `counts`, each of shape (m,) or (m, c): shape (r,) or (r, c)."""

    @cached_property
    def matrix(self) -> Array:
        """R, shape (r, n); refused if too large."""
        check_entries(f"strategy {self.name!r}", self.shape)
        tables = (MarginalsWorkload(self.sizes, [subset]) for subset in self.counts.subsets)
        return read_only(self.measure_tables(table.to_dense() for table in tables))

    def measure(self, x: Array) -> Array:
        """R x, shape (r,) or (r, c), for a histogram x of shape (n,) or several, (n, c)."""
        return self.measure_tables(self.counts.split(self.counts.matvec(x)))

    def measure_records(self, records: ArrayLike) -> Array:
        """R x, shape (r,), for the histogram x of records, which is never formed.

        Args:
            records: whole numbers of shape (N, d), the value of each attribute, from 0.

        Raises:
            InvalidInputError: as `MarginalsWorkload.tables`.
        """
        check_entries(f"strategy {self.name!r}", (self.shape[0], 1))
        return self.measure_tables(self.counts.tables(records))

    def on_lattice(self, workload: Workload, bits: int, beside: Strategy | None = None) -> Lattice:
        """From tables in whole numbers, or as a matrix."""
        return self.table_lattice(bits) or super().on_lattice(workload, bits, beside)

    def table_lattice(self, bits: int) -> Lattice | None:  # noqa: ARG002
        """The strategy in whole numbers, from tables alone; None as a matrix."""
        return None


def without_mean(table: Array) -> Array:
    """What a table tells beside the total: every column without its mean."""
    return np.asarray(table - table.mean(axis=0))
