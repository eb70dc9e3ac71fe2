"""What solvers ask about counts and tables of regions, once for all places that are alike.

Places that a symmetry of the tree, its weights and what is public takes into each other are one
node of a smaller tree (`pmldesign_solvers.trees.orbits`): ten million places of which many are
alike below each parent are designed as a hundredth of them. What is found is that of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from types import MappingProxyType

import numpy as np

from pmldesign.strategies.nested.coordinates import Coordinates
from pmldesign.workloads.nested.regions import RegionsWorkload
from pmldesign.workloads.nested.tables import NestedWorkload, RegionTablesWorkload, Table
from pmldesign_solvers.operators import mode_products
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.tables.measured import Measured
from pmldesign_solvers.trees.orbits import orbits_of
from pmldesign_solvers.trees.problem import NestedCounts
from pmldesign_solvers.trees.shares import Shares
from pmldesign_solvers.trees.spaces import ordered_spaces, spaces_of
from pmldesign_solvers.trees.tree import Flags

Ordered = Mapping[int, Measured]
"""What is measured of each ordered attribute."""


class OrbitCounts:
    """Counts or tables of regions, with a node for each orbit.

    Args:
        workload: the queries.
        known: the places whose sums are public, with all above them, shape (P,); None for none.

    Attributes:
        asked: the weights of tables and nodes, 0 where the count is public.
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
        """What finds shares: power 1 for Gaussian noise, 2 for Laplace noise.

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
        """What the solver for the norm asks, with t and h of ordered attributes."""
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
        """Dual weights of all queries and cells, from those of what the solver asked.

        Args:
            p: in [2, inf].
            problem: what the solver asked.
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
            of_answers.append(np.multiply.outer(row, mode_products.outer(along)).ravel())
        values = [cells.get(i, np.full(n, 1 / n)) for i, n in enumerate(workload.sizes)]
        return np.concatenate(of_answers), mode_products.outer([w, *values])


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
