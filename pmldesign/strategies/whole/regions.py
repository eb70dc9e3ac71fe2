"""Tables at regions that nest, or counts alone, each times a whole number.

Sensitivities are sums of whole numbers over paths (`Tree.above`, `Tree.farthest`): exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pmldesign.privacy.neighbours import Neighbours
from pmldesign.privacy.noise import Noise
from pmldesign.strategies.whole.integers import Integers, multiples, scaled, shifted
from pmldesign.strategies.whole.lattice import Lattice
from pmldesign.strategies.whole.structures import lattice_of_unit, whole_designs, whole_part
from pmldesign.workloads.nested.tables import along_axes, farthest_tables, table_sums

if TYPE_CHECKING:
    from pmldesign.strategies.base import Strategy
    from pmldesign.strategies.nested.tables import RegionTablesStrategy


def region_tables_lattice(strategy: Strategy, regions: RegionTablesStrategy, bits: int) -> Lattice:
    """Tables at regions, or counts alone.

    Args:
        strategy: R, with or without what is public.
        regions: the tables.
        bits: of the lattice.
    """
    if regions.ordered:
        return ordered_tables_lattice(strategy, regions, bits)
    tree = regions.tree
    weights = regions.of_nodes
    measured = weights > 0
    factors, units = multiples(weights[measured], bits)
    absolute = np.zeros(weights.shape, dtype=object)
    absolute[measured] = factors.astype(object)
    answers = regions.spaces.answers.astype(np.intp)[np.nonzero(measured)[0]]
    _, apart = regions.coordinates.distances(regions.tables, "l2")
    twice = apart.astype(int).astype(object)  # 2 or 0

    def image(x: Integers) -> Integers:
        tables = []
        for table, nodes, row in zip(regions.tables, regions.measured, absolute, strict=True):
            counts = table_sums(tree, regions.sizes, table, x)[tree.place_of_node[nodes]]
            tables.append(scaled(counts, row[nodes]).reshape(-1, *x.shape[1:]))
        return np.concatenate(tables)

    lengths = _lengths(
        absolute,
        lambda values: tree.above(values.sum(axis=0)),
        lambda values: farthest_tables(tree, values, twice, regions.tops),
    )
    return Lattice(strategy, strategy, np.repeat(units, answers), image, lengths=lengths)


def ordered_tables_lattice(strategy: Strategy, regions: RegionTablesStrategy, bits: int) -> Lattice:
    """Coordinates of ordered attributes at regions, in whole numbers (`structures`)."""
    designs = {i: part.rows for i, part in regions.ordered.items()}
    own = whole_designs(regions, designs, regions.weights, regions.tables, bits)
    weights = whole_part(regions.of_nodes, own.precision, own.heaviest)

    def image(x: Integers) -> Integers:
        tables = []
        for table, nodes, shift, row in zip(
            regions.tables, regions.measured, own.shifts, weights, strict=True
        ):
            counts = table_sums(regions.tree, regions.sizes, table, x)
            maps = [own.turns.get(i) for i in table]
            places = regions.tree.place_of_node[nodes]
            rows = along_axes(maps, [regions.sizes[i] for i in table], counts[places])
            moved = shifted(rows.astype(object) * row[nodes].astype(object)[:, None], shift)
            tables.append(moved.ravel())
        return np.concatenate(tables)

    return lattice_of_unit(strategy, image, own.unit)


def _lengths(
    absolute: Integers, above: Callable[[Any], Any], farthest: Callable[[Any], Any]
) -> dict[tuple[Neighbours, Noise], int]:
    """The exact sensitivities, from what a cell and two cells count."""
    lengths = {}
    for noise, values in ((Noise.LAPLACE, absolute), (Noise.GAUSSIAN, absolute**2)):
        lengths[Neighbours.ADD_REMOVE, noise] = int(above(values).max())
        lengths[Neighbours.REPLACE, noise] = int(farthest(values))
    return lengths
