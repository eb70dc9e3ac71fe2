"""Strategies for counts and tables of regions that nest: of any shares, and of usual ones.

A count, or a table, of every region has a share of the sensitivity (`trees.shares`): the best ones
are the design, equal ones along the longest paths are the usual choice, the best ones of whole
levels lie between, and only the lowest places are measured for the histogram.

Solvers are called once for all equivalent places. Places that a symmetry of the tree, its weights
and the invariants maps to each other are one node of a smaller tree
(`pmldesign_solvers.trees.orbits`): ten million places, many of them equivalent below each parent,
are designed as a hundredth of them. The result holds for all places.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from types import MappingProxyType

import numpy as np

from pmldesign.strategies.nested.coordinates import Coordinates
from pmldesign.strategies.nested.regions import RegionsStrategy
from pmldesign.strategies.nested.tables import RegionTablesStrategy
from pmldesign.workloads.base import Workload
from pmldesign.workloads.nested.regions import RegionsWorkload, tops_of
from pmldesign.workloads.nested.tables import NestedWorkload, RegionTablesWorkload, Table
from pmldesign.workloads.public import NOTHING, Public
from pmldesign_solvers.operators.operator import Array, Flags
from pmldesign_solvers.structure import kronecker
from pmldesign_solvers.tables.free_vector import Measured
from pmldesign_solvers.trees.orbits import orbits_of
from pmldesign_solvers.trees.problem import NestedCounts
from pmldesign_solvers.trees.shares import Shares
from pmldesign_solvers.trees.spaces import ordered_spaces, spaces_of

Ordered = Mapping[int, Measured]
"""The measured coordinates of each ordered attribute."""


class OrbitCounts:
    """Counts or tables of regions, with a node for each orbit.

    Args:
        workload: the queries.
        known: the places whose sums are public, with all above them, shape (P,); None for none.

    Attributes:
        asked: the weights of tables and nodes, 0 if the count is public.
        orbits: of the places.
    """

    def __init__(self, workload: NestedWorkload, known: Flags | None = None) -> None:
        self.workload = workload
        self.asked = workload.open_scales(known)
        self.orbits = (
            workload.orbits
            if known is None
            else orbits_of(workload.tree, np.atleast_2d(self.asked), known)
        )
        self.known = self.orbits.places(known)

    def shares(self, p: float, power: int = 1, ordered: Ordered = MappingProxyType({})) -> Shares:
        """The search for shares: power 1 for Gaussian noise, 2 for Laplace noise.

        Of ordered attributes the values are measured, or coordinates that are given.
        """
        workload, tree = self.workload, self.orbits.tree
        if isinstance(workload, RegionsWorkload):
            squares = self.orbits.squares(self.asked**2, p)
            return Shares(tree, squares, p, power, public=self.known)
        tables = measured(workload, ordered)
        coordinates = Coordinates(workload.sizes, ordered)
        spaces = coordinates.spaces(tables, workload.queries, p, apart=self.known is not None)
        scales = np.zeros((len(tables), workload.tree.nodes))
        scales[: len(workload.tables)] = self.asked
        squares = self.orbits.squares(spaces.as_one(scales, p), p)
        return Shares(tree, squares, p, power, spaces, public=self.known)

    def problem(self, p: float, numbers: Mapping[int, tuple[Array, Array]]) -> NestedCounts:
        """The problem of the solver for the norm, with t and h of ordered attributes."""
        workload, tree = self.workload, self.orbits.tree
        if isinstance(workload, RegionsWorkload):
            squares = self.orbits.squares(self.asked**2, p)
            return NestedCounts(tree, squares, public=self.known)
        spaces = (
            ordered_spaces(workload.sizes, workload.tables, numbers)
            if numbers
            else spaces_of(workload.sizes, workload.tables, apart=self.known is not None)
        )
        squares = self.orbits.squares(spaces.as_one(self.asked, p), p)
        return NestedCounts(tree, squares, spaces, public=self.known)

    def weights(self, shares: Array, power: int = 1) -> Array:
        """Weights of all places, from the shares of orbits."""
        return self.orbits.shares(shares if power == 2 else np.sqrt(shares))

    def duals(
        self,
        p: float,
        problem: NestedCounts,
        u: Array,
        w: Array,
        *,
        queries: Mapping[int, Array],
        cells: Mapping[int, Array],
    ) -> tuple[Array, Array]:
        """Dual weights of all queries and cells, from those of the solver's problem.

        Args:
            p: in [2, inf].
            problem: the problem that was solved.
            u: its weights of these.
            w: of places.
            queries: weights of the queries on each ordered attribute.
            cells: weights of its values.
        """
        workload = self.workload
        nodes = np.zeros((len(problem.spaces.answers), problem.tree.nodes))
        nodes.ravel()[problem.asked] = u
        nodes, w = self.orbits.queries(nodes, p), self.orbits.cells(w)
        if isinstance(workload, RegionsWorkload):
            return nodes[0, workload.asked], w
        of_tables = problem.spaces.dual_of_answers(nodes, p)
        of_answers = []
        for part in workload.parts:
            row = of_tables[workload.tables.index(part.table), part.nodes]
            along = [queries.get(i, np.ones(workload.asked_of(i))) for i in part.table]
            of_answers.append(np.multiply.outer(row, kronecker.outer(along)).ravel())
        values = [cells.get(i, np.full(n, 1 / n)) for i, n in enumerate(workload.sizes)]
        return np.concatenate(of_answers), kronecker.outer([w, *values])


def measured(
    workload: RegionTablesWorkload, ordered: Ordered = MappingProxyType({})
) -> list[Table]:
    """The tables that are asked for, and the one of all their attributes.

    Where ordered attributes have coordinates, with and without each of them.
    """
    every = tuple(sorted(set().union(*workload.tables)))
    tables = dict.fromkeys([*workload.tables, every])
    for table in list(tables):
        inner = [i for i in table if i in ordered]
        for count in range(len(inner)):
            for left in combinations(inner, len(inner) - count):
                tables.setdefault(tuple(i for i in table if i not in left))
    return list(tables)


def nested_of(workload: Workload) -> NestedWorkload | None:
    """The workload as counts or tables of regions, including the public part; None for others."""
    return workload.whole if isinstance(workload.whole, NestedWorkload) else None


def known_places(workload: NestedWorkload, public: Public) -> Flags | None:
    """The places whose sums are public, with all above them, shape (P,); None for no such."""
    tree = workload.tree
    tops = tops_of(tree, public, workload.shape[1] // tree.cells)
    return None if tops is None else tree.upward(tops)


def ordered_tables(workload: NestedWorkload) -> RegionTablesWorkload | None:
    """The tables with ordered attributes that a workload is, if it is such."""
    if isinstance(workload, RegionTablesWorkload) and workload.queries:
        return workload
    return None


def of_weights(
    name: str,
    workload: NestedWorkload,
    weights: Array,
    ordered: Ordered = MappingProxyType({}),
    public: Public = NOTHING,
) -> RegionTablesStrategy:
    """The counts or tables with these weights of places, for known answers with a name."""
    tree, public = workload.tree, public if public.name else NOTHING
    if isinstance(workload, RegionsWorkload):
        cells = weights[tree.place_of_cell]  # that of a cell whose count is public costs nothing
        weights[tree.place_of_cell] = np.where(cells > 0, cells, weights.max())
        return RegionsStrategy(name, tree, weights, public=public)
    tables = measured(workload, ordered)
    return RegionTablesStrategy(name, tree, workload.sizes, tables, weights, ordered, public=public)


def equal_shares(workload: NestedWorkload) -> RegionTablesStrategy:
    """All regions asked for, with equal squared weights on the longest paths."""
    counts = OrbitCounts(workload)
    return of_weights("equal-shares", workload, counts.weights(counts.shares(2.0).equal()))


def level_shares(workload: NestedWorkload) -> RegionTablesStrategy:
    """All regions asked for; those of a level take an equal part of the remaining sensitivity."""
    counts = OrbitCounts(workload)
    return of_weights("level-shares", workload, counts.weights(counts.shares(2.0).best_of_levels()))


def cells_alone(workload: NestedWorkload, public: Public = NOTHING) -> RegionTablesStrategy:
    """A count for each cell: of each place of the lowest level, by all attributes."""
    tree, public = workload.tree, public if public.name else NOTHING
    weights = np.zeros(tree.places)
    weights[tree.place_of_cell] = 1.0
    if isinstance(workload, RegionsWorkload):
        return RegionsStrategy("identity", tree, weights, public=public)
    every = tuple(range(len(workload.sizes)))
    return RegionTablesStrategy(
        "identity", tree, workload.sizes, [every], weights[None], public=public
    )


def queries_alone(workload: NestedWorkload) -> RegionTablesStrategy | None:
    """The queries themselves; None if some have the same cells, or a count is in none alone."""
    tree, scales = workload.tree, np.atleast_2d(workload.scales)
    weights = np.zeros((len(scales), tree.places))
    for row, of_nodes in zip(weights, scales, strict=True):
        nodes = np.flatnonzero(of_nodes)
        places = tree.place_of_node[nodes]
        if np.bincount(places).max(initial=0) > 1:
            return None
        row[places] = of_nodes[nodes]
    if isinstance(workload, RegionTablesWorkload):
        if workload.queries:
            return None
        return RegionTablesStrategy("workload", tree, workload.sizes, workload.tables, weights)
    told = weights[0, tree.place_of_cell].all()
    return RegionsStrategy("workload", tree, weights[0]) if told else None
