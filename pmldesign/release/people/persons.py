"""Which rows of a person are kept, by something that depends on that person's rows alone.

With h a hash under a key that is drawn afresh and kept nowhere, and up to k rows of a person i:

    any rows                  those with the least (r, h(i, cell)), r the equal rows before it
    one for each cell         one of each cell, the k cells of least h(i, cell)
    one for each value y      that of least h(i, cell) of each y, the k values of least h(i, y)

What is kept of some rows is what is kept of what was kept before, and of the rest: rows come in
batches, and memory is k rows for each person. A row of a value that is dropped is none. Numbers
have their value in place of a cell: rows are equal if they have equal values, and one for each cell
is one for each combination of the other attributes (`Schema.telling`).
"""

from __future__ import annotations

import math
import secrets
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmldesign.errors import InvalidInputError
from pmldesign.release.people.schema import Schema
from pmldesign.strategies.whole.integers import Integers
from pmldesign_solvers.operators.operator import Indices

MERGED = 2**22
"""Rows, at least, that are looked at together with those that were kept."""
MOST_CELLS = 2**62
"""Cells have a number each."""
TYPES = (np.uint32, np.uint64, np.uint64, np.int64)
Columns = tuple[NDArray[Any], ...]
"""Person, hash of the class, hash of the cell, and cell of each row."""


class KeptRows:
    """The rows of people that are kept, batch after batch.

    Args:
        schema: with the columns of a person.
        key: a number below 2^64, for tests alone; it is drawn from the operating system.

    Raises:
        InvalidInputError: the schema has too many cells.
    """

    def __init__(self, schema: Schema, key: int | None = None) -> None:
        if math.prod(attribute.code_count for attribute in schema.attributes) > MOST_CELLS:
            raise InvalidInputError(
                "rows of people with an identifier are kept in at most 2^62 cells and values of"
                " numbers; leave attributes out of the schema, or take larger units"
            )
        self._schema, self._times = schema, schema.rows_per_person
        self._key = secrets.randbits(64) if key is None else key
        self._names = [f"p{number}" for number in range(len(schema.person))]
        self._people: Any = None
        self._kept: Columns = tuple(np.zeros(0, dtype=kind) for kind in TYPES)
        self._new: list[Any] = []

    def add(self, ids: Any, cells: Integers) -> None:
        """Rows: the data frame of what tells people apart, and the numbers of the cells.

        Rows without a cell have a negative number.
        """
        import polars as pl

        self._new.append(ids.with_columns(pl.Series("cell", cells)).filter(pl.col("cell") >= 0))
        if sum(map(len, self._new)) >= max(MERGED, len(self._kept[0])):
            self._merge()

    def cells(self, *, exactly: bool = False) -> tuple[Integers, Integers]:
        """The cells of the rows that are kept, each once, and how many there are in each.

        Args:
            exactly: whether everybody has to have k rows.

        Raises:
            InvalidInputError: somebody has not.
        """
        self._merge()
        if exactly:
            everybody = 0 if self._people is None else len(self._people)
            short = np.bincount(self._kept[0], minlength=everybody) != self._times
            if short.any():
                raise InvalidInputError(
                    f"under replace everybody has exactly {self._times} rows, and {short.sum()}"
                    f" of {len(short)} people have fewer; take add-remove neighbours, for which"
                    f" {self._times} is the most"
                )
        cells, counts = np.unique(self._kept[3], return_counts=True)
        return cells, counts.astype(np.int64)

    def _columns(self) -> Columns:
        """The rows that were added since, with a number for each person."""
        import polars as pl

        rows, self._new = pl.concat(self._new), []
        own = rows.select(self._names)
        who = self._numbers(own)
        cells = rows["cell"].to_numpy()
        classes = self._classes(cells)
        order = self._hashed(own, cells if classes is None else classes)
        inside = np.zeros(len(who), np.uint64) if classes is None else self._hashed(own, cells)
        return who, order, inside, cells

    def _numbers(self, own: Any) -> NDArray[Any]:
        """The number of the person of each row; those who are new have the next ones."""
        import polars as pl

        names = self._names
        if self._people is None:
            self._people = own.head(0).with_columns(pl.Series("who", [], dtype=pl.UInt32))
        known = own.join(self._people, on=names, how="left", maintain_order="left")["who"]
        who = np.array(known.fill_null(0).to_numpy())
        others = own.filter(known.is_null())
        fresh, begin = others.unique(), len(self._people)
        codes = pl.Series("who", np.arange(begin, begin + len(fresh)), dtype=pl.UInt32)
        fresh = fresh.with_columns(codes)
        self._people = self._people.vstack(fresh)
        added = others.join(fresh, on=names, how="left", maintain_order="left")["who"]
        who[known.is_null().to_numpy()] = added.to_numpy()
        return who

    def _hashed(self, ids: Any, numbers: Integers) -> NDArray[Any]:
        import polars as pl

        columns = pl.struct([*self._names, "number"]).hash(self._key)
        hashed = ids.with_columns(pl.Series("number", numbers)).select(columns)
        return np.asarray(hashed.to_series().to_numpy())

    def _classes(self, cells: Integers) -> Integers | None:
        """The values of each row of which a person has one; None where these are its cell."""
        schema = self._schema
        if schema.one_per is None or all(schema.telling):
            return None
        classes, factor = np.zeros_like(cells), 1
        pairs = zip(schema.attributes, schema.telling, strict=True)
        for attribute, tells in reversed([*pairs]):
            cells, codes = np.divmod(cells, attribute.code_count)
            if tells:
                classes += factor * codes
                factor *= attribute.code_count
        return classes

    def _merge(self) -> None:
        """Keep of all rows what is to be kept."""
        if not self._new:
            return
        kept = self._kept, self._columns()
        rows = tuple(np.concatenate(columns) for columns in zip(*kept, strict=True))
        one = 1 if self._schema.one_per else self._times
        few = np.bincount(rows[0])[rows[0]] <= one
        chosen = self._chosen(_taken(rows, ~few))
        ends = zip(_taken(rows, few), chosen, strict=True)
        self._kept = tuple(np.concatenate(columns) for columns in ends)

    def _chosen(self, rows: Columns) -> Columns:
        """What is kept of people with several rows."""
        rows = _taken(rows, _sorted(rows[0], rows[1], rows[2]))
        who, order, *_ = rows
        equal = np.zeros(len(who), dtype=bool)
        equal[1:] = (who[1:] == who[:-1]) & (order[1:] == order[:-1])
        if self._schema.one_per is not None:
            rows = _taken(rows, ~equal)
        elif equal.any():
            rows = _taken(rows, np.lexsort((order, _places(~equal), who)))
        first = np.ones(len(rows[0]), dtype=bool)
        first[1:] = rows[0][1:] != rows[0][:-1]
        return _taken(rows, _places(first) < self._times)


def _sorted(who: NDArray[Any], order: NDArray[Any], inside: NDArray[Any]) -> Indices:
    """The order of rows by these, the first one first.

    By a number that has the person and the first half of the hash, and the few that have the same
    by all.
    """
    packed = (who.astype(np.uint64) << np.uint64(32)) | (order >> np.uint64(32))
    places = np.argsort(packed)
    packed = packed[places]
    same = packed[1:] == packed[:-1]
    shared = np.zeros(len(places), dtype=bool)
    shared[1:] |= same
    shared[:-1] |= same
    some = places[shared]
    places[shared] = some[np.lexsort((inside[some], order[some], who[some]))]
    return places


def _taken(columns: Columns, which: NDArray[Any]) -> Columns:
    return tuple(column[which] for column in columns)


def _places(first: NDArray[np.bool_]) -> Indices:
    """The place of each row in its run, from 0; `first` is true where a run begins."""
    starts = np.flatnonzero(first)
    lengths = np.diff(np.append(starts, len(first)))
    return np.arange(len(first)) - np.repeat(starts, lengths)
