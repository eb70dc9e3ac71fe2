"""Strategies for counts and tables of regions that nest: of any shares, and of usual ones.

A count, or a table, of every region has a share of the sensitivity (`trees.shares`): the best ones
are the design, equal ones along the longest paths are what is usual, the best ones of whole levels
lie between, and the lowest places alone are the histogram.
"""

from __future__ import annotations

import math

import numpy as np

from pmldesign.strategies.base import Strategy
from pmldesign.strategies.region_tables import RegionTablesStrategy
from pmldesign.strategies.regions import RegionsStrategy
from pmldesign.workloads.base import WRITTEN_CELLS, Workload
from pmldesign.workloads.nested.regions import RegionsWorkload
from pmldesign.workloads.nested.tables import RegionTablesWorkload, Table
from pmldesign_solvers.operators.operator import Array, Indices
from pmldesign_solvers.trees.problem import NestedCounts
from pmldesign_solvers.trees.shares import Shares
from pmldesign_solvers.trees.spaces import spaces_of

NestedWorkload = RegionsWorkload | RegionTablesWorkload
NestedStrategy = RegionsStrategy | RegionTablesStrategy

EQUAL_SHARES, LEVEL_SHARES = "equal-shares", "level-shares"
"""The names of baselines: the budget divided evenly among the levels, or as is best at p = 2."""


def nested_of(workload: Workload) -> NestedWorkload | None:
    """The counts or tables of regions that a workload is, with what is public."""
    return workload.whole if isinstance(workload.whole, NestedWorkload) else None


def shares_of(
    workload: NestedWorkload, p: float, power: int = 1, *, public: bool = False
) -> Shares:
    """What finds shares: power 1 for Gaussian noise, 2 for Laplace noise; a total may be public."""
    if isinstance(workload, RegionsWorkload):
        return Shares(workload.tree, workload.scales**2, p, power, public=public)
    tables = measured(workload)
    spaces, scales = spaces_of(workload.sizes, tables), np.zeros((len(tables), workload.tree.nodes))
    scales[: len(workload.tables)] = workload.scales
    return Shares(workload.tree, spaces.as_one(scales, p), p, power, spaces)


def problem_of(workload: NestedWorkload, p: float) -> NestedCounts:
    """What the solver for the norm asks."""
    if isinstance(workload, RegionsWorkload):
        return NestedCounts(workload.tree, workload.scales**2)
    spaces = workload.spaces
    return NestedCounts(workload.tree, spaces.as_one(workload.scales, p), spaces)


def duals_of(
    workload: NestedWorkload, p: float, asked: Indices, u: Array, w: Array
) -> tuple[Array, Array]:
    """Dual weights of all queries and cells, from those of what the solver asked."""
    if isinstance(workload, RegionsWorkload):
        of_nodes = np.zeros(workload.tree.nodes)
        of_nodes[asked] = u
        return of_nodes[workload.asked], w
    plain = math.prod(workload.sizes)
    return workload.dual_of_answers(u, asked, p), np.repeat(w / plain, plain)


def of_weights(name: str, workload: NestedWorkload, weights: Array) -> NestedStrategy:
    """The counts or tables with these weights of places."""
    if isinstance(workload, RegionsWorkload):
        return RegionsStrategy(name, workload.tree, weights)
    return RegionTablesStrategy(name, workload.tree, workload.sizes, measured(workload), weights)


def measured(workload: RegionTablesWorkload) -> list[Table]:
    """The tables that are asked for, and the one of all their attributes."""
    every = tuple(sorted(set().union(*workload.tables)))
    return list(dict.fromkeys([*workload.tables, every]))


def equal_shares(workload: NestedWorkload) -> NestedStrategy:
    """All that is asked for, the squared weights alike on the longest paths."""
    return of_weights(EQUAL_SHARES, workload, np.sqrt(shares_of(workload, 2.0).equal()))


def level_shares(workload: NestedWorkload) -> NestedStrategy:
    """All that is asked for, of which all of a level take the same part of what is left."""
    return of_weights(LEVEL_SHARES, workload, np.sqrt(shares_of(workload, 2.0).best_of_levels()))


def cells_alone(workload: NestedWorkload) -> NestedStrategy:
    """A count for each cell: of each place of the lowest level, by all attributes."""
    tree = workload.tree
    weights = np.zeros(tree.places)
    weights[tree.place_of_cell] = 1.0
    if isinstance(workload, RegionsWorkload):
        return RegionsStrategy("identity", tree, weights)
    every = tuple(range(len(workload.sizes)))
    return RegionTablesStrategy("identity", tree, workload.sizes, [every], weights[None])


def queries_alone(workload: NestedWorkload) -> NestedStrategy | None:
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
        return RegionTablesStrategy("workload", tree, workload.sizes, workload.tables, weights)
    told = weights[0, tree.place_of_cell].all()
    return RegionsStrategy("workload", tree, weights[0]) if told else None


def nested_baseline(name: str, workload: Workload) -> Strategy | None:
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
