"""Strategies for counts and tables of regions that nest: of any shares, and of usual ones.

A count, or a table, of every region has a share of the sensitivity (`trees.shares`): the best ones
are the design, equal ones along the longest paths are what is usual, the best ones of whole levels
lie between, and the lowest places alone are the histogram.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from types import MappingProxyType

import numpy as np

from pmldesign.strategies.base import Strategy
from pmldesign.strategies.nested.coordinates import Coordinates
from pmldesign.strategies.nested.regions import RegionsStrategy
from pmldesign.strategies.nested.tables import RegionTablesStrategy
from pmldesign.workloads.base import WRITTEN_CELLS, Workload
from pmldesign.workloads.nested.known import tops_of
from pmldesign.workloads.nested.regions import RegionsWorkload
from pmldesign.workloads.nested.tables import NestedWorkload, RegionTablesWorkload, Table
from pmldesign.workloads.public import NOTHING, Public
from pmldesign_solvers.operators import mode_products
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.tables.measured import Measured
from pmldesign_solvers.trees.problem import NestedCounts
from pmldesign_solvers.trees.shares import Shares
from pmldesign_solvers.trees.spaces import ordered_spaces, spaces_of
from pmldesign_solvers.trees.tree import Flags

Ordered = Mapping[int, Measured]
"""What is measured of each ordered attribute."""

EQUAL_SHARES, LEVEL_SHARES = "equal-shares", "level-shares"
"""The names of baselines: the budget divided evenly among the levels, or as is best at p = 2."""


def nested_of(workload: Workload) -> NestedWorkload | None:
    """The counts or tables of regions that a workload is, with what is public."""
    return workload.whole if isinstance(workload.whole, NestedWorkload) else None


def known_places(workload: NestedWorkload, public: Public) -> Flags | None:
    """The places whose sums are public, with all above them, shape (P,); None for no such."""
    tree = workload.tree
    tops = tops_of(tree, public, workload.shape[1] // tree.cells)
    return None if tops is None else tree.upward(tops)


def shares_of(
    workload: NestedWorkload,
    p: float,
    power: int = 1,
    *,
    known: Flags | None = None,
    ordered: Ordered = MappingProxyType({}),
) -> Shares:
    """What finds shares: power 1 for Gaussian noise, 2 for Laplace noise; sums may be public.

    Of ordered attributes the values are measured, or coordinates that are given.
    """
    asked = workload.open_scales(known)
    if isinstance(workload, RegionsWorkload):
        return Shares(workload.tree, asked**2, p, power, public=known)
    tables = measured(workload, ordered)
    coordinates = Coordinates(workload.sizes, ordered)
    spaces = coordinates.spaces(tables, workload.queries, p, apart=known is not None)
    scales = np.zeros((len(tables), workload.tree.nodes))
    scales[: len(workload.tables)] = asked
    return Shares(workload.tree, spaces.as_one(scales, p), p, power, spaces, public=known)


def ordered_tables(workload: NestedWorkload) -> RegionTablesWorkload | None:
    """The tables with ordered attributes that a workload is, if it is such."""
    if isinstance(workload, RegionTablesWorkload) and workload.queries:
        return workload
    return None


def problem_of(
    workload: NestedWorkload,
    p: float,
    numbers: Mapping[int, tuple[Array, Array]],
    known: Flags | None = None,
) -> NestedCounts:
    """What the solver for the norm asks, with t and h of ordered attributes; sums may be public."""
    asked = workload.open_scales(known)
    if isinstance(workload, RegionsWorkload):
        return NestedCounts(workload.tree, asked**2, public=known)
    spaces = (
        ordered_spaces(workload.sizes, workload.tables, numbers)
        if numbers
        else spaces_of(workload.sizes, workload.tables, apart=known is not None)
    )
    return NestedCounts(workload.tree, spaces.as_one(asked, p), spaces, public=known)


def duals_of(
    workload: NestedWorkload,
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
        workload: the queries.
        p: in [2, inf].
        problem: what the solver asked.
        u: its weights of these.
        w: of places.
        queries: weights of the queries on each ordered attribute.
        cells: weights of its values.
    """
    nodes = np.zeros(len(problem.spaces.answers) * problem.tree.nodes)
    nodes[problem.asked] = u
    if isinstance(workload, RegionsWorkload):
        return nodes[workload.asked], w
    of_tables = problem.spaces.dual_of_answers(nodes.reshape(workload.scales.shape), p)
    of_answers = []
    for part in workload.parts:
        row = of_tables[workload.tables.index(part.table), part.nodes]
        along = [queries.get(i, np.ones(workload.asked_of(i))) for i in part.table]
        of_answers.append(np.multiply.outer(row, mode_products.outer(along)).ravel())
    values = [cells.get(i, np.full(n, 1 / n)) for i, n in enumerate(workload.sizes)]
    return np.concatenate(of_answers), mode_products.outer([w, *values])


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


def equal_shares(workload: NestedWorkload) -> RegionTablesStrategy:
    """All that is asked for, the squared weights alike on the longest paths."""
    return of_weights(EQUAL_SHARES, workload, np.sqrt(shares_of(workload, 2.0).equal()))


def level_shares(workload: NestedWorkload) -> RegionTablesStrategy:
    """All that is asked for, of which all of a level take the same part of what is left."""
    return of_weights(LEVEL_SHARES, workload, np.sqrt(shares_of(workload, 2.0).best_of_levels()))


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
    """The queries themselves; None where some have the same cells, or a count is in none alone."""
    tree, scales = workload.tree, np.atleast_2d(workload.scales)
    weights = np.zeros((len(scales), tree.places))
    for row, of_nodes in zip(weights, scales, strict=True):
        nodes = np.flatnonzero(of_nodes)
        places = tree.place_of_node[nodes]
        if len(np.unique(places)) < len(places):
            return None
        row[places] = of_nodes[nodes]
    if isinstance(workload, RegionTablesWorkload):
        if workload.queries:
            return None
        return RegionTablesStrategy("workload", tree, workload.sizes, workload.tables, weights)
    told = weights[0, tree.place_of_cell].all()
    return RegionsStrategy("workload", tree, weights[0]) if told else None


def regions_baseline(name: str, workload: Workload) -> Strategy | None:
    """Of counts that nest: other weights of the same counts; None where matrices will do."""
    nested = nested_of(workload)
    if nested is None:
        return None
    large = nested.shape[1] > WRITTEN_CELLS
    if name == "identity" and large:
        return cells_alone(nested)
    if name == "workload" and large:
        return queries_alone(nested)
    if name == LEVEL_SHARES:
        return level_shares(nested)
    return equal_shares(nested) if name == EQUAL_SHARES else None
