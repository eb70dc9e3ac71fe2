"""Larger tables that together contain those asked for, where a search over supports begins.

One table by four attributes of 4 values answers the six tables by two of them, at a sixth of the
sensitivity, with sixteen cells for each of theirs. For every limit on the number of cells, each
twice the one before, the asked tables are covered one by one: a table grows by the attribute that
completes the most of them, or brings the most of them nearer, while it has no more cells than that
(a greedy covering design). Twelve attributes of 2 values have all tables by two within 27, 15, 10,
6, 5, 3 tables by 3 to 8.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pmldesign_solvers.operators.operator import Array

LARGEST_TABLE = 2.0**22
"""Cells of a table that is not asked for and may be measured."""
MOST_ATTRIBUTES = 16
"""Of such a table: it has 2^16 residuals."""
MOST_COVERED = 1500
"""Tables asked for beyond which no larger ones are looked for; a second at 1140 tables."""


def covers(sizes: Array, asked: Array) -> Iterator[Array]:
    """Tables that together contain all asked ones, for every limit on their cells.

    Args:
        sizes: values of each attribute, over 1.
        asked: flags of the attributes of tables, shape (U, attributes).
    """
    inside = asked[asked.any(axis=1)] > 0
    if not 1 < len(inside) <= MOST_COVERED:
        return
    cells = np.prod(np.where(inside, sizes, 1.0), axis=1)
    limit, most = float(cells.max()), min(LARGEST_TABLE, float(np.prod(sizes)))
    before = inside
    while limit < most:
        limit = min(2 * limit, most)
        cover = np.array(list(_cover(inside, sizes, cells, limit)))
        if not np.array_equal(cover, before):
            yield cover.astype(float)
        before = cover


def _cover(inside: Any, sizes: Array, cells: Array, limit: float) -> Iterator[Any]:
    """Flags of the attributes of tables of at most `limit` cells, unless more are asked for."""
    while len(inside):
        table = inside[cells.argmax()].copy()
        size = float(np.prod(sizes[table]))
        while True:
            lacking = inside & ~table
            missing = lacking.sum(axis=1)
            nearest = missing == missing[missing > 0].min(initial=len(table) + 1)
            fits = (sizes * size <= limit) & (table.sum() < MOST_ATTRIBUTES)
            gains = lacking[nearest].sum(axis=0) * fits / np.log(sizes)
            if not gains.any():
                break
            table[gains.argmax()] = True
            size *= sizes[gains.argmax()]
        left = (inside & ~table).any(axis=1)
        inside, cells = inside[left], cells[left]
        yield table
