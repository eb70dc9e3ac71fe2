"""Strategies with structure as arrays of a file, and back.

    product     `factor_0`, `factor_1` ... and, if they are not all 1, `weights`:
                R = diag(weights)^(1/2) (factor_0 x factor_1 x ...); dual weights too may be those
                of the factors, `dual_u_0`, `dual_w_0` ...
                beside a public table also `counted`, which attributes it counts, `sizes` of these,
                and `place`, the number of the factor for the open ones; residuals of marginals
                beside such a table have `counted` too
    blocks      `free` (the number of the attribute that they are about), `block_0`, `block_1` ...,
                `basis_0`, `basis_1` ... (orthonormal, of the other attributes in their order) and
                `combinations` (the block of every combination of their columns, -1 for none)
    stream      `poles` and `weights_of_poles` of the nodes, `u` and `w`, and the running sums that
                they are for: `rates`, `query_weights`, `step_weights`, a single number for equal
                ones; whatever its size
    epochs      for people who take part in fixed epochs: as stream, with `epochs` (k and b) and
                `epoch_weights`, one matrix for each class of steps, in place of `u` and `w`
    all ranges  as stream, without `u` and the running sums
    rows        `diagonal` and `rows`: R = [diag(diagonal); rows]
    tables      residuals of marginals, weighted tables and sectors: as in `tables_strategies`

What a file holds is told by the names of its arrays.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from pmldesign.files.arrays import Archive, whole_numbers
from pmldesign.files.streams import (
    all_ranges_arrays,
    epoch_arrays,
    read_all_ranges,
    read_epochs,
    read_stream,
    stream_arrays,
)
from pmldesign.files.tables_strategies import (
    marginals_arrays,
    marginals_strategy,
    products_arrays,
    products_strategy,
    tables_arrays,
    tables_strategy,
    weighted_arrays,
    weighted_strategy,
)
from pmldesign.strategies import (
    BlockStrategy,
    IdentityAndRows,
    MarginalsStrategy,
    ProductStrategy,
    Strategy,
    StreamStrategy,
    TablesStrategy,
    WeightedProductsStrategy,
    WeightedTablesStrategy,
)
from pmldesign.strategies.known_margins import KnownMarginalsStrategy, KnownProductStrategy
from pmldesign.strategies.participation.epochs import EpochStrategy
from pmldesign.strategies.streams import AllRangesStrategy
from pmldesign.workloads.known.marginals import KnownMargins
from pmldesign_solvers.operators.operator import Array


def structure_arrays(strategy: Strategy, *, large: bool) -> dict[str, Any] | None:
    """What a strategy is made of; None for one that is written out.

    Args:
        strategy: any.
        large: whether its matrices are too large to be written out.
    """
    arrays = _WRITERS.get(type(strategy))
    if arrays is None and large:
        arrays = _LARGE_WRITERS.get(type(strategy))
    return None if arrays is None else arrays(strategy)


def read_structure(name: str, arrays: Archive) -> Strategy | None:
    """The strategy that arrays of a file stand for; None if they are none of these.

    Raises:
        InvalidInputError: arrays that do not fit together.
        ValueError: a missing array.
    """
    for pattern, read in _READERS:
        if any(re.fullmatch(pattern, key) for key in arrays.names):
            return read(name, arrays)
    return None


def _product_arrays(strategy: ProductStrategy) -> dict[str, Array]:
    factors = {f"factor_{i}": part.matrix for i, part in enumerate(strategy.factors)}
    return factors if strategy.weights is None else {**factors, "weights": strategy.weights}


def _read_product(name: str, arrays: Archive) -> ProductStrategy:
    parts = [Strategy(name, factor) for factor in _numbered(arrays, "factor")]
    return ProductStrategy(name, parts, weights=arrays.optional("weights"))


def _table_arrays(strategy: KnownProductStrategy) -> dict[str, Any]:
    margins = strategy.margins
    return {
        **_product_arrays(strategy),
        "counted": np.array(margins.counted, dtype=np.int64),
        "sizes": np.array(margins.sizes, dtype=np.int64),
        "place": np.array([strategy.place], dtype=np.int64),
    }


def _read_table(name: str, arrays: Archive) -> KnownProductStrategy:
    counted, sizes = (tuple(whole_numbers(key, arrays[key])) for key in ("counted", "sizes"))
    (place,) = whole_numbers("place", arrays["place"])
    product = _read_product(name, arrays)
    cells, after = list(product.sizes), place + 1 + len(sizes) - len(product.factors)
    if not 0 <= place < len(cells) or after <= place or len(counted) != len(sizes):
        raise ValueError("place is no factor, or counted and sizes do not fit")
    merged = [*sizes[:place], math.prod(sizes[place:after]), *sizes[after:]]
    if (
        cells != merged
        or any(counted[place:after])
        or not all(counted[:place] + counted[after:])
        or not set(counted) <= {0, 1}
    ):
        raise ValueError("the factors have other sizes than the attributes")
    margins = KnownMargins(name, sizes, tuple(map(bool, counted)))
    return KnownProductStrategy(name, product.factors, margins, place)


def _residuals_arrays(strategy: KnownMarginalsStrategy) -> dict[str, Any]:
    counted = np.array(strategy.margins.counted, dtype=np.int64)
    return {**marginals_arrays(strategy), "counted": counted}


def _read_beside_table(name: str, arrays: Archive) -> Strategy:
    if "residuals" not in arrays:
        return _read_table(name, arrays)
    counted, plain = whole_numbers("counted", arrays["counted"]), marginals_strategy(name, arrays)
    if len(counted) != len(plain.sizes) or not set(counted) <= {0, 1}:
        raise ValueError("counted and sizes do not fit")
    margins = KnownMargins(name, plain.sizes, tuple(map(bool, counted)))
    if any(map(margins.attributes.issuperset, plain.residuals)):
        raise ValueError("a residual is one of the public table")
    return KnownMarginalsStrategy(plain, margins)


def _rows_arrays(strategy: IdentityAndRows) -> dict[str, Array]:
    return {"diagonal": strategy.diagonal, "rows": strategy.rows}


def _read_rows(name: str, arrays: Archive) -> IdentityAndRows:
    return IdentityAndRows(name, arrays["diagonal"], arrays["rows"])


def _block_arrays(strategy: BlockStrategy) -> dict[str, Any]:
    return {
        "free": np.array(strategy.index, dtype=np.int64),
        "combinations": strategy.combinations.astype(np.int64),
        **{f"basis_{i}": basis for i, basis in enumerate(strategy.bases)},
        **{f"block_{i}": part.matrix for i, part in enumerate(strategy.blocks)},
    }


def _read_blocks(name: str, arrays: Archive) -> BlockStrategy:
    parts = [Strategy(name, block) for block in _numbered(arrays, "block")]
    (free,) = whole_numbers("free", arrays["free"])
    return BlockStrategy(name, free, _numbered(arrays, "basis"), arrays["combinations"], parts)


def _numbered(arrays: Archive, name: str) -> list[Array]:
    """The arrays `name_0`, `name_1` ..., none missing."""
    present = {text for text in arrays.names if re.fullmatch(rf"{name}_[0-9]+", text)}
    wanted = [f"{name}_{i}" for i in range(len(present))]
    missing = next((text for text in wanted if text not in present), None)
    if missing is not None:
        raise ValueError(f"there is no array {missing!r}, but others of that kind")
    return [arrays[text] for text in wanted]


_WRITERS: dict[type[Strategy], Callable[[Any], dict[str, Any]]] = {
    AllRangesStrategy: all_ranges_arrays,
    EpochStrategy: epoch_arrays,
    KnownMarginalsStrategy: _residuals_arrays,
    KnownProductStrategy: _table_arrays,
    MarginalsStrategy: marginals_arrays,
    StreamStrategy: stream_arrays,
    TablesStrategy: tables_arrays,
    WeightedProductsStrategy: products_arrays,
    WeightedTablesStrategy: weighted_arrays,
}
_LARGE_WRITERS: dict[type[Strategy], Callable[[Any], dict[str, Any]]] = {
    BlockStrategy: _block_arrays,
    IdentityAndRows: _rows_arrays,
    ProductStrategy: _product_arrays,
}
_READERS: tuple[tuple[str, Callable[[str, Archive], Strategy]], ...] = (
    ("epochs", read_epochs),
    ("u", read_stream),
    ("poles", read_all_ranges),
    ("counted", _read_beside_table),
    (r"factor_[0-9]+", _read_product),
    ("diagonal", _read_rows),
    (r"block_[0-9]+", _read_blocks),
    ("sector_plain", tables_strategy),
    ("designed", products_strategy),
    ("tables", weighted_strategy),
    ("residuals", marginals_strategy),
)
