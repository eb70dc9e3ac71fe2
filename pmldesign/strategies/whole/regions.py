"""Counts of regions that nest, and tables there, each times a whole number.

Sensitivities are sums of whole numbers over paths (`Tree.above`, `Tree.farthest`): exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise
from pmldesign.strategies.whole.integers import Integers, scaled
from pmldesign.strategies.whole.lattice import Lattice
from pmldesign.strategies.whole.rounding import multiples
from pmldesign.workloads.nested.tables import farthest_tables, table_sums

if TYPE_CHECKING:
    from pmldesign.strategies.base import Strategy
    from pmldesign.strategies.region_tables import RegionTablesStrategy
    from pmldesign.strategies.regions import RegionsStrategy


def regions_lattice(strategy: Strategy, regions: RegionsStrategy, bits: int) -> Lattice:
    """Counts of regions.

    Args:
        strategy: R, with or without a public total.
        regions: the counts.
        bits: of the lattice.
    """
    tree = regions.tree
    factors, units = multiples(regions.node_weights[regions.measured], bits)
    absolute = np.zeros(tree.nodes, dtype=object)
    absolute[regions.measured] = factors.astype(object)

    def image(x: Integers) -> Integers:
        return scaled(tree.sums(x)[regions.measured], factors)

    lengths = _lengths(absolute, tree.above, tree.farthest)
    return Lattice(strategy, strategy, units, image, lengths=lengths)


def region_tables_lattice(strategy: Strategy, regions: RegionTablesStrategy, bits: int) -> Lattice:
    """Tables at regions; arguments as `regions_lattice`."""
    tree, spaces = regions.tree, regions.spaces
    weights = regions.node_weights
    measured = weights > 0
    factors, units = multiples(weights[measured], bits)
    absolute = np.zeros(weights.shape, dtype=object)
    absolute[measured] = factors.astype(object)
    answers = spaces.answers.astype(np.intp)[np.nonzero(measured)[0]]

    def image(x: Integers) -> Integers:
        tables = []
        for table, nodes, row in zip(regions.tables, regions.measured, absolute, strict=True):
            counts = table_sums(tree, regions.sizes, table, x)[tree.place_of_node[nodes]]
            tables.append(scaled(counts, row[nodes]).reshape(-1, *x.shape[1:]))
        return np.concatenate(tables)

    lengths = _lengths(
        absolute,
        lambda values: tree.above(values.sum(axis=0)),
        lambda values: farthest_tables(tree, spaces, values),
    )
    return Lattice(strategy, strategy, np.repeat(units, answers), image, lengths=lengths)


def _lengths(
    absolute: Integers, above: Callable[[Any], Any], farthest: Callable[[Any], Any]
) -> dict[tuple[Neighbours, Noise], int]:
    """The exact sensitivities, from what a cell and two cells count."""
    lengths = {}
    for noise, values in ((Noise.LAPLACE, absolute), (Noise.GAUSSIAN, absolute**2)):
        lengths[Neighbours.ADD_REMOVE, noise] = int(above(values).max())
        lengths[Neighbours.REPLACE, noise] = int(farthest(values))
    return lengths
