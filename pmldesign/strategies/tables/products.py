r"""Strategies that stack products of the attributes' designs, each with a weight.

Attribute i is measured by D_i (the cells themselves for a plain one), the table over S by the
product of D_i for i in S, summed over the other attributes:

    R stacks theta_S (x)_{i in S} D_i  (x)_{i not in S} 1^T,

whose columns have l1 norms of at most sum_S theta_S where no column of a D_i is longer than 1. With

    G_i = D_i^T D_i,   tau_i = 1^T G_i^-1 1,   v_i = G_i^-1 1 / tau_i,   X_i = G_i - 1 1^T / tau_i,

X_i v_i = 0, so that the Gram matrix is a sum over sets T of attributes of orthogonal parts,

    R^T R = sum_T lambda_T (x)_{i in T} X_i  (x)_{i not in T} 1 1^T,
    lambda_T = sum over S containing T of theta_S^2 prod_{i in S, not in T} 1 / tau_i:

that of a `TablesStrategy` without features, which knows the variances and makes answers of the
coordinates. From measurements y_S the coordinates of T, with Psi_i^T those of X_i, are estimated by

    sum of theta_S (x)_T (D_i Psi_i)^T (x)_{S, not T} (D_i v_i)^T y_S / lambda_T over these S.

(`pmldesign_solvers.search.supports` chooses the weights.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Neighbours, Norm
from pmldesign.privacy.outward import raised
from pmldesign.strategies.arguments import (
    nothing_but,
    read_only,
    require_measurements,
)
from pmldesign.strategies.base import Strategy
from pmldesign.strategies.residuals import contrasts
from pmldesign.strategies.tables.coordinates import SectorMap, tau_and_coordinates
from pmldesign.strategies.tables.strategy import TablesStrategy
from pmldesign.strategies.tables.weighted import WeightedStrategy
from pmldesign.workloads.base import Workload
from pmldesign.workloads.public import NOTHING, RECORDS, Public
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.structure import kronecker
from pmldesign_solvers.structure.subsets import residual_spaces
from pmldesign_solvers.tables.free_vector import Measured
from pmldesign_solvers.tables.sectors import Sector

if TYPE_CHECKING:
    from pmldesign.strategies.row_kinds import RowKinds
    from pmldesign.strategies.whole.lattice import Lattice

MOST_ROWS = 2**28
"""Entries of all kinds of rows of L, some formed at a time: a quarter of a minute."""
WRITTEN_DISTANCES = 2**30
"""Most differences of entries that are formed for exact distances of columns (a second or two)."""


class WeightedProductsStrategy(WeightedStrategy):
    """Measures products of the attributes' designs over some sets of attributes.

    Args:
        name: how tables and messages call it.
        sizes: number of values of each attribute.
        designs: D_i, shape (r_i, n_i), of rank n_i, for attributes that are not plain.
        subsets: the attributes of each table, in any order; () is the total.
        weights: theta_S > 0 for each of them.
        public: the number of records, where what the measurements say about it is taken out.

    Attributes:
        table_rows: the number of measurements of each table.
        levels: lambda_T of every T that is measured.

    Raises:
        InvalidInputError: sizes, sets, weights or designs that are none or do not fit.
    """

    def __init__(
        self,
        name: str,
        sizes: Sequence[int],
        designs: Mapping[int, Array],
        subsets: Iterable[Iterable[int]],
        weights: ArrayLike,
        *,
        public: Public = NOTHING,
    ) -> None:
        super().__init__(name, sizes, subsets, weights, public=public)
        self.designs = {i: read_only(np.array(D, dtype=np.float64)) for i, D in designs.items()}
        for i, D in self.designs.items():
            if not 0 <= i < len(self.sizes) or D.ndim != 2 or D.shape[1] != self.sizes[i]:
                raise InvalidInputError(
                    f"strategy {name!r}: the design of attribute {i} has shape {D.shape}, which "
                    "does not fit its number of values"
                )
        self._taus = [float(n) for n in self.sizes]
        self._measured: dict[int, Measured] = {}
        for i, D in self.designs.items():
            self._taus[i], self._measured[i] = tau_and_coordinates(name, D)
        try:
            residuals = residual_spaces(self.sizes, self.subsets).residuals
        except ValueError as error:
            raise InvalidInputError(f"strategy {name!r}: {error}") from None
        self.levels = {T: self._level(T) for T in residuals if T or not public}
        if not self.levels:
            raise nothing_but(public, name)
        features = dict.fromkeys(self.designs, 0)
        sectors = [self._sector(T, level) for T, level in self.levels.items()]
        rows = [len(self.designs[i]) if i in self.designs else n for i, n in enumerate(self.sizes)]
        self.table_rows = [math.prod(rows[i] for i in subset) for subset in self.subsets]
        self.shape = sum(self.table_rows), math.prod(self.sizes)
        self.columns = math.prod(self.sizes[i] for i in set().union(*self.subsets))
        self._coordinates = SectorMap(self.sizes, features, sectors)
        self.residual = TablesStrategy(name, self.sizes, self._measured, features, sectors)

    @property
    def entry_units(self) -> float:
        """Units of 2^-53 that entries of `matrix` are off by: products, and means of all cells."""
        return 2.0 * len(self.sizes) + (4.0 * self.cells if self.public else 0.0)

    def row_kinds(self, workload: Workload, most: int) -> Sequence[RowKinds] | None:
        """The rows of L by kinds, table by table."""
        from pmldesign.strategies.row_kinds import kinds_of_products

        return kinds_of_products(self, workload, MOST_ROWS, most)

    def table_lattice(self, bits: int) -> Lattice | None:
        """Beyond WRITTEN_CELLS cells products of designs in whole numbers."""
        from pmldesign.strategies.whole.structures import weighted_products_lattice

        return None if self.few else weighted_products_lattice(self, bits)

    def _of_tables(self, subsets: Sequence[tuple[int, ...]], weights: Array) -> Self:
        return type(self)(self.name, self.sizes, self.designs, subsets, weights, public=RECORDS)

    def sensitivity_under(self, neighbours: Neighbours, norm: Norm) -> float:
        """Largest distance of the measurements of neighbours, in the l1 or l2 norm, rounded up.

        The l1 norm of the longest column is exact; other values may be bounds above the exact ones
        where there are many cells: sums over the tables.
        """
        single = neighbours == Neighbours.ADD_REMOVE
        rows, cells = self.shape
        entries = self.few and rows * cells * (1 if single else cells)
        closed = single and norm == "l1" and not self.public
        if entries and entries <= WRITTEN_DISTANCES and not closed:
            return super().sensitivity_under(neighbours, norm)
        order = 1 if norm == "l1" else 2
        longest = {i: np.linalg.norm(D, order, axis=0).max() for i, D in self.designs.items()}
        lengths = [
            weight * math.prod(longest.get(i, 1.0) for i in subset)
            for weight, subset in zip(self.weights.tolist(), self.subsets, strict=True)
            if subset or single
        ]
        length = math.fsum(lengths) if norm == "l1" else math.hypot(*lengths)
        operations = len(lengths) + len(self.sizes) * (max(map(len, self._arrays)) + 2)
        factor = 1 if single and not self.public else 2
        return raised(factor * length, operations)

    def rows_of_table(self, subset: tuple[int, ...], table: Array) -> Array:
        """(x)_S D_i times the table by S."""
        maps = [self.designs[i].__matmul__ if i in self.designs else _same for i in subset]
        rows = kronecker.apply(maps, [self.sizes[i] for i in subset], table.reshape(len(table), -1))
        return rows.reshape(-1, *table.shape[1:])

    def estimate(self, measurements: Array) -> Array:
        """A histogram with the coordinates that were measured, as `TablesStrategy.estimate`."""
        if self.few or measurements.ndim > 1:
            return Strategy.estimate(self, measurements)
        return super().estimate(measurements)

    def _as_residual(self, measurements: Array) -> Array:
        require_measurements(self.name, self.shape[0], measurements)
        blocks = np.split(measurements, np.cumsum(self.table_rows)[:-1])
        parts = {
            T: self._estimated(T, blocks) / (self._plain(T) * level)
            for T, level in self.levels.items()
        }
        return self._coordinates.measure(parts).ravel()

    def free_basis(self, attribute: int) -> tuple[Array, Array]:
        """v_i, and a Psi_i with Psi_i Psi_i^T that of X_i; all directions for a plain attribute."""
        if attribute in self.designs:
            inverse = self._measured[attribute].inverse
            return inverse[:, 0], inverse[:, 1:]
        n = self.sizes[attribute]
        return np.full(n, 1 / n), np.eye(n) - 1 / n

    @property
    def _arrays(self) -> list[Array]:
        return [np.ones(1), *self.designs.values()]

    def _level(self, T: tuple[int, ...]) -> float:
        return math.fsum(
            weight**2 / math.prod(self._taus[i] for i in S if i not in T)
            for S, weight in zip(self.subsets, self.weights.tolist(), strict=True)
            if set(T) <= set(S)
        )

    def _plain(self, T: tuple[int, ...]) -> float:
        """What lambda_T counts of coordinates: their squares make n / (n - 1) of X_i, i plain."""
        return math.prod(1 - 1 / self.sizes[i] for i in T if i not in self.designs)

    def _sector(self, T: tuple[int, ...], level: float) -> Sector:
        plain = tuple(i for i in T if i not in self.designs)
        spectators = tuple(i for i in T if i in self.designs)
        return Sector(plain, spectators, ((),), np.array([[self._plain(T) * level]]))

    def _estimated(self, T: tuple[int, ...], blocks: Sequence[Array]) -> Array:
        """lambda_T times the coordinates of T, one axis for each attribute and one of columns."""
        total = np.zeros([self.sizes[i] - 1 for i in T] + [1])
        for S, weight, block in zip(self.subsets, self.weights, blocks, strict=True):
            if set(T) <= set(S):
                maps = [self._backward(i, inner=i in T) for i in S]
                sizes = [len(self.designs[i]) if i in self.designs else self.sizes[i] for i in S]
                rows = kronecker.apply(maps, sizes, block.reshape(-1, 1))
                total += weight * rows.reshape(total.shape)
        return total

    def _backward(self, i: int, *, inner: bool) -> kronecker.Map:
        """(D Psi)^T for attribute i, or (D v)^T."""
        n = self.sizes[i]
        if i in self.designs:
            inverse = self._measured[i].inverse
            turn = self.designs[i] @ (inverse[:, 1:] if inner else inverse[:, :1])
            return np.ascontiguousarray(turn.T).__matmul__
        if inner:
            return lambda y: contrasts(y) * (math.sqrt(n - 1) / n)
        return lambda y: y.sum(axis=0, keepdims=True) / n


def _same(y: Array) -> Array:
    return y
