"""Strategies for tables as arrays of a file, and back.

All have `sizes`. Residuals of marginals are `residuals` (one row for each set of attributes, filled
up with -1) and `precisions`; weighted tables are `tables` (rows likewise) and `weights`; weighted
products have `designed` beside (the attributes with a design of their own) and `design_0`, ... (D
of each). Sectors are `ordered` (attributes with coordinates of their own), `features` (their number
for each), `coordinates_0`, ... (Y of each), and one row for each sector: `sector_plain` and
`sector_spectators` (attributes, filled up with -1) and `sector_sets`, the number of sets; `sets`
(one row each, filled up with -1) and `entries` (of all E, row by row) one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from pmldesign.errors import InvalidInputError
from pmldesign.files.arrays import Archive, whole_numbers
from pmldesign.strategies import (
    MarginalsStrategy,
    TablesStrategy,
    WeightedProductsStrategy,
    WeightedTablesStrategy,
)
from pmldesign.workloads.tables.attributes import attribute_sizes
from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.tables.measured import Measured
from pmldesign_solvers.tables.problem import Attributes
from pmldesign_solvers.tables.sectors import Sector


def tables_arrays(strategy: TablesStrategy) -> dict[str, Any]:
    """What a strategy is made of."""
    ordered = sorted(strategy.ordered)
    sectors = strategy.sectors
    return {
        "sizes": np.array(strategy.sizes, dtype=np.int64),
        "ordered": np.array(ordered, dtype=np.int64),
        "features": np.array([strategy.features[i] for i in ordered], dtype=np.int64),
        **{f"coordinates_{k}": strategy.ordered[i].rows for k, i in enumerate(ordered)},
        "sector_plain": _padded([sector.plain for sector in sectors]),
        "sector_spectators": _padded([sector.spectators for sector in sectors]),
        "sector_sets": np.array([len(sector.sets) for sector in sectors], dtype=np.int64),
        "sets": _padded([s for sector in sectors for s in sector.sets]),
        "entries": np.concatenate([sector.matrix.ravel() for sector in sectors]),
    }


def tables_strategy(name: str, arrays: Archive) -> TablesStrategy:
    """The strategy that arrays stand for.

    Raises:
        InvalidInputError: they do not fit together, or an E is not positive.
    """
    sizes = attribute_sizes(whole_numbers("sizes", arrays["sizes"]))
    ordered = whole_numbers("ordered", arrays["ordered"])
    features = dict(zip(ordered, whole_numbers("features", arrays["features"]), strict=True))
    coordinates = {}
    for k, i in enumerate(ordered):
        rows = np.array(arrays[f"coordinates_{k}"], dtype=np.float64)
        if rows.shape != (sizes[i] - 1, sizes[i]) or not 0 <= features[i] < sizes[i]:
            raise InvalidInputError(
                f"strategy {name!r}: the coordinates of attribute {i} do not fit"
            )
        stacked = np.vstack([np.ones(sizes[i]), rows])
        coordinates[i] = Measured(rows, np.linalg.inv(stacked))
    sets = iter(_sets(arrays["sets"]))
    entries, start, sectors = np.array(arrays["entries"], dtype=np.float64), 0, []
    for plain, spectators, count in zip(
        _sets(arrays["sector_plain"]),
        _sets(arrays["sector_spectators"]),
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


def marginals_arrays(strategy: MarginalsStrategy) -> dict[str, Any]:
    """What residuals of marginals are made of."""
    return {
        "sizes": np.array(strategy.sizes, dtype=np.int64),
        "residuals": _padded(strategy.residuals),
        "precisions": strategy.precisions,
    }


def marginals_strategy(name: str, arrays: Archive) -> MarginalsStrategy:
    """The residuals of marginals that arrays stand for.

    Raises:
        InvalidInputError: they do not fit together.
    """
    sizes = whole_numbers("sizes", arrays["sizes"])
    whole_numbers("residuals", arrays["residuals"])
    return MarginalsStrategy(name, sizes, _sets(arrays["residuals"]), arrays["precisions"])


def weighted_arrays(
    strategy: WeightedTablesStrategy | WeightedProductsStrategy,
) -> dict[str, Any]:
    """What weighted tables are made of."""
    return {
        "sizes": np.array(strategy.sizes, dtype=np.int64),
        "tables": _padded(strategy.subsets),
        "weights": strategy.weights,
    }


def weighted_strategy(name: str, arrays: Archive) -> WeightedTablesStrategy:
    """The weighted tables that arrays stand for.

    Raises:
        InvalidInputError: they do not fit together.
    """
    sizes = whole_numbers("sizes", arrays["sizes"])
    whole_numbers("tables", arrays["tables"])
    return WeightedTablesStrategy(name, sizes, _sets(arrays["tables"]), arrays["weights"])


def products_arrays(strategy: WeightedProductsStrategy) -> dict[str, Any]:
    """What weighted products are made of."""
    designed = sorted(strategy.designs)
    return {
        **weighted_arrays(strategy),
        "designed": np.array(designed, dtype=np.int64),
        **{f"design_{k}": strategy.designs[i] for k, i in enumerate(designed)},
    }


def products_strategy(name: str, arrays: Archive) -> WeightedProductsStrategy:
    """The weighted products that arrays stand for.

    Raises:
        InvalidInputError: they do not fit together.
    """
    whole_numbers("tables", arrays["tables"])
    designed = whole_numbers("designed", arrays["designed"])
    designs = {i: arrays[f"design_{k}"] for k, i in enumerate(designed)}
    sizes = whole_numbers("sizes", arrays["sizes"])
    return WeightedProductsStrategy(
        name, sizes, designs, _sets(arrays["tables"]), arrays["weights"]
    )


def _positive(name: str, matrix: Array) -> Array:
    values = np.linalg.eigvalsh(matrix) if np.isfinite(matrix).all() else np.zeros(1)
    if not np.array_equal(matrix, matrix.T) or values[0] <= 0:
        raise InvalidInputError(f"strategy {name!r}: the matrix of a sector is not positive")
    return matrix


def _padded(sets: Sequence[Attributes]) -> Any:
    rows = np.full((len(sets), max(map(len, sets))), -1, dtype=np.int64)
    for row, members in zip(rows, sets, strict=True):
        row[: len(members)] = members
    return rows


def _sets(rows: Any) -> list[Attributes]:
    return [tuple(row[row >= 0].tolist()) for row in rows]
