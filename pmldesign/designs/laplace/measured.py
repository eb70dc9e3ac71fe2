"""Which tables may be measured where tables are asked for.

All sets of the attributes asked about where there are few, and the asked tables with all their
subsets otherwise. Beside them larger ones: one table by four attributes of 4 values answers the six
tables by two of them, at a sixth of the sensitivity, with sixteen cells for each of theirs. For
every limit on the number of cells, each twice the one before, the asked tables are covered one by
one: a table grows by the attribute that completes the most of them, or brings the most of them
nearer, while it has no more cells than that (a greedy covering design). Twelve attributes of 2
values have all tables by two within 27, 15, 10, 6, 5, 3 tables by 3 to 8.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

import numpy as np
from scipy import sparse

from pmldesign_solvers.operators.operator import Array
from pmldesign_solvers.structure.subsets import ResidualSpaces, residual_spaces

ALL_SUBSETS = 8
"""Up to so many attributes all 2^8 tables are looked at; 3^8 pairs of one within another."""
LARGEST_TABLE = 2**22
"""Cells of a table that is not asked for and may be measured."""
MOST_COVERED = 1500
"""Tables asked for beyond which no larger ones are looked for; a second at 1140 tables."""

Subset = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MeasuredTables:
    """Tables that may be measured.

    Attributes:
        within: tables whose subsets are residual spaces of interest; see `contains`.
        larger: tables that contain several of those asked for.
        covers: numbers of tables, `larger` after `within`, that together contain all asked ones.
    """

    within: list[Subset]
    larger: list[Subset]
    covers: list[list[int]]

    @property
    def tables(self) -> list[Subset]:
        """All of them."""
        return self.within + self.larger

    def contains(self, spaces: ResidualSpaces) -> Any:
        """CSR array of shape (T, tables), 1 where T is within the table.

        Args:
            spaces: of the tables `within`, first, and of others.
        """
        known = spaces.incidence[:, : len(self.within)]
        if not self.larger:
            return known
        count = 1 + max(map(max, self.larger))
        missing = _flags(spaces.residuals, count) @ (1 - _flags(self.larger, count)).T
        return sparse.hstack([known, sparse.csr_array(missing == 0)], format="csr", dtype=float)


def _flags(subsets: Sequence[Subset], attributes: int) -> Array:
    flags = np.zeros((len(subsets), attributes))
    for row, subset in zip(flags, subsets, strict=True):
        row[[i for i in subset if i < attributes]] = 1.0
    return flags


def measured_tables(
    sizes: Sequence[int], asked: Sequence[Subset], *, public: bool
) -> MeasuredTables:
    """The tables that may be measured, without the total where it is public."""
    attributes = sorted(set().union(*asked))
    if len(attributes) <= ALL_SUBSETS:
        sets: list[Subset] = [
            subset
            for subset in chain.from_iterable(
                combinations(attributes, k) for k in range(len(attributes) + 1)
            )
            if subset in set(asked) or math.prod(sizes[i] for i in subset) <= LARGEST_TABLE
        ]
    else:
        sets = list(residual_spaces(sizes, asked).residuals)
    within = [subset for subset in sets if subset or not public]
    place = {subset: number for number, subset in enumerate(within)}
    covers = list(_covers(sizes, attributes, asked)) if 1 < len(asked) <= MOST_COVERED else []
    for subset in chain.from_iterable(covers):
        place.setdefault(subset, len(place))
    return MeasuredTables(
        within,
        list(place)[len(within) :],
        [[place[subset] for subset in cover] for cover in covers],
    )


def _covers(
    sizes: Sequence[int], attributes: Sequence[int], asked: Sequence[Subset]
) -> Iterator[list[Subset]]:
    """Tables that together contain all asked ones, for every limit on their cells."""
    inside = np.array([[i in subset for i in attributes] for subset in asked if subset])
    if not len(inside):
        return
    widths = np.array([sizes[i] for i in attributes], dtype=float)
    cells = np.prod(np.where(inside, widths, 1.0), axis=1)
    limit, most = float(cells.max()), min(float(LARGEST_TABLE), float(np.prod(widths)))
    before: list[Subset] = []
    while limit < most:
        limit = min(2 * limit, most)
        cover = [
            tuple(attributes[i] for i in np.flatnonzero(table).tolist())
            for table in _cover(inside, widths, cells, limit)
        ]
        if cover != before:
            yield cover
        before = cover


def _cover(inside: Any, widths: Array, cells: Array, limit: float) -> Iterator[Any]:
    """Flags of the attributes of tables of at most `limit` cells, unless more are asked for."""
    while len(inside):
        table = inside[cells.argmax()].copy()
        size = float(np.prod(widths[table]))
        while True:
            lacking = inside & ~table
            missing = lacking.sum(axis=1)
            nearest = missing == missing[missing > 0].min(initial=len(table) + 1)
            gains = lacking[nearest].sum(axis=0) * (widths * size <= limit) / np.log(widths)
            if not gains.any():
                break
            table[gains.argmax()] = True
            size *= widths[gains.argmax()]
        left = (inside & ~table).any(axis=1)
        inside, cells = inside[left], cells[left]
        yield table
