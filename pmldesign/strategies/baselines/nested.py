"""Strategies for counts and tables of regions that nest: of any shares, and of usual ones.

A count, or a table, of every region has a share of the sensitivity (`trees.shares`): the best ones
are the design, equal ones along the longest paths are what is usual, the best ones of whole levels
lie between, and the lowest places alone are the histogram.
"""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from pmldesign.strategies.base import Strategy
from pmldesign.strategies.baselines.orbits import OrbitCounts, Ordered, measured
from pmldesign.strategies.baselines.registry import EQUAL_SHARES, LEVEL_SHARES
from pmldesign.strategies.nested.regions import RegionsStrategy
from pmldesign.strategies.nested.tables import RegionTablesStrategy
from pmldesign.workloads.base import WRITTEN_CELLS, Workload
from pmldesign.workloads.nested.regions import RegionsWorkload, tops_of
from pmldesign.workloads.nested.tables import NestedWorkload, RegionTablesWorkload
from pmldesign.workloads.public import NOTHING, Public
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.trees.tree import Flags


def nested_of(workload: Workload) -> NestedWorkload | None:
    """The counts or tables of regions that a workload is, with what is public."""
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
    """All that is asked for, the squared weights alike on the longest paths."""
    counts = OrbitCounts(workload)
    return of_weights(EQUAL_SHARES, workload, counts.weights(counts.shares(2.0).equal()))


def level_shares(workload: NestedWorkload) -> RegionTablesStrategy:
    """All that is asked for, of which all of a level take the same part of what is left."""
    counts = OrbitCounts(workload)
    return of_weights(LEVEL_SHARES, workload, counts.weights(counts.shares(2.0).best_of_levels()))


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
        if np.bincount(places).max(initial=0) > 1:
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
