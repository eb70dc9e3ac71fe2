"""Strategies of sectors as arrays of a file, and back.

`sizes`, `ordered` (attributes with coordinates of their own), `features` (their number for each),
`coordinates_0`, ... (Y of each), and one row for each sector: `sector_plain` and
`sector_spectators` (attributes) and `sector_sets`, the number of sets; `sets` (one row each) and
`entries` (of all E, row by row) one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import islice

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.files.arrays import Archive, whole_numbers
from pmldesign.files.parts import Arrays, padded, unpadded
from pmldesign.strategies.tables.strategy import TablesStrategy
from pmldesign.workloads.tables.attributes import attribute_sizes
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.tables.measured import Measured
from pmldesign_solvers.tables.sectors import Sector


def tables_arrays(strategy: TablesStrategy) -> Arrays:
    """What a strategy is made of."""
    ordered = sorted(strategy.ordered)
    sectors = strategy.sectors
    return {
        "sizes": np.array(strategy.sizes, dtype=np.int64),
        "features": np.array([strategy.features[i] for i in ordered], dtype=np.int64),
        **coordinates_arrays(strategy.ordered),
        "sector_plain": padded([sector.plain for sector in sectors]),
        "sector_spectators": padded([sector.spectators for sector in sectors]),
        "sector_sets": np.array([len(sector.sets) for sector in sectors], dtype=np.int64),
        "sets": padded([s for sector in sectors for s in sector.sets]),
        "entries": np.concatenate([sector.matrix.ravel() for sector in sectors]),
    }


def coordinates_arrays(ordered: Mapping[int, Measured]) -> Arrays:
    """What is measured of ordered attributes."""
    attributes = sorted(ordered)
    rows = {f"coordinates_{k}": ordered[i].rows for k, i in enumerate(attributes)}
    return {"ordered": np.array(attributes, dtype=np.int64), **rows}


def read_coordinates(name: str, arrays: Archive, sizes: Sequence[int]) -> dict[int, Measured]:
    """The same from arrays.

    Raises:
        InvalidInputError: they do not fit the numbers of values.
    """
    coordinates = {}
    for k, i in enumerate(whole_numbers("ordered", arrays["ordered"])):
        rows = np.array(arrays[f"coordinates_{k}"], dtype=np.float64)
        if not 0 <= i < len(sizes) or rows.shape != (sizes[i] - 1, sizes[i]):
            raise InvalidInputError(
                f"strategy {name!r}: the coordinates of attribute {i} do not fit"
            )
        coordinates[i] = Measured(rows, np.linalg.inv(np.vstack([np.ones(sizes[i]), rows])))
    return coordinates


def tables_strategy(name: str, arrays: Archive) -> TablesStrategy:
    """The strategy that arrays stand for.

    Raises:
        InvalidInputError: they do not fit together, or an E is not positive.
    """
    sizes = attribute_sizes(whole_numbers("sizes", arrays["sizes"]))
    coordinates = read_coordinates(name, arrays, sizes)
    features = dict(zip(coordinates, whole_numbers("features", arrays["features"]), strict=True))
    if not all(0 <= features[i] < sizes[i] for i in coordinates):
        raise InvalidInputError(f"strategy {name!r}: features do not fit the coordinates")
    sets = iter(unpadded("sets", arrays))
    entries, start, sectors = np.array(arrays["entries"], dtype=np.float64), 0, []
    for plain, spectators, count in zip(
        unpadded("sector_plain", arrays),
        unpadded("sector_spectators", arrays),
        whole_numbers("sector_sets", arrays["sector_sets"]),
        strict=True,
    ):
        members = tuple(islice(sets, count))
        size = sum(math.prod(features[i] for i in s) for s in members)
        matrix = entries[start : start + size**2].reshape(size, size)
        start += size**2
        sectors.append(Sector(plain, spectators, members, _positive(name, matrix)))
    if start != entries.size or next(sets, None) is not None:
        raise InvalidInputError(f"strategy {name!r}: its sectors have more sets or entries")
    return TablesStrategy(name, sizes, coordinates, features, sectors)


def _positive(name: str, matrix: Array) -> Array:
    values = np.linalg.eigvalsh(matrix) if np.isfinite(matrix).all() else np.zeros(1)
    if not np.array_equal(matrix, matrix.T) or values[0] <= 0:
        raise InvalidInputError(f"strategy {name!r}: the matrix of a sector is not positive")
    return matrix
