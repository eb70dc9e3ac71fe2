r"""Tables at regions that nest, each with a weight (`workloads.nested.tables`).

R has the rows r 1_nu x e_t x 1 for all values t of a table T at a region nu. Every cell is in one
row of each table above its leaf, so that its column has the l1 norm sum r and the squared l2 norm
sum r^2 over the path and the tables. Of ordered attributes coordinates are measured instead of
values (`coordinates`), by columns of norms up to some number. In coordinates that are sums and
contrasts along each plain attribute, those of the residual space of S are counts of regions with
the precisions

    x_S = sum over T that hold S of r^2 N / m_T,

so that least squares is two sweeps of the tree for each kind of S (`pmldesign_solvers.trees`), and

    var = a^2 N / m_T^2 sum_{S in T} d_S var_S        for the answers of a table T at a region

and plain attributes, N and m_T without ordered ones.

Where S is measured at no region below, cells share alike: R^+ is the pseudo-inverse.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from pmldesign.errors import InvalidInputError
from pmldesign.privacy.neighbours import Neighbours, Norm
from pmldesign.privacy.outward import raised
from pmldesign.strategies.arguments import LARGEST_ENTRY, read_only, require_measurements
from pmldesign.strategies.nested.coordinates import Coordinates
from pmldesign.strategies.structured import StructuredStrategy
from pmldesign.strategies.total import free_vector, knows, tells_total
from pmldesign.workloads.base import Workload, check_entries
from pmldesign.workloads.nested.regions import tops_of
from pmldesign.workloads.nested.tables import (
    RegionTablesWorkload,
    Table,
    farthest_tables,
    table_sums,
)
from pmldesign.workloads.public import NOTHING, Public
from pmldesign_solvers.operators.operator import Array, Flags, Indices
from pmldesign_solvers.tables.free_vector import Measured
from pmldesign_solvers.trees.spaces import Spaces
from pmldesign_solvers.trees.sweeps import FAINT, Sweep, estimates, floored, swept, with_total
from pmldesign_solvers.trees.tree import Tree

if TYPE_CHECKING:
    from pmldesign.strategies.base import Strategy

UNKNOWN = 1e-20 / FAINT
"""A variance, for weights of size 1, from which on nothing is measured."""


class RegionTablesStrategy(StructuredStrategy):
    """Tables at regions, each with a weight.

    Args:
        name: how tables and messages call it.
        tree: the regions.
        sizes: number of values of each attribute.
        tables: the sets T of attributes.
        weights: r >= 0, shape (K, P), for each table and each different set of cells
            (`Tree.place_of_node`); 0 for those that are not measured. Copied.
        ordered: Y of each ordered attribute, with its inverse.
        public: the invariants: sums of places that contain every other one once.

    Attributes:
        coordinates: of all attributes.
        tops: these places, shape (P,); None if nothing is public.
        measured: the nodes at which each table is measured, in increasing order.
        table_rows: the number of measurements of each table.

    Raises:
        InvalidInputError: weights that are not such numbers.
    """

    stays_beside: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        tree: Tree,
        sizes: Sequence[int],
        tables: Sequence[Table],
        weights: ArrayLike,
        ordered: Mapping[int, Measured] = MappingProxyType({}),
        *,
        public: Public = NOTHING,
    ) -> None:
        self.name, self.tree, self.sizes, self.public = name, tree, tuple(sizes), public
        self.tops = tops_of(tree, public, math.prod(self.sizes))
        self.coordinates = Coordinates(self.sizes, ordered)
        self.tables: tuple[Table, ...] = tuple(map(tuple, tables))
        self.weights = read_only(np.array(weights, dtype=np.float64))
        nodes, first = np.unique(tree.place_of_node, return_index=True)
        inner = np.ones(tree.places, dtype=bool)
        inner[nodes] = False
        fits = self.weights.shape == (len(self.tables), tree.places) and (
            ((self.weights == 0) | (self.weights >= 1 / LARGEST_ENTRY)).all()
            and (self.weights <= LARGEST_ENTRY).all()
            and self.weights.any()
            and not self.weights[:, inner].any()
        )
        if not fits:
            raise InvalidInputError(
                f"strategy {name!r} needs a weight from 0 on for each of {len(self.tables)} tables"
                f" and {len(nodes)} different regions, not all of them 0"
            )
        self.measured: tuple[Indices, ...] = tuple(
            np.sort(first[row[nodes] > 0]) for row in self.weights
        )
        self._rows = [tree.place_of_node[kept] for kept in self.measured]
        counts = [self.coordinates.rows(table) for table in self.tables]
        self.table_rows = [m * len(kept) for m, kept in zip(counts, self.measured, strict=True)]
        self.columns = tree.cells * math.prod(self.sizes)
        self.shape = sum(self.table_rows), self.columns

    @property
    def node_weights(self) -> Array:
        """The weight of every table and node, 0 if it is not measured, shape (K, N)."""
        return self.of_nodes

    @cached_property
    def of_nodes(self) -> Array:
        """The same, for tables of no attributes too."""
        weights = np.zeros((len(self.tables), self.tree.nodes))
        for row, places, kept, every in zip(
            weights, self._rows, self.measured, self.weights, strict=True
        ):
            row[kept] = every[places]
        return read_only(weights)

    @property
    def ordered(self) -> dict[int, Measured]:
        """The measured coordinates of each ordered attribute."""
        return self.coordinates.ordered

    @cached_property
    def spaces(self) -> Spaces:
        """The spaces of the tables that are measured."""
        return self.coordinates.spaces(self.tables, {}, apart=bool(self.public))

    def sensitivity_under(self, neighbours: Neighbours, norm: Norm) -> float:
        """Largest distance of the measurements of neighbours, in the l1 or l2 norm, rounded up.

        With ordered attributes, an upper bound on it: of every table the largest one.
        """
        self._require_same_answers(neighbours)
        exponent = int(np.frexp(self.weights.max())[1])
        of_nodes = np.ldexp(self.of_nodes, -exponent)
        if norm == "l2":
            of_nodes = of_nodes**2
        lengths, apart = self.coordinates.distances(self.tables, norm)
        of_nodes = lengths[:, None] * of_nodes
        if neighbours == Neighbours.ADD_REMOVE:
            largest = float(self.tree.above(of_nodes.sum(axis=0)).max())
        else:
            largest = float(farthest_tables(self.tree, of_nodes, apart, self.tops))
        root = largest if norm == "l1" else math.sqrt(largest)
        units = self.tree.height + len(self.tables) + 8
        units += 4 * sum(self.sizes[i] for i in self.ordered)
        return float(np.ldexp(raised(root, units), exponent))

    def measure(self, x: Array) -> Array:
        """R x, shape (r,) or (r, c), for a histogram x of shape (n,) or several, (n, c)."""
        measured, x = [], self.public.within(x) if self.public else x
        for table, places, weights in zip(self.tables, self._rows, self.weights, strict=True):
            counts = table_sums(self.tree, self.sizes, table, x)[places]
            rows = self.coordinates.measure(table, counts)
            measured.append((rows.T * weights[places]).T.reshape(-1, *x.shape[1:]))
        return np.concatenate(measured)

    def estimate(self, measurements: Array) -> Array:
        """R^+ y, shape (n,) or (n, c), for measurements y of shape (r,) or (r, c)."""
        require_measurements(self.name, self.shape[0], measurements)
        rows = measurements.reshape(len(measurements), -1)
        columns, cells = rows.shape[1], math.prod(self.sizes)
        own = np.zeros((self.tree.places, *self.sizes, columns))  # R^T y at every place
        blocks = np.split(rows, np.cumsum(self.table_rows)[:-1])
        for table, places, block, weights in zip(
            self.tables, self._rows, blocks, self.weights, strict=True
        ):
            values = block.reshape(len(places), self.coordinates.rows(table), columns)
            where, spread = self.coordinates.spread(table, values * weights[places, None, None])
            own[where][places] += spread
        coordinates = self.coordinates.forward(own).reshape(len(own), cells, columns)
        found: Array = np.zeros((self.tree.cells, cells, columns))
        for kind, below in enumerate(self._sweep.below):
            kept = self.coordinates.of_spaces(self.spaces.residuals[kind])
            sums = coordinates[:, kept].reshape(len(own), -1)
            sums[~self._told[kind]] = 0.0  # rounding
            sums /= self.coordinates.plain
            known = self._known if kind == self.spaces.total else None
            every = estimates(self.tree, self._precisions[kind], below, sums, known)
            every = every[self.tree.place_of_cell]
            found[:, kept] = every.reshape(self.tree.cells, -1, columns)
        found = found.reshape(self.tree.cells, *self.sizes, columns)
        cells_found = self.coordinates.backward(found)
        return cells_found.reshape(self.cells, *measurements.shape[1:])

    def require_answers(self, workload: Workload) -> None:
        """Refuse a workload that R does not determine."""
        if self.regular or not knows(self, workload.inner):
            super().require_answers(workload)
        else:
            self.variances(workload)

    def variances(self, workload: Workload) -> Array:
        """diag(L L^T), shape (m,): the variance of each answer per unit variance of the noise."""
        if not knows(self, workload.inner) or not workload.public.agrees(self.public):
            return super().variances(workload)
        return self._answers(workload.inner)

    def _answers(self, workload: Workload) -> Array:
        """The variances for tables at the same regions."""
        assert isinstance(workload, RegionTablesWorkload)
        asked = [*self.tables, *workload.tables]
        spaces = self.coordinates.spaces(asked, {}, apart=bool(self.public))
        precisions = floored(self.tree, spaces.within[:, : len(self.tables)] @ self._per_answer)
        scale = float(self._per_answer.max())
        found = self._swept(spaces, precisions).variances
        values = []
        for part in workload.parts:
            shares = self.coordinates.shares(part.table, workload.queries, spaces.residuals)
            variances = found[:, self.tree.place_of_node[part.nodes]].T @ shares
            if (variances * scale > UNKNOWN).any():
                raise InvalidInputError(
                    f"strategy {self.name!r} cannot answer {part.name!r}: its values are not"
                    " measured at all of these regions; add a table that holds them there or below"
                )
            values.append((part.scales[:, None] ** 2 * variances).ravel())
        return np.concatenate(values)

    def scaled(self, factor: float) -> RegionTablesStrategy:
        """R times a positive number."""
        weights = self.weights * factor
        return RegionTablesStrategy(
            self.name,
            self.tree,
            self.sizes,
            self.tables,
            weights,
            self.ordered,
            public=self.public,
        )

    def _beside(self, public: Public) -> Strategy:
        if self.few or not public.name or tops_of(self.tree, public, math.prod(self.sizes)) is None:
            return super()._beside(public)
        other = type(self).__new__(type(self))
        RegionTablesStrategy.__init__(
            other,
            self.name,
            self.tree,
            self.sizes,
            self.tables,
            self.weights,
            self.ordered,
            public=public,
        )
        return other

    @property
    def _known(self) -> Flags | None:
        """The places of known sums, with all above them, shape (P,)."""
        return None if self.tops is None else self.tree.upward(self.tops)

    @cached_property
    def _inverse_and_rank(self) -> tuple[Array, int]:
        check_entries(f"the inverse of strategy {self.name!r}", self.shape)
        ranks = [self.tree.rank(row) for row in self._told]
        if self.tops is not None:
            total = self.spaces.total
            ranks[total] = self.tree.rank(self._told[total] | self.tops) - int(self.tops.sum())
        rank = round(float(self.spaces.dimensions @ np.array(ranks)))
        return read_only(self.estimate(np.eye(self.shape[0]))), rank

    @property
    def _per_answer(self) -> Array:
        """r^2 / m_T, shape (K, P): precisions over the number N of plain cells."""
        return np.asarray(self.weights**2 / self.spaces.answers[:, None])

    @property
    def _told(self) -> Flags:
        """Whether a place measures a kind of spaces, shape (kinds, P)."""
        return np.asarray(self.spaces.within @ self._per_answer > 0)

    @cached_property
    def _precisions(self) -> Array:
        """x_S / N of every kind of spaces and place, shape (kinds, P)."""
        return floored(self.tree, self.spaces.within @ self._per_answer)

    @cached_property
    def _sweep(self) -> Sweep:
        """Least squares of every kind of spaces."""
        return self._swept(self.spaces, self._precisions)

    def _swept(self, spaces: Spaces, precisions: Array) -> Sweep:
        known = None if self._known is None else spaces.known(self._known)
        return swept(self.tree, precisions, known)


def from_table_nodes(
    name: str,
    parents: ArrayLike,
    sizes: Sequence[int],
    tables: Sequence[Table],
    node_weights: Array,
    ordered: Mapping[int, Measured] = MappingProxyType({}),
) -> RegionTablesStrategy:
    """The strategy from the parents of all nodes, and the weight of every table there, (K, N).

    Raises:
        ValueError: the parents are those of no tree, tables are of other attributes, or numbers
            differ.
    """
    tree, weights = Tree(np.asarray(parents)), np.asarray(node_weights, dtype=np.float64)
    known = all(0 <= i < len(sizes) for table in tables for i in table)
    if weights.shape != (len(tables), tree.nodes) or not known:
        raise ValueError("parents, sizes, tables and node_weights do not fit")
    places = np.zeros((len(tables), tree.places))
    for row, of_nodes in zip(places, weights, strict=True):
        np.maximum.at(row, tree.place_of_node, of_nodes)
    return RegionTablesStrategy(name, tree, sizes, tables, places, ordered)


@tells_total.register
def _(strategy: RegionTablesStrategy) -> bool:
    """Whether R determines the total of its cells."""
    total = strategy._sweep.variances[strategy.spaces.total]
    return bool(total[strategy.tree.root] * strategy._per_answer.max() < UNKNOWN)


@free_vector.register
def _(strategy: RegionTablesStrategy) -> Array:
    """(R^T R)^+ 1, shape (n,): the covariances of all cells with the total."""
    kind, sweep = strategy.spaces.total, strategy._sweep
    of_total = Sweep(sweep.below[kind], sweep.elsewhere[kind], sweep.variances[kind])
    covariances = with_total(strategy.tree, strategy._precisions[kind], of_total)
    return np.multiply.outer(covariances, strategy.coordinates.free()).ravel()


@knows.register
def _(strategy: RegionTablesStrategy, workload: Workload) -> bool:
    """Whether these are tables at the same regions, which structure answers."""
    return (
        isinstance(workload, RegionTablesWorkload)
        and workload.sizes == strategy.sizes
        and workload.tree.same(strategy.tree)
    )
